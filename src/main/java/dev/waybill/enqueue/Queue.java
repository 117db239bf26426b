package dev.waybill.enqueue;

import dev.waybill.db.Database;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Enqueues from Java. */
@Singleton
public final class Queue {

  /** With the times that the job got, so that nobody needs to read it. */
  private static final String ENQUEUE =
      """
      SELECT waybill.enqueue(kind => ?, payload => ?::jsonb, tenant => ?, priority => ?, run_at => at.run_at, dedupe_key => ?,
        max_attempts => ?, tags => ?::text[], payload_version => ?, traceparent => ?), now(), coalesce(at.run_at, now())
      FROM (SELECT coalesce(?::timestamptz, now() + ?::bigint * interval '1 millisecond') AS run_at) at
      """;

  private static final String ENQUEUE_ROWS =
      """
      SELECT waybill.enqueue_rows(?::text[], ?::jsonb[], ?::text[], ?::integer[], ?::timestamptz[], ?::bigint[], ?::text[], ?::integer[],
        ?::text[], ?::integer[], ?::text[], room_taken => ?)
      """;

  /**
   * With the times, as {@link #ENQUEUE}. Nothing happens when a tenant among them has a limit: room
   * that is taken stays taken, also by a batch that another's refusal rolls back.
   */
  private static final String ENQUEUE_UNLIMITED =
      """
      SELECT r.id, now(), coalesce(r.run_at, now() + r.delay * interval '1 millisecond', now())
      FROM ROWS FROM (
        waybill.enqueue_rows(?::text[], ?::jsonb[], ?::text[], ?::integer[], ?::timestamptz[], ?::bigint[], ?::text[], ?::integer[],
          ?::text[], ?::integer[], ?::text[], room_taken => true),
        unnest(?::timestamptz[]), unnest(?::bigint[])
      ) AS r(id, run_at, delay)
      WHERE NOT (waybill.tenants_limited() AND EXISTS (SELECT FROM waybill.tenant_limits l WHERE l.tenant = ANY (?::text[])))
      """;

  private static final String TAKE_ROOMS =
      "SELECT waybill.take_rooms(?::text[], ?::integer[], owe => ?)";

  private static final String CHECK_ROW =
      """
      SELECT waybill.check_row(?, ?::jsonb, ?, ?, at.run_at, ?, ?, ?::text[], ?, ?)
      FROM (SELECT coalesce(?::timestamptz, now() + ?::bigint * interval '1 millisecond') AS run_at) at
      """;

  private final Database database;

  @Inject
  Queue(DataSource dataSource) {
    this.database = new Database(dataSource);
  }

  /**
   * Enqueues; answers the job's id, or that of the live job with the same dedupe key. Inside a JTA
   * transaction ({@code @Transactional}) the job is there if that transaction commits, and never
   * was if it rolls back; outside of one it is there at once.
   */
  public long enqueue(NewJob job) throws SQLException {
    return database.run(connection -> enqueue(connection, job));
  }

  /**
   * A job that was enqueued.
   *
   * @param id of the new job, or of the live one that has its dedupe key
   * @param createdAt when, and
   * @param runAt for when, if it is new
   */
  public record Told(long id, OffsetDateTime createdAt, OffsetDateTime runAt) {}

