package dev.waybill.claim;

import dev.waybill.db.Database;
import jakarta.inject.Singleton;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** Keeps leases, and says which were lost. */
@Singleton
public final class Leases {

  /**
   * A lease to look after.
   *
   * @param progress what the handler reported since the last time, as JSON text, or null
   */
  public record Held(long id, UUID token, long leaseMillis, @Nullable String progress) {}

  /**
   * One statement a pod, by token: a lease that was taken over is not extended. One that ran out
   * but was not reaped yet is: as long as nobody took the job over its token is valid, and keeping
   * it is better than running the job twice.
   *
   * <p>{@code SKIP LOCKED}, since a settle of the same pod may hold some of these rows in another
   * order: waiting could deadlock. What was passed by is not lost by that; {@link #ours} tells.
   */
  private static final String EXTEND =
      """
      WITH mine AS MATERIALIZED (
        SELECT j.ctid AS tid, held.lease_ms, held.progress
        FROM unnest(?::bigint[], ?::uuid[], ?::bigint[], ?::jsonb[]) AS held(id, token, lease_ms, progress), waybill.jobs j
        WHERE j.id = ANY (?) AND j.id = held.id AND j.token = held.token
        FOR NO KEY UPDATE OF j SKIP LOCKED
      )
      UPDATE waybill.jobs j
      SET lease_until = now() + mine.lease_ms * interval '1 millisecond', progress = coalesce(mine.progress, j.progress)
      FROM mine WHERE j.ctid = mine.tid
      RETURNING j.id
      """;

  /** Reads only: which of these are still ours. A job cancelled or taken over is not. */
  private static final String OURS =
      """
      SELECT j.id FROM unnest(?::bigint[], ?::uuid[]) AS held(id, token), waybill.jobs j
      WHERE j.id = ANY (?) AND j.id = held.id AND j.token = held.token
      """;

  private final Database database;

  public Leases(Database database) {
    this.database = database;
  }

  /**
   * Extends these leases; answers the ids of those it could. The others may be lost, or only locked
   * just now: ask {@link #ours}.
   */
  public Set<Long> extend(List<Held> held) throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(EXTEND)) {
        bind(connection, statement, held, 5);
        statement.setArray(
            3, connection.createArrayOf("int8", held.stream().map(Held::leaseMillis).toArray()));
        statement.setArray(
            4, connection.createArrayOf("jsonb", held.stream().map(Held::progress).toArray()));
        return ids(statement);
      }
    });
  }

  /** Answers the ids of those that are still ours. */
  public Set<Long> ours(List<Held> held) throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(OURS)) {
        bind(connection, statement, held, 3);
        return ids(statement);
      }
    });
  }

  private static void bind(
      Connection connection, PreparedStatement statement, List<Held> held, int idsAgain)
      throws SQLException {
    Array ids = connection.createArrayOf("int8", held.stream().map(Held::id).toArray());
    statement.setArray(1, ids);
    statement.setArray(idsAgain, ids);
    statement.setArray(
        2, connection.createArrayOf("uuid", held.stream().map(Held::token).toArray()));
  }

  private static Set<Long> ids(PreparedStatement statement) throws SQLException {
    var ids = new HashSet<Long>();
    try (ResultSet rows = statement.executeQuery()) {
      while (rows.next()) {
        ids.add(rows.getLong(1));
      }
    }
    return ids;
  }
}
