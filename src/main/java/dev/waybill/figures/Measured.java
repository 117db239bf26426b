package dev.waybill.figures;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * How long attempts of a kind took within the last week, however they ended, and what follows from
 * that for its policy. Each figure is at most a quarter too high.
 *
 * @param p50 half of the attempts took no longer
 * @param p99 null below 100 attempts
 * @param p999 null below 1,000 attempts
 */
public record Measured(
    String kind, long attempts, Duration p50, @Nullable Duration p99, @Nullable Duration p999) {

  /** A week, with today. By the primary key: the days are named. */
  private static final String READ =
      """
      SELECT d.kind, d.bucket, sum(d.n) FROM waybill.durations d
      WHERE d.day = ANY (SELECT (now() AT TIME ZONE 'UTC')::date - g FROM generate_series(0, 7) g) AND (?::text IS NULL OR d.kind = ?)
      GROUP BY d.kind, d.bucket
      """;

  private static final int FOR_P99 = 100;
  private static final int FOR_P999 = 1_000;

  /** Below this one heartbeat that fails (its statement's limit is 8 s) loses the lease. */
  private static final Duration LEASE_MIN = Duration.ofSeconds(30);

  /** A crash makes a job wait for so long. */
  private static final Duration LEASE_MAX = Duration.ofMinutes(2);

  private static final Duration PULLED_LEASE_MAX = Duration.ofHours(1);
  private static final Duration TIMEOUT_MIN = Duration.ofSeconds(10);
  private static final Duration TIMEOUT_MAX = Duration.ofDays(30);
  private static final int TIMES = 3;

  /** Round ones, in seconds. */
  private static final int[] STEPS = {
    10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1_200, 1_800, 3_600
  };

  /** In the order of their names. */
  public static List<Measured> all(Connection connection) throws SQLException {
    return read(connection, null);
  }

  /** Null when nothing was measured. */
  public static @Nullable Measured of(Connection connection, String kind) throws SQLException {
    List<Measured> one = read(connection, kind);
    return one.isEmpty() ? null : one.getFirst();
  }

  private static List<Measured> read(Connection connection, @Nullable String kind)
      throws SQLException {
    var counts = new TreeMap<String, long[]>();
    try (PreparedStatement statement = connection.prepareStatement(READ)) {
      statement.setString(1, kind);
      statement.setString(2, kind);
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          long[] buckets = counts.computeIfAbsent(row.getString(1), _ -> new long[Bucket.COUNT]);
          buckets[Math.clamp(row.getInt(2), 0, Bucket.COUNT - 1)] += row.getLong(3);
        }
      }
    }
    var measured = new ArrayList<Measured>();
    for (Map.Entry<String, long[]> one : counts.entrySet()) {
      measured.add(of(one.getKey(), one.getValue()));
    }
    return measured;
  }

  static Measured of(String kind, long[] buckets) {
    long attempts = 0;
    for (long n : buckets) {
      attempts += n;
    }
    return new Measured(
        kind,
        attempts,
        quantile(buckets, attempts, 0.5),
        attempts < FOR_P99 ? null : quantile(buckets, attempts, 0.99),
        attempts < FOR_P999 ? null : quantile(buckets, attempts, 0.999));
  }

  private static Duration quantile(long[] buckets, long attempts, double part) {
    long wanted = (long) Math.ceil(part * attempts);
    int bucket = 0;
    for (long seen = buckets[0]; seen < wanted && bucket < buckets.length - 1; ) {
      seen += buckets[++bucket];
    }
    return Bucket.end(bucket);
  }

  /**
   * A lease is not the length of a job: whoever holds it extends it from a third of it on. It
   * decides how long a job waits after a crash. So it is short, but long enough for a heartbeat
   * that fails; and for the usual job to end before it is extended at all, if that is cheap.
   *
   * <p>A worker elsewhere may not extend at all: there it covers nearly every attempt twice.
   *
   * @param pulled whether the kind's jobs go to workers elsewhere
   */
  public @Nullable Duration suggestedLease(boolean pulled) {
    if (pulled) {
      return p999 == null ? null : round(p999.multipliedBy(2), LEASE_MIN, PULLED_LEASE_MAX);
    }
    return p99 == null ? null : round(p99.multipliedBy(TIMES), LEASE_MIN, LEASE_MAX);
  }

  /**
   * Three times what all but one in a thousand take. Attempts that the present limit cut off count
   * with the time that they had: when they are many, this is above it.
   */
  public @Nullable Duration suggestedTimeout() {
    return p999 == null ? null : round(p999.multipliedBy(TIMES), TIMEOUT_MIN, TIMEOUT_MAX);
  }

  /** Up to the next round one. */
  private static Duration round(Duration wanted, Duration least, Duration most) {
    Duration within = wanted.compareTo(least) < 0 ? least : wanted;
    within = within.compareTo(most) > 0 ? most : within;
    for (int step : STEPS) {
      if (within.compareTo(Duration.ofSeconds(step)) <= 0) {
        return Duration.ofSeconds(step);
      }
    }
    long hours = Math.ceilDiv(within.toSeconds(), 3_600);
    return Duration.ofHours(hours);
  }
}
