package dev.waybill.policy;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The policies as they are stored: read one, replace one, pause one. */
public final class Kinds {

  /** A kind has a policy when its row is there, and is known when there ever was a job of it. */
  private static final String READ =
      """
      SELECT s.kind, coalesce(k.version, 0) AS version, k.updated_at, k.max_attempts, k.backoff_base_ms, k.backoff_factor,
        k.backoff_cap_ms, k.backoff_jitter, k.lease_ms, k.timeout_ms, k.retention_ms, k.dead_retention_ms, k.tenant_cap, k.kind_cap,
        k.rate_per_second, coalesce(k.paused, false) AS paused, k.delivery, k.push_url, k.push_secret, k.archive
      FROM (SELECT kind FROM waybill.kinds UNION SELECT kind FROM waybill.counts) s LEFT JOIN waybill.kinds k ON k.kind = s.kind
      WHERE ?::text IS NULL OR s.kind = ? ORDER BY s.kind COLLATE "C"
      """;

  /** A row that is not there cannot be locked. By itself, so that the next statement sees. */
  private static final String LOCK_NAME = "SELECT pg_advisory_xact_lock(7733811, hashtext(?))";

  private static final String LOCK =
      "SELECT version FROM waybill.kinds WHERE kind = ? FOR NO KEY UPDATE";

  private static final String ROOM =
      """
      WITH known AS MATERIALIZED (SELECT kind FROM waybill.kinds UNION SELECT kind FROM waybill.counts)
      SELECT ?::text[] <@ (SELECT coalesce(array_agg(kind), '{}') FROM known)
        OR (SELECT count(*) FROM (SELECT kind FROM known UNION SELECT unnest(?::text[])) k) <= (SELECT kinds_max FROM waybill.limits)
      """;

  private static final String KNOWN =
      """
      SELECT k FROM unnest(?::text[]) k WHERE EXISTS (SELECT FROM waybill.kinds s WHERE s.kind = k)
        OR EXISTS (SELECT FROM waybill.counts t WHERE t.kind = k)
      """;

  private static final String REPLACE =
      """
      INSERT INTO waybill.kinds AS k (kind, max_attempts, backoff_base_ms, backoff_factor, backoff_cap_ms, backoff_jitter, lease_ms,
        timeout_ms, retention_ms, dead_retention_ms, tenant_cap, kind_cap, rate_per_second, paused, delivery, push_url, push_secret,
        archive)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, false), ?, ?, ?, ?)
      ON CONFLICT (kind) DO UPDATE SET max_attempts = excluded.max_attempts, backoff_base_ms = excluded.backoff_base_ms,
        backoff_factor = excluded.backoff_factor, backoff_cap_ms = excluded.backoff_cap_ms, backoff_jitter = excluded.backoff_jitter,
        lease_ms = excluded.lease_ms, timeout_ms = excluded.timeout_ms, retention_ms = excluded.retention_ms,
        dead_retention_ms = excluded.dead_retention_ms, tenant_cap = excluded.tenant_cap, kind_cap = excluded.kind_cap,
        rate_per_second = excluded.rate_per_second, delivery = excluded.delivery,
        push_url = excluded.push_url, push_secret = excluded.push_secret, archive = excluded.archive,
        paused = coalesce(?, k.paused)
      """;

  /**
   * Only what has no value of its own: what an operator set over REST stays. {@code paused} has no
   * null, so it counts for a new row only.
   */
  private static final String SEED =
      """
      INSERT INTO waybill.kinds AS k (kind, max_attempts, backoff_base_ms, backoff_factor, backoff_cap_ms, backoff_jitter, lease_ms,
        timeout_ms, retention_ms, dead_retention_ms, tenant_cap, kind_cap, rate_per_second, paused, delivery, push_url, push_secret,
        archive)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, false), ?, ?, ?, ?)
      ON CONFLICT (kind) DO UPDATE SET max_attempts = coalesce(k.max_attempts, excluded.max_attempts),
        backoff_base_ms = coalesce(k.backoff_base_ms, excluded.backoff_base_ms),
        backoff_factor = coalesce(k.backoff_factor, excluded.backoff_factor),
        backoff_cap_ms = coalesce(k.backoff_cap_ms, excluded.backoff_cap_ms),
        backoff_jitter = coalesce(k.backoff_jitter, excluded.backoff_jitter), lease_ms = coalesce(k.lease_ms, excluded.lease_ms),
        timeout_ms = coalesce(k.timeout_ms, excluded.timeout_ms), retention_ms = coalesce(k.retention_ms, excluded.retention_ms),
        dead_retention_ms = coalesce(k.dead_retention_ms, excluded.dead_retention_ms),
        tenant_cap = coalesce(k.tenant_cap, excluded.tenant_cap), kind_cap = coalesce(k.kind_cap, excluded.kind_cap),
        rate_per_second = coalesce(k.rate_per_second, excluded.rate_per_second),
        delivery = coalesce(k.delivery, excluded.delivery), push_url = coalesce(k.push_url, excluded.push_url),
        push_secret = coalesce(k.push_secret, excluded.push_secret), archive = coalesce(k.archive, excluded.archive)
      """;

