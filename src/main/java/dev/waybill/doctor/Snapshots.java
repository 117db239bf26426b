package dev.waybill.doctor;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/**
 * Who keeps vacuum from removing dead rows. A snapshot held for minutes makes each claim walk over
 * everything that finished since.
 */
final class Snapshots {

  /**
   * Sessions of other roles show their horizon to everybody, but state and times only to members of
   * pg_read_all_stats. Autovacuum's own snapshots hold nobody back, and it is nobody's session; a
   * walsender's (of a standby with hot_standby_feedback) belongs to no database.
   */
  private static final String SESSIONS =
      """
      SELECT a.pid, coalesce(a.usename, '') AS role, coalesce(a.application_name, '') AS application, coalesce(a.state, '') AS state,
        coalesce(host(a.client_addr), 'local') AS address, a.backend_type,
        extract(epoch FROM now() - a.xact_start)::float8 AS seconds, greatest(age(a.backend_xmin), age(a.backend_xid)) AS transactions
      FROM pg_stat_activity a
      WHERE (a.datname = current_database() OR a.backend_type = 'walsender') AND a.pid <> pg_backend_pid()
        AND a.usesysid IS NOT NULL AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
      ORDER BY a.xact_start, a.pid
      """;

  private static final String SLOTS =
      """
      SELECT s.slot_name, s.active, greatest(age(s.xmin), age(s.catalog_xmin)) AS transactions,
        pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint AS bytes
      FROM pg_replication_slots s WHERE NOT s.active OR age(s.xmin) > 1000000 ORDER BY s.slot_name
      """;

  private static final String PREPARED =
      """
      SELECT p.gid, p.owner, extract(epoch FROM now() - p.prepared)::float8 AS seconds
      FROM pg_prepared_xacts p WHERE p.database = current_database() ORDER BY p.prepared
      """;

  /** Whose time cannot be seen is judged by how far the transactions went on since. */
  private static final long TRANSACTIONS = 100_000;

  private record Holder(
      int pid,
      String role,
      String application,
      String state,
      String address,
      String type,
      double seconds,
      boolean timed,
      long transactions) {

    static Holder read(ResultSet row) throws SQLException {
      double seconds = row.getDouble("seconds");
      boolean timed = !row.wasNull();
      return new Holder(
          row.getInt("pid"),
          row.getString("role"),
          row.getString("application"),
          row.getString("state"),
          row.getString("address"),
          row.getString("backend_type"),
          seconds,
          timed,
          row.getLong("transactions"));
    }
  }

  private Snapshots() {}

  static List<Finding> sessions(Connection connection, Patient patient) throws SQLException {
    var findings = new ArrayList<Finding>();
    long hidden = 0;
    for (Holder holder : Ask.rows(connection, Holder::read, SESSIONS)) {
      if (holder.timed()) {
        Verdict verdict = patient.limits().ofSnapshot(holder.seconds());
        if (verdict != Verdict.OK) {
          findings.add(held(holder, verdict, "for " + Spans.of(holder.seconds())));
        }
      } else if (holder.transactions() > TRANSACTIONS) {
        String since = "since " + holder.transactions() + " transactions";
        findings.add(held(holder, Verdict.WRONG, since));
      } else {
        hidden++;
      }
    }
    if (hidden > 0) {
      findings.add(
          Finding.warn(
              "snapshots",
              hidden
                  + " sessions of other roles hold one, and "
                  + patient.login().user()
                  + " may not see since when",
              "GRANT pg_read_all_stats TO " + patient.login().user() + ";"));
    }
    return findings.isEmpty()
        ? List.of(Finding.ok("snapshots", "none is held for long"))
        : findings;
  }

  private static Finding held(Holder holder, Verdict verdict, String since) {
    String who =
        "pid "
            + holder.pid()
            + " (role "
            + holder.role()
            + ", application '"
            + holder.application()
            + "', "
            + holder.address()
            + (holder.state().isEmpty() ? "" : ", " + holder.state())
            + ")";
    boolean standby = "walsender".equals(holder.type());
    return new Finding(
        verdict,
        "snapshots",
        who + " holds a snapshot " + since + ": dead rows stay and claims slow down",
        standby
            ? "a query runs on that standby with hot_standby_feedback = on: end it there"
            : "SELECT pg_terminate_backend(" + holder.pid() + "); -- its transaction rolls back");
  }

  static List<Finding> slots(Connection connection, Patient patient) throws SQLException {
    record Slot(String name, boolean active, long transactions, long bytes) {}
    List<Slot> slots =
        Ask.rows(
            connection,
            row ->
                new Slot(
                    row.getString("slot_name"),
                    row.getBoolean("active"),
                    row.getLong("transactions"),
                    row.getLong("bytes")),
            SLOTS);
    if (slots.isEmpty()) {
      return List.of(Finding.ok("slots", "no replication slot is left behind"));
    }
    return slots.stream()
        .map(slot ->
            Finding.wrong(
                "slots",
                "replication slot "
                    + slot.name()
                    + (slot.active() ? " lags " : " has no reader and keeps ")
                    + Spans.bytes(slot.bytes())
                    + " of WAL"
                    + (slot.transactions() > 0
                        ? ", and a horizon " + slot.transactions() + " transactions old"
                        : ""),
                "bring its reader back, or SELECT pg_drop_replication_slot('"
                    + slot.name().replace("'", "''")
                    + "'); -- that reader then has to begin anew"))
        .toList();
  }

  static List<Finding> prepared(Connection connection, Patient patient) throws SQLException {
    record Prepared(String gid, String owner, double seconds) {}
    List<Finding> old =
        Ask.rows(
                connection,
                row -> new Prepared(row.getString(1), row.getString(2), row.getDouble(3)),
                PREPARED)
            .stream()
            .filter(one -> patient.limits().ofSnapshot(one.seconds()) != Verdict.OK)
            .map(one ->
                new Finding(
                    patient.limits().ofSnapshot(one.seconds()),
                    "prepared",
                    "transaction '"
                        + one.gid()
                        + "' of "
                        + one.owner()
                        + " is prepared and not ended for "
                        + Spans.of(one.seconds())
                        + ": it holds vacuum and locks",
                    "ROLLBACK PREPARED '"
                        + one.gid().replace("'", "''")
                        + "'; -- or COMMIT PREPARED, as its coordinator says"))
            .toList();
    return old.isEmpty()
        ? List.of(Finding.ok("prepared", "no prepared transaction is left behind"))
        : old;
  }
}
