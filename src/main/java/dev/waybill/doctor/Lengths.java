package dev.waybill.doctor;

import dev.waybill.figures.Measured;
import dev.waybill.job.Delivery;
import dev.waybill.job.Policy;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Leases and time limits beside how long attempts really take. */
final class Lengths {

  private static final String POLICIES =
      "SELECT k.kind, coalesce(k.delivery, ?) AS delivery, coalesce(k.lease_ms, ?) AS lease_ms, coalesce(k.timeout_ms, ?) AS timeout_ms FROM waybill.kinds k";

  /** One heartbeat that fails takes up to 8 s, the limit of its statement. */
  private static final Duration LEASE_LEAST = Duration.ofSeconds(10);

  private static final int TOLD_MAX = 20;

  private record Limits(String kind, String delivery, Duration lease, Duration timeout) {

    static Limits read(ResultSet row) throws SQLException {
      return new Limits(
          row.getString("kind"),
          row.getString("delivery"),
          Duration.ofMillis(row.getLong("lease_ms")),
          Duration.ofMillis(row.getLong("timeout_ms")));
    }

    boolean pulled() {
      return delivery.equals(Delivery.PULL.word());
    }
  }

  private Lengths() {}

  static List<Finding> look(Connection connection, Patient patient) throws SQLException {
    Policy or = Policy.DEFAULT;
    Map<String, Limits> policies = new HashMap<>();
    for (Limits one :
        Ask.rows(
            connection,
            Limits::read,
            POLICIES,
            or.delivery().word(),
            or.lease().toMillis(),
            or.timeout().toMillis())) {
      policies.put(one.kind(), one);
    }
    var findings = new ArrayList<Finding>();
    for (Limits limits : policies.values()) {
      if (!limits.pulled() && limits.lease().compareTo(LEASE_LEAST) < 0) {
        findings.add(
            Finding.warn(
                "durations",
                limits.kind()
                    + ": a lease of "
                    + span(limits.lease())
                    + " is lost with the first heartbeat that fails",
                put(limits.kind(), "lease", Duration.ofSeconds(30))));
      }
    }
    List<Measured> measured = Measured.all(connection);
    for (Measured one : measured) {
      Limits limits =
          policies.getOrDefault(
              one.kind(), new Limits(one.kind(), or.delivery().word(), or.lease(), or.timeout()));
      Finding finding = judge(one, limits);
      if (finding.verdict() != Verdict.OK || findings.size() < TOLD_MAX) {
        findings.add(finding);
      }
    }
    return findings.isEmpty()
        ? List.of(Finding.ok("durations", "no attempt was measured within the last week"))
        : findings;
  }

  private static Finding judge(Measured measured, Limits limits) {
    String kind = measured.kind();
    String took =
        kind
            + ": "
            + measured.attempts()
            + " attempts, p50 "
            + span(measured.p50())
            + ", p99 "
            + span(measured.p99())
            + ", p99.9 "
            + span(measured.p999());
    @Nullable Duration timeout = measured.suggestedTimeout();
    @Nullable Duration lease = measured.suggestedLease(limits.pulled());
    if (timeout != null
        && measured.p999() != null
        && limits.timeout().compareTo(measured.p999()) <= 0) {
      return Finding.warn(
          "durations",
          took + ": the time limit of " + span(limits.timeout()) + " cuts attempts off",
          put(kind, "timeout", timeout));
    }
    if (limits.pulled()
        && lease != null
        && measured.p999() != null
        && limits.lease().compareTo(measured.p999()) <= 0) {
      return Finding.warn(
          "durations",
          took + ": the lease of " + span(limits.lease()) + " ends before, for who extends none",
          put(kind, "lease", lease));
    }
    return Finding.ok(
        "durations",
        took
            + "; has lease "
            + span(limits.lease())
            + " and time limit "
            + span(limits.timeout())
            + ", suggested "
            + span(lease)
            + " and "
            + span(timeout));
  }

  private static String put(String kind, String field, Duration right) {
    return "put \"" + field + "\": \"" + right + "\" into its policy (PUT /v1/kinds/" + kind + ")";
  }

  private static String span(@Nullable Duration duration) {
    return duration == null ? "not known yet" : Spans.of(duration.toNanos() / 1e9);
  }
}
