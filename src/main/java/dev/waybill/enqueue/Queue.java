package dev.waybill.enqueue;

import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import javax.sql.DataSource;

/** Enqueues from Java. */
@Singleton
public final class Queue {

  private static final String ENQUEUE =
      """
      SELECT waybill.enqueue(kind => ?, payload => ?::jsonb, tenant => ?, priority => ?,
        run_at => coalesce(?::timestamptz, now() + ?::bigint * interval '1 millisecond'), dedupe_key => ?, max_attempts => ?,
        tags => ?::text[], payload_version => ?, traceparent => ?)
      """;

  private final DataSource dataSource;

  @Inject
  Queue(DataSource dataSource) {
    this.dataSource = dataSource;
  }

  /**
   * Enqueues; answers the job's id, or that of the live job with the same dedupe key. Inside a JTA
   * transaction ({@code @Transactional}) the job is there if that transaction commits, and never
   * was if it rolls back; outside of one it is there at once.
   */
  public long enqueue(NewJob job) throws SQLException {
    try (Connection connection = dataSource.getConnection()) {
      return enqueue(connection, job);
    }
  }

  /** Enqueues in the transaction of this connection. */
  public long enqueue(Connection connection, NewJob job) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ENQUEUE)) {
      statement.setString(1, job.kind());
      statement.setString(2, job.payload());
      statement.setString(3, job.tenant());
      statement.setInt(4, job.priority());
      statement.setObject(5, job.runAt(), Types.TIMESTAMP_WITH_TIMEZONE);
      statement.setObject(6, job.delay() == null ? null : job.delay().toMillis(), Types.BIGINT);
      statement.setString(7, job.dedupeKey());
      statement.setObject(8, job.maxAttempts(), Types.INTEGER);
      statement.setArray(
          9, job.tags().isEmpty() ? null : connection.createArrayOf("text", job.tags().toArray()));
      statement.setInt(10, job.payloadVersion());
      statement.setString(11, job.traceparent());
      try (ResultSet row = statement.executeQuery()) {
        row.next();
        return row.getLong(1);
      }
    }
  }
}
