package dev.waybill.enqueue;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What one tenant may put in, as stored: the database holds to it, whatever the door. */
public final class TenantLimits {

  /**
   * The limits of one tenant; at least one of rate and backlog is there.
   *
   * @param burst how many at once; there with a rate only
   */
  public record Limit(
      String tenant,
      long version,
      @Nullable Double ratePerSecond,
      @Nullable Long burst,
      @Nullable Long backlogMax,
      OffsetDateTime updatedAt) {}

  private static final String PAGE =
      """
      SELECT tenant, version, rate_per_second, burst, backlog_max, updated_at FROM waybill.tenant_limits
      WHERE ?::text IS NULL OR tenant COLLATE "C" > ? ORDER BY tenant COLLATE "C" LIMIT ?
      """;

  private static final String ONE =
      """
      SELECT tenant, version, rate_per_second, burst, backlog_max, updated_at FROM waybill.tenant_limits WHERE tenant = ?
      """;

  private static final String LOCK = "LOCK TABLE waybill.tenant_limits IN SHARE ROW EXCLUSIVE MODE";

  private static final String SET = "SELECT waybill.limit_tenant(?, ?, ?, ?)";

  private static final String TAKE_AWAY = "SELECT waybill.unlimit_tenant(?)";

  private TenantLimits() {}

  /** By tenant, after this one; from the first on when it is null. */
  public static List<Limit> page(Connection connection, @Nullable String after, int limit)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(PAGE)) {
      statement.setString(1, after);
      statement.setString(2, after);
      statement.setInt(3, limit);
      return read(statement);
    }
  }

  /** Null when it has none. */
  public static @Nullable Limit one(Connection connection, String tenant) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ONE)) {
      statement.setString(1, tenant);
      List<Limit> found = read(statement);
      return found.isEmpty() ? null : found.getFirst();
    }
  }

  /** The version that stands until the end of this transaction; 0 when there are no limits. */
  public static long lock(Connection connection, String tenant) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LOCK)) {
      boolean _ = statement.execute();
    }
    @Nullable Limit found = one(connection, tenant);
    return found == null ? 0 : found.version();
  }

  public static void set(
      Connection connection,
      String tenant,
      @Nullable Double ratePerSecond,
      @Nullable Long burst,
      @Nullable Long backlogMax)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(SET)) {
      statement.setString(1, tenant);
      statement.setObject(2, ratePerSecond, Types.DOUBLE);
      statement.setObject(3, burst, Types.BIGINT);
      statement.setObject(4, backlogMax, Types.BIGINT);
      boolean _ = statement.execute();
    }
  }

  public static void takeAway(Connection connection, String tenant) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(TAKE_AWAY)) {
      statement.setString(1, tenant);
      boolean _ = statement.execute();
    }
  }

  private static List<Limit> read(PreparedStatement statement) throws SQLException {
    var found = new ArrayList<Limit>();
    try (ResultSet row = statement.executeQuery()) {
      while (row.next()) {
        found.add(
            new Limit(
                row.getString("tenant"),
                row.getLong("version"),
                row.getObject("rate_per_second", Double.class),
                row.getObject("burst", Long.class),
                row.getObject("backlog_max", Long.class),
                row.getObject("updated_at", OffsetDateTime.class)));
      }
    }
    return found;
  }
}
