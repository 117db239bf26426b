package dev.waybill.doctor;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** Whether jobs are run in time, by kind. */
final class Lag {

  /** From the tally and the heads of the lanes: costs the same however many jobs there are. */
  private static final String KINDS =
      """
      SELECT f.kind, f.scheduled, f.ready, f.running, coalesce(f.oldest_ready_seconds, 0) AS lag, f.dead, f.dead_last_24h,
        coalesce(k.paused, false) AS paused, coalesce(k.delivery, 'bean') AS delivery, k.kind_cap, k.tenant_cap, k.rate_per_second,
        EXISTS (SELECT FROM waybill.workers w, jsonb_array_elements(w.pools) p
          WHERE w.seen_at > now() - interval '20 seconds' AND jsonb_exists(p.value -> 'kinds', f.kind)) AS claimed
      FROM waybill.figures() f LEFT JOIN waybill.kinds k ON k.kind = f.kind ORDER BY f.kind
      """;

  /** As many as there are slots. */
  private static final String ORPHANS =
      """
      SELECT count(*), coalesce(max(extract(epoch FROM now() - j.lease_until)), 0)
      FROM waybill.running j WHERE j.lease_until < now() - interval '30 seconds'
      """;

  /** The head of its index. */
  private static final String NOT_PROMOTED =
      """
      SELECT coalesce((SELECT extract(epoch FROM now() - j.run_at) FROM waybill.jobs j
        WHERE NOT j.due ORDER BY j.run_at LIMIT 1), 0)
      """;

  private static final double UNCLAIMED_SECONDS = 10;
  private static final double NOT_PROMOTED_SECONDS = 30;
  private static final long DEAD_MIN = 10;

  private record Kind(
      String name,
      long ready,
      long running,
      double lag,
      long dead,
      long deadLast24h,
      boolean paused,
      String delivery,
      boolean capped,
      boolean claimed) {

    /** Whatever the limit is: it will be reached. Ten seconds are a start of a process. */
    boolean unclaimed() {
      return !claimed && !paused && !delivery.equals("pull") && lag > UNCLAIMED_SECONDS;
    }

    static Kind read(ResultSet row) throws SQLException {
      boolean capped =
          row.getObject("kind_cap") != null
              || row.getObject("tenant_cap") != null
              || row.getObject("rate_per_second") != null;
      return new Kind(
          row.getString("kind"),
          row.getLong("ready"),
          row.getLong("running"),
          row.getDouble("lag"),
          row.getLong("dead"),
          row.getLong("dead_last_24h"),
          row.getBoolean("paused"),
          row.getString("delivery"),
          capped,
          row.getBoolean("claimed"));
    }
  }

  private Lag() {}

  static List<Finding> look(Connection connection, Patient patient) throws SQLException {
    var findings = new ArrayList<Finding>();
    List<Kind> kinds = Ask.rows(connection, Kind::read, KINDS);
    double worst = 0;
    for (Kind kind : kinds) {
      worst = Math.max(worst, kind.lag());
      Verdict verdict = patient.limits().ofLag(kind.lag());
      if (verdict == Verdict.OK && kind.unclaimed()) {
        verdict = Verdict.WARN;
      }
      if (kind.ready() > 0 && verdict != Verdict.OK) {
        findings.add(late(kind, verdict));
      }
    }
    double late = Double.parseDouble(Ask.text(connection, NOT_PROMOTED));
    if (late > NOT_PROMOTED_SECONDS) {
      findings.add(
          Finding.wrong(
              "lag",
              "a scheduled job's time came " + Spans.of(late) + " ago and nobody made it ready",
              "see that a process with the role worker runs"));
    }
    return findings.isEmpty()
        ? List.of(
            Finding.ok("lag", kinds.size() + " kinds, the longest wait is " + Spans.of(worst)))
        : findings;
  }

  private static Finding late(Kind kind, Verdict verdict) {
    String waits = kind.name() + ": " + kind.ready() + " ready, the oldest since ";
    waits += Spans.of(kind.lag());
    if (kind.paused()) {
      return Finding.warn(
          "lag", waits + ", and the kind is paused", "POST /v1/kinds/" + kind.name() + "/resume");
    }
    if (kind.delivery().equals("pull")) {
      return new Finding(
          verdict,
          "lag",
          waits + ", " + kind.running() + " running: workers elsewhere take too few",
          "start (more) workers that ask POST /v1/leases for it");
    }
    if (!kind.claimed()) {
      return new Finding(
          verdict,
          "lag",
          waits + ", and nobody claims this kind: no live process has it in a pool",
          "start a build with a handler for it, name it in WAYBILL_POOLS, or set its delivery");
    }
    return new Finding(
        verdict,
        "lag",
        waits + ", " + kind.running() + " running",
        kind.capped()
            ? "look whether its caps or its rate are what holds it (GET /v1/kinds/"
                + kind.name()
                + "), then at snapshots and vacuum below, then at slots"
            : "look at snapshots and vacuum below first; if they are well, more slots or processes");
  }

  static List<Finding> orphans(Connection connection, Patient patient) throws SQLException {
    record Lost(long jobs, double seconds) {}
    Lost lost =
        Ask.rows(connection, row -> new Lost(row.getLong(1), row.getDouble(2)), ORPHANS).getFirst();
    return lost.jobs() == 0
        ? List.of(Finding.ok("leases", "every lease that is over was taken back"))
        : List.of(
            Finding.wrong(
                "leases",
                lost.jobs()
                    + " running jobs whose lease is over, the longest since "
                    + Spans.of(lost.seconds())
                    + ": nobody takes them back",
                "see that a process with the role maintenance runs"));
  }

  /** A day that doubled what was there is growth; a few a day are usual. */
  static List<Finding> dead(Connection connection, Patient patient) throws SQLException {
    var findings = new ArrayList<Finding>();
    long all = 0;
    for (Kind kind : Ask.rows(connection, Kind::read, KINDS)) {
      all += kind.dead();
      if (kind.deadLast24h() >= DEAD_MIN && 2 * kind.deadLast24h() >= kind.dead()) {
        findings.add(
            Finding.warn(
                "dead",
                kind.name()
                    + ": "
                    + kind.deadLast24h()
                    + " died in the last 24 hours, of "
                    + kind.dead()
                    + " dead letters",
                "GET /v1/dlq/groups?kind="
                    + kind.name()
                    + " says why; once that is mended, POST /v1/dlq/replays"));
      }
    }
    return findings.isEmpty()
        ? List.of(Finding.ok("dead", all + " dead letters, no sudden growth"))
        : findings;
  }
}
