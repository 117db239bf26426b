package dev.waybill.deadletter;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Which dead letters; a null asks for nothing.
 *
 * @param diedAfter this time included
 * @param diedBefore this time excluded
 * @param ids these, as far as the rest holds for them
 */
public record DeadFilter(
    @Nullable String kind,
    @Nullable String tenant,
    @Nullable String fingerprint,
    @Nullable OffsetDateTime diedAfter,
    @Nullable OffsetDateTime diedBefore,
    @Nullable List<Long> ids) {

  public static final DeadFilter ALL = new DeadFilter(null, null, null, null, null, null);

  public DeadFilter {
    ids = ids == null ? null : List.copyOf(ids);
  }

  public static DeadFilter ofKind(String kind) {
    return new DeadFilter(kind, null, null, null, null, null);
  }

  /** Nothing is asked of the one who may see it and asks for another's: that is no dead letter. */
  public boolean isOutside(Scope scope) {
    return (scope.tenant() != null && tenant != null && !Objects.equals(scope.tenant(), tenant))
        || (scope.kinds() != null && kind != null && !scope.kinds().contains(kind));
  }

  @Nullable String tenantWithin(Scope scope) {
    return scope.tenant() == null ? tenant : scope.tenant();
  }

  /**
   * Binds the last seven arguments of {@code waybill.dead_match}; answers the index of the
   * parameter after them.
   */
  int bind(PreparedStatement statement, int at, Scope scope) throws SQLException {
    Connection connection = statement.getConnection();
    statement.setString(at, kind);
    statement.setArray(
        at + 1,
        scope.kinds() == null ? null : connection.createArrayOf("text", scope.kinds().toArray()));
    statement.setString(at + 2, tenantWithin(scope));
    statement.setString(at + 3, fingerprint);
    statement.setObject(at + 4, diedAfter, Types.TIMESTAMP_WITH_TIMEZONE);
    statement.setObject(at + 5, diedBefore, Types.TIMESTAMP_WITH_TIMEZONE);
    statement.setArray(
        at + 6, ids == null ? null : connection.createArrayOf("int8", ids.toArray()));
    return at + 7;
  }
}