  /** Enqueues in the transaction of this connection, and tells when that was. */
  public Told enqueueTold(Connection connection, NewJob job) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ENQUEUE)) {
      bind(statement, job);
      try (ResultSet row = statement.executeQuery()) {
        row.next();
        return new Told(
            row.getLong(1),
            row.getObject(2, OffsetDateTime.class),
            row.getObject(3, OffsetDateTime.class));
      }
    }
  }

  /**
   * Enqueues all of them, of whatever kinds and tenants, with one statement in the transaction of
   * this connection; answers their ids in order. A few thousand at a time: they are sent as arrays.
   */
  public long[] enqueue(Connection connection, List<NewJob> jobs) throws SQLException {
    return enqueue(connection, jobs, false);
  }

  /**
   * Takes what the limits of these tenants have room for, so many jobs each; refuses what there is
   * no room for (SQLSTATE WB001, WB002).
   *
   * @param owe refuse nothing: for the rest of what was let in
   */
  public void takeRooms(Connection connection, Map<String, Integer> jobs, boolean owe)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(TAKE_ROOMS)) {
      statement.setArray(1, connection.createArrayOf("text", jobs.keySet().toArray()));
      statement.setArray(2, connection.createArrayOf("int4", jobs.values().toArray()));
      statement.setBoolean(3, owe);
      boolean _ = statement.execute();
    }
  }

  /** As {@link #enqueue(Connection, List)}, after {@link #takeRooms}. */
  public long[] enqueueAdmitted(Connection connection, List<NewJob> jobs) throws SQLException {
    return enqueue(connection, jobs, true);
  }

  private static long[] enqueue(Connection connection, List<NewJob> jobs, boolean roomTaken)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ENQUEUE_ROWS)) {
      bind(statement, connection, jobs);
      statement.setBoolean(12, roomTaken);
      var ids = new long[jobs.size()];
      try (ResultSet rows = statement.executeQuery()) {
        int n = 0;
        while (rows.next()) {
          ids[n++] = rows.getLong(1);
        }
        if (n != ids.length) {
          throw new IllegalStateException("enqueued " + n + " jobs of " + ids.length);
        }
      }
      return ids;
    }
  }

  /**
   * Like {@link #enqueue(Connection, List)}, and tells when that was; none of them, and the answer
   * is empty, when a tenant among them has a limit.
   */
  List<Told> enqueueUnlimited(Connection connection, List<NewJob> jobs) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ENQUEUE_UNLIMITED)) {
      bind(statement, connection, jobs);
      statement.setArray(12, column(connection, "timestamptz", jobs, NewJob::runAt, null));
      statement.setArray(13, column(connection, "int8", jobs, Queue::delayMillis, null));
      statement.setArray(
          14,
          connection.createArrayOf("text", jobs.stream().map(NewJob::tenant).distinct().toArray()));
      var told = new ArrayList<Told>(jobs.size());
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          told.add(
              new Told(
                  rows.getLong(1),
                  rows.getObject(2, OffsetDateTime.class),
                  rows.getObject(3, OffsetDateTime.class)));
        }
      }
      if (!told.isEmpty() && told.size() != jobs.size()) {
        throw new IllegalStateException("enqueued " + told.size() + " jobs of " + jobs.size());
      }
      return told;
    }
  }

  private static void bind(PreparedStatement statement, Connection connection, List<NewJob> jobs)
      throws SQLException {
    statement.setArray(1, column(connection, "text", jobs, NewJob::kind, null));
    statement.setArray(2, column(connection, "jsonb", jobs, NewJob::payload, null));
    statement.setArray(3, column(connection, "text", jobs, NewJob::tenant, ""));
    statement.setArray(4, column(connection, "int4", jobs, NewJob::priority, 0));
    statement.setArray(5, column(connection, "timestamptz", jobs, NewJob::runAt, null));
    statement.setArray(6, column(connection, "int8", jobs, Queue::delayMillis, null));
    statement.setArray(7, column(connection, "text", jobs, NewJob::dedupeKey, null));
    statement.setArray(8, column(connection, "int4", jobs, NewJob::maxAttempts, null));
    statement.setArray(9, column(connection, "text", jobs, Queue::tags, null));
    statement.setArray(10, column(connection, "int4", jobs, NewJob::payloadVersion, 1));
    statement.setArray(11, column(connection, "text", jobs, NewJob::traceparent, null));
  }

  /** An array without its elements stands for defaults throughout: nothing to send, or to read. */
  private static Array column(
      Connection connection,
      String type,
      List<NewJob> jobs,
      Function<NewJob, @Nullable Object> of,
      @Nullable Object usual)
      throws SQLException {
    var values = new @Nullable Object[jobs.size()];
    boolean unusual = false;
    for (int i = 0; i < values.length; i++) {
      @Nullable Object value = of.apply(jobs.get(i));
      values[i] = value;
      unusual |= !Objects.equals(value, usual);
    }
    if (!unusual) {
      return connection.createArrayOf(type, new Object[0]);
    }
    return connection.createArrayOf(type, values);
  }

  /** Throws what is wrong with this job, as enqueuing it would. */
  public void check(Connection connection, NewJob job) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(CHECK_ROW)) {
      bind(statement, job);
      boolean _ = statement.execute();
    }
  }

  private static void bind(PreparedStatement statement, NewJob job) throws SQLException {
    statement.setString(1, job.kind());
    statement.setString(2, job.payload());
    statement.setString(3, job.tenant());
    statement.setInt(4, job.priority());
    statement.setString(5, job.dedupeKey());
    statement.setObject(6, job.maxAttempts(), Types.INTEGER);
    statement.setString(7, tags(job));
    statement.setInt(8, job.payloadVersion());
    statement.setString(9, job.traceparent());
    statement.setObject(10, job.runAt(), Types.TIMESTAMP_WITH_TIMEZONE);
    statement.setObject(11, delayMillis(job), Types.BIGINT);
  }

  private static @Nullable Object delayMillis(NewJob job) {
    return job.delay() == null ? null : job.delay().toMillis();
  }

  /** As PostgreSQL writes an array; null for none. */
  private static @Nullable String tags(NewJob job) {
    if (job.tags().isEmpty()) {
      return null;
    }
    var text = new StringBuilder("{");
    for (String tag : job.tags()) {
      text.append(text.length() == 1 ? "\"" : ",\"")
          .append(tag.replace("\\", "\\\\").replace("\"", "\\\""))
          .append('"');
    }
    return text.append('}').toString();
  }

  /** Enqueues in the transaction of this connection. */
  public long enqueue(Connection connection, NewJob job) throws SQLException {
    return enqueueTold(connection, job).id();
  }
}
