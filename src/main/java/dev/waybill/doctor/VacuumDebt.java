package dev.waybill.doctor;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** Dead rows that wait for vacuum, and how old the oldest transaction number is. */
final class VacuumDebt {

  private static final String TABLES =
      """
      SELECT s.relname, s.n_live_tup, s.n_dead_tup,
        coalesce(extract(epoch FROM now() - greatest(s.last_autovacuum, s.last_vacuum)), -1)::float8 AS seconds
      FROM pg_stat_user_tables s
      WHERE s.schemaname = 'waybill' AND s.relname IN ('jobs', 'jobs_dead', 'tally', 'arrivals', 'claims', 'kinds', 'workers', 'figures_past', 'idempotency')
      ORDER BY s.relname
      """;

  private static final String XID =
      "SELECT age(d.datfrozenxid) FROM pg_database d WHERE d.datname = current_database()";

  /**
   * The service vacuums its hot tables from a thousand dead rows on and every few seconds; so many,
   * and as many as half of the living, means that it does not come through.
   */
  private static final long WARN_ROWS = 50_000;

  private static final long WRONG_ROWS = 1_000_000;
  private static final long XID_WARN = 500_000_000L;
  private static final long XID_WRONG = 1_500_000_000L;

  private record Table(String name, long live, long dead, double seconds) {}

  private VacuumDebt() {}

  static List<Finding> look(Connection connection, Patient patient) throws SQLException {
    var findings = new ArrayList<Finding>();
    long dead = 0;
    for (Table table :
        Ask.rows(
            connection,
            row -> new Table(row.getString(1), row.getLong(2), row.getLong(3), row.getDouble(4)),
            TABLES)) {
      dead += table.dead();
      Verdict verdict = judge(table.live(), table.dead());
      if (verdict != Verdict.OK) {
        findings.add(
            new Finding(
                verdict,
                "vacuum",
                "waybill."
                    + table.name()
                    + " has "
                    + table.dead()
                    + " dead rows beside "
                    + table.live()
                    + " living, vacuumed "
                    + (table.seconds() < 0 ? "never" : Spans.of(table.seconds()) + " ago"),
                "end what holds a snapshot (above) first, then: VACUUM (VERBOSE) waybill."
                    + table.name()
                    + ";"));
      }
    }
    return findings.isEmpty()
        ? List.of(Finding.ok("vacuum", dead + " dead rows, vacuum keeps up"))
        : findings;
  }

  static Verdict judge(long live, long dead) {
    if (dead < WARN_ROWS || 2 * dead < live) {
      return Verdict.OK;
    }
    return dead < WRONG_ROWS ? Verdict.WARN : Verdict.WRONG;
  }

  static List<Finding> wraparound(Connection connection, Patient patient) throws SQLException {
    long age = Long.parseLong(Ask.text(connection, XID));
    return List.of(judgeXid(age));
  }

  static Finding judgeXid(long age) {
    String says = "the oldest transaction number is " + age + " old";
    if (age < XID_WARN) {
      return Finding.ok("wraparound", says);
    }
    return new Finding(
        age < XID_WRONG ? Verdict.WARN : Verdict.WRONG,
        "wraparound",
        says + ": at 2,100,000,000 the server takes no more writes",
        "end what holds a snapshot, a slot or a prepared transaction (above), then: VACUUM (FREEZE);"
            + " in the table that SELECT oid::regclass FROM pg_class WHERE relkind = 'r' ORDER BY"
            + " age(relfrozenxid) DESC LIMIT 1 names");
  }
}
