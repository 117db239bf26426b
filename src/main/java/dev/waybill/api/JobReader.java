package dev.waybill.api;

import dev.waybill.access.Caller;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Reads jobs, wherever they are. */
final class JobReader {

  /**
   * The attempts kept with the job are those that ended without ending the job; the one under way,
   * and the one that made it done, are the row itself.
   *
   * <p>Plan hazard: the id must reach each branch of the view, and each partition, as an index
   * condition.
   */
  private static final String READ =
      """
      SELECT a.id, a.kind, a.tenant, a.priority, a.state, a.payload::text, a.payload_version, a.attempt, a.max_attempts, a.crashes,
        a.created_at, a.run_at, a.started_at, a.finished_at, a.worker, a.last_error, a.result::text, a.tags, a.dedupe_key,
        (coalesce(a.attempts, '[]') || CASE WHEN a.state IN ('running', 'done') THEN
          jsonb_build_array(jsonb_strip_nulls(jsonb_build_object('attempt', a.attempt, 'worker', a.worker,
            'startedAt', a.started_at, 'endedAt', a.finished_at, 'outcome', nullif(a.state, 'running')))) ELSE '[]' END)::text,
        extract(epoch FROM a.started_at - a.run_at)::float8, extract(epoch FROM a.finished_at - a.started_at)::float8, a.progress::text
      FROM waybill.all_jobs a WHERE a.id = ? AND waybill.visible(a.tenant, a.kind, ?, ?)
      """;

  private JobReader() {}

  /** Null when there is no such job for this caller. */
  static @Nullable JobView read(Connection connection, long id, Caller caller) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(READ)) {
      statement.setLong(1, id);
      int _ = caller.bindScope(statement, 2);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? view(row, caller.payloads()) : null;
      }
    }
  }

  /**
   * Payload, result and progress only for those who may read them: handlers put into each what they
   * like.
   */
  private static JobView view(ResultSet row, boolean payloads) throws SQLException {
    return new JobView(
        row.getLong(1),
        row.getString(2),
        row.getString(3),
        row.getInt(4),
        row.getString(5),
        payloads ? row.getString(6) : null,
        row.getInt(7),
        row.getInt(8),
        row.getObject(9, Integer.class),
        row.getInt(10),
        row.getObject(11, OffsetDateTime.class),
        row.getObject(12, OffsetDateTime.class),
        row.getObject(13, OffsetDateTime.class),
        row.getObject(14, OffsetDateTime.class),
        row.getString(15),
        row.getString(16),
        payloads ? row.getString(17) : null,
        payloads ? row.getString(23) : null,
        strings(row.getArray(18)),
        row.getString(19),
        row.getString(20),
        new JobView.Timings(row.getObject(21, Double.class), row.getObject(22, Double.class)),
        null);
  }

  private static List<String> strings(@Nullable Array array) throws SQLException {
    return array == null ? List.of() : List.of((String[]) array.getArray());
  }
}
