package dev.waybill.policy;

import dev.waybill.db.Database;
import dev.waybill.job.Backoff;
import dev.waybill.job.Caps;
import dev.waybill.job.Delivery;
import dev.waybill.job.Policy;
import jakarta.inject.Singleton;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/** The policies as last read; {@link #refresh} is called every few seconds. */
@Singleton
public final class Policies {

  private static final Logger LOG = Logger.getLogger(Policies.class);

  private static final String READ =
      """
      SELECT kind, max_attempts, backoff_base_ms, backoff_factor, backoff_cap_ms, backoff_jitter, lease_ms, timeout_ms,
        retention_ms, dead_retention_ms, tenant_cap, kind_cap, rate_per_second, paused, delivery, push_url, push_secret, archive
      FROM waybill.kinds
      """;

  private static final String MAKE_KNOWN =
      """
      INSERT INTO waybill.kinds (kind) SELECT kind FROM unnest(?::text[]) AS kind ON CONFLICT (kind) DO NOTHING
      """;

  private final Database database;
  private volatile Map<String, Policy> known = Map.of();
  private volatile Map<Delivery, Set<String>> byDelivery = Map.of();
  private volatile boolean everRead;
  private volatile long readNanos;

  public Policies(Database database) {
    this.database = database;
  }

  public Policy of(String kind) {
    return known.getOrDefault(kind, Policy.DEFAULT);
  }

  /** The kinds whose policy says so; not those that nobody said anything about. */
  public Set<String> deliveredBy(Delivery delivery) {
    return byDelivery.getOrDefault(delivery, Set.of());
  }

  public Set<String> notPaused(Set<String> kinds) {
    Map<String, Policy> now = known;
    return kinds.stream()
        .filter(kind -> !now.getOrDefault(kind, Policy.DEFAULT).paused())
        .collect(Collectors.toUnmodifiableSet());
  }

  /**
   * Makes sure that kinds which this build handles have their row, where an operator finds and
   * edits it.
   */
  public void makeKnown(Collection<String> kinds) throws SQLException {
    database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(MAKE_KNOWN)) {
        statement.setArray(1, connection.createArrayOf("text", kinds.toArray()));
        return statement.executeUpdate();
      }
    });
    refresh();
  }

  /** What the configuration says of kinds, where the database has no value of its own. */
  public void sow(Seeds seeds) throws SQLException {
    seeds.sow(database);
  }

  public void refresh() throws SQLException {
    known =
        database.run(connection -> {
          var read = new HashMap<String, Policy>();
          try (PreparedStatement statement = connection.prepareStatement(READ);
              ResultSet rows = statement.executeQuery()) {
            while (rows.next()) {
              read.put(rows.getString("kind"), policy(rows));
            }
          }
          return Map.copyOf(read);
        });
    byDelivery =
        known.keySet().stream()
            .collect(
                Collectors.groupingBy(kind -> of(kind).delivery(), Collectors.toUnmodifiableSet()));
    readNanos = System.nanoTime();
    everRead = true;
  }

  /**
   * After a change that is committed, which must not be answered as a failure: what cannot be read
   * now is read within two seconds, as everywhere else.
   */
  public void refreshIfPossible() {
    try {
      refresh();
    } catch (SQLException failure) {
      LOG.debugf(failure, "policies not read after a change");
    }
  }

  /** Whether the database could be read lately. */
  public boolean readWithin(Duration limit) {
    return everRead && System.nanoTime() - readNanos <= limit.toNanos();
  }

  private static Policy policy(ResultSet row) throws SQLException {
    Policy or = Policy.DEFAULT;
    return new Policy(
        value(row, "max_attempts", Integer.class, or.maxAttempts()),
        new Backoff(
            millis(row, "backoff_base_ms", or.backoff().base()),
            value(row, "backoff_factor", Double.class, or.backoff().factor()),
            millis(row, "backoff_cap_ms", or.backoff().cap()),
            value(row, "backoff_jitter", Boolean.class, or.backoff().jitter())),
        millis(row, "lease_ms", or.lease()),
        millis(row, "timeout_ms", or.timeout()),
        millis(row, "retention_ms", or.retention()),
        millis(row, "dead_retention_ms", or.deadRetention()),
        new Caps(
            row.getObject("tenant_cap", Integer.class),
            row.getObject("kind_cap", Integer.class),
            row.getObject("rate_per_second", Double.class)),
        row.getBoolean("paused"),
        Delivery.of(value(row, "delivery", String.class, or.delivery().word())),
        row.getString("push_url"),
        row.getString("push_secret"),
        row.getBoolean("archive"));
  }

  private static <T> T value(ResultSet row, String column, Class<T> type, T or)
      throws SQLException {
    @Nullable T value = row.getObject(column, type);
    return value == null ? or : value;
  }

  private static Duration millis(ResultSet row, String column, Duration or) throws SQLException {
    return Duration.ofMillis(value(row, column, Long.class, or.toMillis()));
  }
}
