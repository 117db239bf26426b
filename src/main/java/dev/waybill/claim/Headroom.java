package dev.waybill.claim;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;

/**
 * What the caps of some kinds still leave free, for one claim. Only kinds that have a cap pay for
 * it.
 *
 * <p>Nothing is counted up and down: a counter leaks with each crash. What runs is counted from the
 * running rows themselves, so that it heals when the reaper takes a lease back. And one claimer at
 * a time decides for a kind, under a lock that ends with its transaction: two that counted at once
 * would both take the last place. A claimer that does not get the lock passes the kind over, and
 * nobody waits.
 */
final class Headroom {

  /**
   * Its answer must be there before the counting statement takes its snapshot: hence two
   * statements.
   */
  private static final String DECIDE =
      """
      SELECT asked.kind FROM unnest(?::text[]) AS asked(kind) WHERE pg_try_advisory_xact_lock(7733811, hashtext(asked.kind))
      """;

  /**
   * One row for each kind, or for each of its tenants that has something running. The caps come
   * from the table, not from the cached policy: then all pods decide by the same. A rate is a
   * bucket that holds what comes in a twentieth of a second, and one: who was idle for long does
   * not catch up. What was noted at a time to come was noted before the clock was set back: until
   * then nothing would be begun any more, so it counts for nothing.
   *
   * <p>What is read of the running jobs is what claims took that asked for one of these kinds: no
   * more than there are slots in pools that serve them.
   */
  private static final String LEFT =
      """
      SELECT k.kind, k.tenant_cap, k.kind_cap, k.rate_per_second,
        bucket.size AS bucket, least(bucket.size,
          coalesce(r.left_over + greatest(0, extract(epoch FROM clock.at - r.at)) * k.rate_per_second, 'infinity')) AS left_over,
        clock.at, busy.tenant, busy.n
      FROM (SELECT clock_timestamp() AS at) clock CROSS JOIN waybill.kinds k
      CROSS JOIN LATERAL (SELECT 1.25 + k.rate_per_second * 0.05 AS size) bucket
      LEFT JOIN waybill.rates r ON r.kind = k.kind AND r.at < clock.at + interval '1 second'
      LEFT JOIN (
        SELECT j.kind, j.tenant, count(*) AS n FROM waybill.running j
        WHERE j.kinds_of_claim && ? AND j.kind = ANY (?) GROUP BY j.kind, j.tenant
      ) busy ON busy.kind = k.kind
      WHERE k.kind = ANY (?)
      """;

  private static final String SPEND =
      """
      INSERT INTO waybill.rates (kind, left_over, at)
      SELECT kind, left_over, at FROM unnest(?::text[], ?::float8[], ?::timestamptz[]) AS spent(kind, left_over, at)
      ON CONFLICT (kind) DO UPDATE SET left_over = EXCLUDED.left_over, at = EXCLUDED.at
      """;

  /** How soon to look again when a cap is reached, in case another pod's jobs ended. */
  private static final long AGAIN_MILLIS = 50;

  private static final class Kind {
    @Nullable Integer tenantCap;
    @Nullable Double ratePerSecond;
    double bucket;
    double leftOver;
    String at = "";
    int left = Integer.MAX_VALUE;
    int begun;
    final Map<String, Integer> running = new HashMap<>();
  }

  private final Map<String, Kind> decided;
  private final Collection<String> capped;
  private long heldMillis = Long.MAX_VALUE;
  private boolean full;

  private Headroom(Collection<String> capped, Map<String, Kind> decided) {
    this.capped = capped;
    this.decided = decided;
  }

  /** For a claim of kinds without caps. */
  static Headroom unbounded() {
    return new Headroom(List.of(), Map.of());
  }