  private static final String PAUSE =
      """
      INSERT INTO waybill.kinds (kind, paused) VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET paused = excluded.paused
      """;

  private Kinds() {}

  public static List<KindPolicy> all(Connection connection) throws SQLException {
    return read(connection, null);
  }

  /** Null when nobody ever spoke of that kind. */
  public static @Nullable KindPolicy one(Connection connection, String kind) throws SQLException {
    List<KindPolicy> found = read(connection, kind);
    return found.isEmpty() ? null : found.getFirst();
  }

  /** The version that stands until the end of this transaction; 0 when there is no row. */
  public static long lock(Connection connection, String kind) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LOCK_NAME)) {
      statement.setString(1, kind);
      boolean _ = statement.execute();
    }
    try (PreparedStatement statement = connection.prepareStatement(LOCK)) {
      statement.setString(1, kind);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? row.getLong(1) : 0;
      }
    }
  }

  /** Those of these kinds that have a policy, or of which there ever was a job. */
  public static Set<String> known(Connection connection, Collection<String> kinds)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(KNOWN)) {
      statement.setArray(1, connection.createArrayOf("text", kinds.toArray()));
      var known = new HashSet<String>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          known.add(row.getString(1));
        }
      }
      return known;
    }
  }

  /** Whether these kinds are known, or so many more may be. */
  public static boolean roomFor(Connection connection, Collection<String> kinds)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ROOM)) {
      statement.setArray(1, connection.createArrayOf("text", kinds.toArray()));
      statement.setArray(2, connection.createArrayOf("text", kinds.toArray()));
      try (ResultSet row = statement.executeQuery()) {
        return row.next() && row.getBoolean(1);
      }
    }
  }

  public static void replace(Connection connection, String kind, OwnPolicy policy)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(REPLACE)) {
      bind(statement, kind, policy);
      statement.setObject(19, policy.paused(), Types.BOOLEAN);
      statement.executeUpdate();
    }
  }

  public static void seed(Connection connection, String kind, OwnPolicy policy)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(SEED)) {
      bind(statement, kind, policy);
      statement.executeUpdate();
    }
  }

  public static void pause(Connection connection, String kind, boolean paused) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(PAUSE)) {
      statement.setString(1, kind);
      statement.setBoolean(2, paused);
      statement.executeUpdate();
    }
  }

  private static void bind(PreparedStatement statement, String kind, OwnPolicy own)
      throws SQLException {
    statement.setString(1, kind);
    statement.setObject(2, own.maxAttempts(), Types.INTEGER);
    statement.setObject(3, millis(own.backoffBase()), Types.BIGINT);
    statement.setObject(4, own.backoffFactor(), Types.DOUBLE);
    statement.setObject(5, millis(own.backoffCap()), Types.BIGINT);
    statement.setObject(6, own.backoffJitter(), Types.BOOLEAN);
    statement.setObject(7, millis(own.lease()), Types.BIGINT);
    statement.setObject(8, millis(own.timeout()), Types.BIGINT);
    statement.setObject(9, millis(own.retention()), Types.BIGINT);
    statement.setObject(10, millis(own.deadRetention()), Types.BIGINT);
    statement.setObject(11, own.tenantCap(), Types.INTEGER);
    statement.setObject(12, own.kindCap(), Types.INTEGER);
    statement.setObject(13, own.ratePerSecond(), Types.DOUBLE);
    statement.setObject(14, own.paused(), Types.BOOLEAN);
    statement.setString(15, own.delivery());
    statement.setString(16, own.url());
    statement.setString(17, own.secretRef());
    statement.setObject(18, own.archive(), Types.BOOLEAN);
  }

  private static @Nullable Long millis(@Nullable Duration duration) {
    return duration == null ? null : duration.toMillis();
  }

  private static List<KindPolicy> read(Connection connection, @Nullable String kind)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(READ)) {
      statement.setString(1, kind);
      statement.setString(2, kind);
      var found = new ArrayList<KindPolicy>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          found.add(
              new KindPolicy(
                  row.getString("kind"),
                  row.getLong("version"),
                  row.getObject("updated_at", OffsetDateTime.class),
                  own(row)));
        }
      }
      return found;
    }
  }

  private static OwnPolicy own(ResultSet row) throws SQLException {
    return new OwnPolicy(
        row.getObject("max_attempts", Integer.class),
        duration(row, "backoff_base_ms"),
        row.getObject("backoff_factor", Double.class),
        duration(row, "backoff_cap_ms"),
        row.getObject("backoff_jitter", Boolean.class),
        duration(row, "lease_ms"),
        duration(row, "timeout_ms"),
        duration(row, "retention_ms"),
        duration(row, "dead_retention_ms"),
        row.getObject("tenant_cap", Integer.class),
        row.getObject("kind_cap", Integer.class),
        row.getObject("rate_per_second", Double.class),
        row.getBoolean("paused"),
        row.getString("delivery"),
        row.getString("push_url"),
        row.getString("push_secret"),
        row.getObject("archive", Boolean.class));
  }

  private static @Nullable Duration duration(ResultSet row, String column) throws SQLException {
    @Nullable Long millis = row.getObject(column, Long.class);
    return millis == null ? null : Duration.ofMillis(millis);
  }
}
