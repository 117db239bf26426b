package dev.waybill.audit;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Reads the log of what operators did. */
public final class AuditLog {

  /** One line. */
  public record Line(
      long id,
      OffsetDateTime at,
      String who,
      String what,
      @Nullable String target,
      @Nullable String tenant,
      @Nullable String filter,
      long jobs) {}

  /**
   * Two statements, since a condition on a tenant that may be absent would have a plan for one of
   * the two cases only.
   */
  private static final String ALL =
      """
      SELECT id, at, who, what, target, tenant, filter::text, jobs FROM waybill.audit_log
      WHERE id < coalesce(?, 9223372036854775807) ORDER BY id DESC LIMIT ?
      """;

  private static final String OF_TENANT =
      """
      SELECT id, at, who, what, target, tenant, filter::text, jobs FROM waybill.audit_log
      WHERE id < coalesce(?, 9223372036854775807) AND tenant = ? ORDER BY id DESC LIMIT ?
      """;

  private AuditLog() {}

  /**
   * A page, newest first.
   *
   * @param tenant only lines about this tenant's jobs; null for all
   * @param after the last id of the page before, or null
   */
  public static List<Line> page(
      Connection connection, @Nullable String tenant, @Nullable Long after, int limit)
      throws SQLException {
    String sql = tenant == null ? ALL : OF_TENANT;
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      statement.setObject(1, after, Types.BIGINT);
      int next = 2;
      if (tenant != null) {
        statement.setString(next++, tenant);
      }
      statement.setInt(next, limit);
      var lines = new ArrayList<Line>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          lines.add(line(row));
        }
      }
      return lines;
    }
  }

  private static Line line(ResultSet row) throws SQLException {
    return new Line(
        row.getLong(1),
        row.getObject(2, OffsetDateTime.class),
        row.getString(3),
        row.getString(4),
        row.getString(5),
        row.getString(6),
        row.getString(7),
        row.getLong(8));
  }
}