  /** In the transaction of the claim. */
  static Headroom of(Connection connection, Collection<String> capped) throws SQLException {
    List<String> mine = new ArrayList<>();
    try (PreparedStatement statement = connection.prepareStatement(DECIDE)) {
      statement.setArray(1, connection.createArrayOf("text", capped.toArray()));
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          mine.add(rows.getString(1));
        }
      }
    }
    return new Headroom(capped, mine.isEmpty() ? Map.of() : left(connection, mine));
  }

  private static Map<String, Kind> left(Connection connection, List<String> kinds)
      throws SQLException {
    var left = new HashMap<String, Kind>();
    try (PreparedStatement statement = connection.prepareStatement(LEFT)) {
      var names = connection.createArrayOf("text", kinds.toArray());
      statement.setArray(1, names);
      statement.setArray(2, names);
      statement.setArray(3, names);
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          String name = rows.getString("kind");
          Kind kind = left.get(name);
          if (kind == null) {
            kind = read(rows);
            left.put(name, kind);
          }
          int running = rows.getInt("n");
          if (running > 0) {
            kind.running.put(rows.getString("tenant"), running);
            kind.left -= rows.getObject("kind_cap") == null ? 0 : running;
          }
        }
      }
    }
    return left;
  }

  private static Kind read(ResultSet row) throws SQLException {
    var kind = new Kind();
    kind.tenantCap = row.getObject("tenant_cap", Integer.class);
    kind.ratePerSecond = row.getObject("rate_per_second", Double.class);
    @Nullable Integer cap = row.getObject("kind_cap", Integer.class);
    kind.left = cap == null ? Integer.MAX_VALUE : cap;
    kind.bucket = row.getDouble("bucket");
    kind.leftOver = row.getDouble("left_over");
    kind.at = row.getString("at");
    return kind;
  }

  /** Allots up to {@code most} attempts to a lane; 0 when there is no room for it now. */
  int allot(Lane lane, int most) {
    Kind kind = decided.get(lane.kind());
    if (kind == null) {
      if (capped.contains(lane.kind())) {
        held(ThreadLocalRandom.current().nextLong(3, 10)); // Another one decides at this moment.
        return 0;
      }
      return most;
    }
    int n = Math.min(most, kind.left);
    if (kind.tenantCap != null) {
      n = Math.min(n, kind.tenantCap - kind.running.getOrDefault(lane.tenant(), 0));
    }
    if (n <= 0) {
      full = true;
      held(AGAIN_MILLIS);
    }
    if (kind.ratePerSecond != null) {
      // Not each half a millisecond's worth by itself: a claim that takes two jobs costs like one
      // that takes fifty.
      double worthwhile = kind.begun > 0 ? 1 : Math.max(1, kind.bucket / 2);
      int rate = (int) Math.min(Integer.MAX_VALUE, kind.leftOver) - kind.begun;
      if (rate < Math.min(n, worthwhile)) {
        held(Math.clamp((long) (250 / kind.ratePerSecond), 25, 1_000));
        rate = 0;
      }
      n = Math.min(n, rate);
    }
    if (n <= 0) {
      return 0;
    }
    kind.running.merge(lane.tenant(), n, Integer::sum);
    kind.left -= kind.left == Integer.MAX_VALUE ? 0 : n;
    kind.begun += n;
    return n;
  }

  /** No room here, whatever the caps say. */
  void noRoom() {
    full = true;
    held(AGAIN_MILLIS);
  }

  private void held(long millis) {
    heldMillis = Math.min(heldMillis, millis);
  }

  /** When a lane was passed over for want of room: how soon to ask again; otherwise 0. */
  long heldMillis() {
    return heldMillis == Long.MAX_VALUE ? 0 : heldMillis;
  }

  /** Whether a lane was passed over that may have room as soon as a running job ends. */
  boolean full() {
    return full;
  }

  /** Writes down what was begun of the kinds that have a rate, in the transaction of the claim. */
  void spend(Connection connection, Map<String, Integer> begun) throws SQLException {
    var kinds = new ArrayList<String>();
    var leftOver = new ArrayList<Double>();
    var at = new ArrayList<String>();
    begun.forEach((name, n) -> {
      Kind kind = decided.get(name);
      if (kind != null && kind.ratePerSecond != null) {
        kinds.add(name);
        leftOver.add(kind.leftOver - n);
        at.add(kind.at);
      }
    });
    if (kinds.isEmpty()) {
      return;
    }
    try (PreparedStatement statement = connection.prepareStatement(SPEND)) {
      statement.setArray(1, connection.createArrayOf("text", kinds.toArray()));
      statement.setArray(2, connection.createArrayOf("float8", leftOver.toArray()));
      statement.setArray(3, connection.createArrayOf("timestamptz", at.toArray()));
      statement.executeUpdate();
    }
  }
}
