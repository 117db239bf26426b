package dev.waybill.doctor;

import dev.waybill.job.Policy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** The days of jobs_done: those to come, those past, and one that is stuck between. */
final class Partitions {

  /** Days from today on that have none. */
  private static final String MISSING =
      """
      SELECT d.day - (now() AT TIME ZONE 'UTC')::date AS ahead, d.day::text AS day
      FROM (SELECT g::date AS day FROM generate_series((now() AT TIME ZONE 'UTC')::date, (now() AT TIME ZONE 'UTC')::date + 7, '1 day') g) d
      WHERE NOT EXISTS (SELECT FROM waybill.done_partitions() p
        WHERE p.begins <= d.day::timestamp AT TIME ZONE 'UTC' AND p.ends > d.day::timestamp AT TIME ZONE 'UTC' AND NOT p.detaching)
      ORDER BY d.day
      """;

  /** As retain.Dropper decides, a day later: it looks once a minute. */
  private static final String OLD =
      """
      WITH kept AS MATERIALIZED (
        SELECT coalesce(max(coalesce(k.retention_ms, ?)), ?) * interval '1 millisecond' AS longest
        FROM (SELECT DISTINCT kind FROM waybill.counts) t LEFT JOIN waybill.kinds k ON k.kind = t.kind
      )
      SELECT p.name FROM waybill.done_partitions() p, kept
      WHERE p.ends < now() - greatest(kept.longest, interval '1 hour') - interval '1 day' ORDER BY p.ends
      """;

  /** While a detach is under way its session holds a lock on the parent that everybody can see. */
  private static final String HALF =
      """
      SELECT p.name, EXISTS (SELECT FROM pg_locks l WHERE l.relation = 'waybill.jobs_done'::regclass AND l.granted
        AND l.mode = 'ShareUpdateExclusiveLock')
      FROM waybill.done_partitions() p WHERE p.detaching
      """;

  private static final String COUNT = "SELECT count(*) FROM waybill.done_partitions()";

  private record Day(int ahead, String day) {}

  private record Half(String name, boolean underWay) {}

  private Partitions() {}

  static List<Finding> look(Connection connection, Patient patient) throws SQLException {
    var findings = new ArrayList<Finding>();
    missing(connection, findings);
    for (Half half :
        Ask.rows(connection, row -> new Half(row.getString(1), row.getBoolean(2)), HALF)) {
      if (!half.underWay()) {
        findings.add(
            Finding.wrong(
                "partitions",
                half.name() + " is half detached and nobody goes on with it: no other day can go",
                "ALTER TABLE waybill.jobs_done DETACH PARTITION waybill."
                    + half.name()
                    + " FINALIZE; -- a process with the role maintenance does it, too"));
      }
    }
    long kept = Policy.DEFAULT.retention().toMillis();
    List<String> old = Ask.rows(connection, row -> row.getString(1), OLD, kept, kept);
    if (!old.isEmpty()) {
      findings.add(
          Finding.wrong(
              "partitions",
              old.size() + " past every retention and not dropped, the oldest is " + old.getFirst(),
              "see that a process with the role maintenance runs, and that no session holds an old"
                  + " snapshot (below)"));
    }
    if (findings.isEmpty()) {
      String count = Ask.text(connection, COUNT);
      findings.add(
          Finding.ok("partitions", count + " days, a week ahead, none that should be gone"));
    }
    return findings;
  }

  private static void missing(Connection connection, List<Finding> findings) throws SQLException {
    List<Day> missing =
        Ask.rows(connection, row -> new Day(row.getInt("ahead"), row.getString("day")), MISSING);
    if (missing.isEmpty()) {
      return;
    }
    Day first = missing.getFirst();
    String which =
        switch (first.ahead()) {
          case 0 -> "today, " + first.day() + ", has none: no job can be settled";
          case 1 -> "tomorrow, " + first.day() + ", has none: no job can be settled from then on";
          default -> first.day() + " has none: no process makes them ahead";
        };
    findings.add(
        new Finding(
            first.ahead() <= 1 ? Verdict.WRONG : Verdict.WARN,
            "partitions",
            which,
            "SELECT waybill.make_partitions(); -- and see that a process with the role maintenance"
                + " runs"));
  }
}
