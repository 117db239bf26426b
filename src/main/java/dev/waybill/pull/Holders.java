package dev.waybill.pull;

import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.job.Policy;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** What holders elsewhere do with their leases: extend and settle, fenced by token. */
@Singleton
public final class Holders {

  /** A job and the token that shall prove the lease. */
  public record Held(long id, UUID token) {}

  /**
   * Whose leases a holder may have at all; a token from elsewhere is none of theirs.
   *
   * @param tenant only this tenant's; null for everybody's
   * @param kinds only of these; null for all
   */
  public record Scope(@Nullable String tenant, @Nullable Set<String> kinds) {

    public Scope {
      kinds = kinds == null ? null : Set.copyOf(kinds);
    }
  }

  /** An outcome and whose. */
  public record Said(Held held, Outcome outcome) {}

  /** How it went with one item. */
  public sealed interface Answer {

    record Settled() implements Answer {}

    record Extended(OffsetDateTime leaseUntil) implements Answer {}

    /** Somebody else has the job, or nobody: nothing was written. */
    record Lost() implements Answer {}

    /** Somebody holds the row's lock for longer than a moment: nothing was written, ask again. */
    record Busy() implements Answer {}
  }

  /**
   * The rows that are theirs, locked. In the order of ids, so that two that ask for the same do not
   * wait for each other.
   */
  private static final String LOCK =
      """
      SELECT j.id, j.kind, j.tenant, j.priority, j.attempt, coalesce(j.max_attempts, k.max_attempts, ?), j.token, j.payload_version,
        (extract(epoch FROM now() - j.started_at) * 1000000)::bigint,
        j.started_at + coalesce(k.timeout_ms, ?) * interval '1 millisecond' <= now(),
        coalesce(k.timeout_ms, ?), coalesce(k.lease_ms, ?)
      FROM unnest(?::bigint[], ?::uuid[]) AS s(id, token), waybill.jobs j LEFT JOIN waybill.kinds k ON k.kind = j.kind
      WHERE j.id = ANY (?) AND j.id = s.id AND j.token = s.token AND waybill.visible(j.tenant, j.kind, ?, ?)
      ORDER BY j.id FOR UPDATE OF j
      """;

  private static final String EXTEND =
      """
      UPDATE waybill.jobs j
      SET lease_until = least(now() + coalesce(?, s.lease_ms) * interval '1 millisecond',
        j.started_at + s.timeout_ms * interval '1 millisecond')
      FROM unnest(?::bigint[], ?::uuid[], ?::bigint[], ?::bigint[]) AS s(id, token, lease_ms, timeout_ms)
      WHERE j.id = ANY (?) AND j.id = s.id AND j.token = s.token
      RETURNING j.id, j.lease_until
      """;

  private final Database database;
  private final Settler settler;
  private final PullEvents events;

  @Inject
  Holders(Database database, Settler settler, PullEvents events) {
    this.database = database;
    this.settler = settler;
    this.events = events;
  }

  private record Row(
      Claimed job, long ranMicros, boolean overTime, long timeoutMillis, long leaseMillis) {}

  private interface Work {
    Map<Long, Answer> on(Connection connection, List<Said> some, List<Runnable> told)
        throws SQLException;
  }

  public List<Answer> settle(List<Said> said, Scope scope) throws SQLException {
    return carefully(said, (c, some, told) -> settle(c, some, scope, told));
  }

  /**
   * An attempt that has reached its kind's time limit is not extended: it is settled as a failure,
   * and its holder is told that it lost it.
   *
   * @param lease null for the kind's own
   */
  public List<Answer> extend(List<Held> held, @Nullable Duration lease, Scope scope)
      throws SQLException {
    List<Said> asked = held.stream().map(h -> new Said(h, new Outcome.Release())).toList();
    return carefully(asked, (c, some, told) -> extend(c, some, lease, scope, told));
  }

  /**
   * All in one transaction; when somebody's lock is in the way, one by one, so that the others are
   * not kept waiting.
   */
  private List<Answer> carefully(List<Said> said, Work work) throws SQLException {
    Map<Long, Answer> answers;
    try {
      answers = inOne(said, work);
    } catch (SQLException failure) {
      if (SqlState.of(failure) != SqlState.TRY_AGAIN || said.size() > ONE_BY_ONE_MAX) {
        throw failure;
      }
      answers = oneByOne(said, work);
    }
    var inOrder = new ArrayList<Answer>(said.size());
    for (Said one : said) {
      inOrder.add(answers.getOrDefault(one.held().id(), new Answer.Lost()));
    }
    return inOrder;
  }

  /** What is counted is counted when it is committed. */
  private Map<Long, Answer> inOne(List<Said> said, Work work) throws SQLException {
    var told = new ArrayList<Runnable>();
    Map<Long, Answer> answers = database.transaction(c -> work.on(c, said, told));
    told.forEach(Runnable::run);
    return answers;
  }

  /** Above this the answer would take longer than a client waits. */
  private static final int ONE_BY_ONE_MAX = 500;

  private static final long ONE_BY_ONE_NANOS_MAX = Duration.ofSeconds(5).toNanos();

  private Map<Long, Answer> oneByOne(List<Said> said, Work work) throws SQLException {
    long beganNanos = System.nanoTime();
    var answers = new HashMap<Long, Answer>();
    for (Said one : said) {
      if (System.nanoTime() - beganNanos > ONE_BY_ONE_NANOS_MAX) {
        answers.put(one.held().id(), new Answer.Busy());
        continue;
      }
      try {
        answers.putAll(inOne(List.of(one), work));
      } catch (SQLException failure) {
        if (SqlState.of(failure) != SqlState.TRY_AGAIN) {
          throw failure;
        }
        answers.put(one.held().id(), new Answer.Busy());
      }
    }
    return answers;
  }

  private Map<Long, Answer> settle(
      Connection connection, List<Said> said, Scope scope, List<Runnable> told)
      throws SQLException {
    var outcomes = new HashMap<Long, Outcome>();
    said.forEach(one -> outcomes.put(one.held().id(), one.outcome()));
    List<Row> rows = lock(connection, said, scope);
    var ended = new ArrayList<Settler.Ended>(rows.size());
    var ran = new HashMap<Long, Long>();
    for (Row row : rows) {
      ended.add(
          new Settler.Ended(
              row.job(), outcomes.getOrDefault(row.job().id(), new Outcome.Release())));
      ran.put(row.job().id(), row.ranMicros());
    }
    return settled(connection, ended, ran, told);
  }

  private Map<Long, Answer> settled(
      Connection connection,
      List<Settler.Ended> ended,
      Map<Long, Long> ranMicros,
      List<Runnable> told)
      throws SQLException {
    var answers = new HashMap<Long, Answer>();
    for (Settler.Ended one : settler.settleIn(connection, ended)) {
      answers.put(one.job().id(), new Answer.Settled());
      long ranNanos = 1_000 * ranMicros.getOrDefault(one.job().id(), 0L);
      told.add(() -> {
        events.ran(one.job(), one.outcome(), ranNanos);
        events.settled(one.job(), one.outcome(), Settled.SETTLED);
      });
    }
    return answers;
  }

  private Map<Long, Answer> extend(
      Connection connection,
      List<Said> asked,
      @Nullable Duration lease,
      Scope scope,
      List<Runnable> told)
      throws SQLException {
    List<Row> rows = lock(connection, asked, scope);
    List<Row> late = rows.stream().filter(Row::overTime).toList();
    if (!late.isEmpty()) {
      var ran = new HashMap<Long, Long>();
      late.forEach(row -> ran.put(row.job().id(), row.ranMicros()));
      Map<Long, Answer> _ =
          settled(
              connection,
              late.stream()
                  .map(row -> new Settler.Ended(row.job(), Outcome.retry("timeout")))
                  .toList(),
              ran,
              told);
      late.forEach(row -> told.add(() -> events.leaseLost(row.job())));
    }
    List<Row> inTime = rows.stream().filter(row -> !row.overTime()).toList();
    return inTime.isEmpty() ? Map.of() : extend(connection, inTime, lease);
  }

  private static Map<Long, Answer> extend(
      Connection connection, List<Row> rows, @Nullable Duration lease) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(EXTEND)) {
      Array ids =
          connection.createArrayOf("int8", rows.stream().map(row -> row.job().id()).toArray());
      statement.setObject(1, lease == null ? null : lease.toMillis(), Types.BIGINT);
      statement.setArray(2, ids);
      statement.setArray(
          3, connection.createArrayOf("uuid", rows.stream().map(r -> r.job().token()).toArray()));
      statement.setArray(
          4, connection.createArrayOf("int8", rows.stream().map(Row::leaseMillis).toArray()));
      statement.setArray(
          5, connection.createArrayOf("int8", rows.stream().map(Row::timeoutMillis).toArray()));
      statement.setArray(6, ids);
      var answers = new HashMap<Long, Answer>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          answers.put(row.getLong(1), new Answer.Extended(row.getObject(2, OffsetDateTime.class)));
        }
      }
      return answers;
    }
  }

  private static List<Row> lock(Connection connection, List<Said> said, Scope scope)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LOCK)) {
      Array ids = connection.createArrayOf("int8", said.stream().map(s -> s.held().id()).toArray());
      statement.setInt(1, Policy.DEFAULT.maxAttempts());
      statement.setLong(2, Policy.DEFAULT.timeout().toMillis());
      statement.setLong(3, Policy.DEFAULT.timeout().toMillis());
      statement.setLong(4, Policy.DEFAULT.lease().toMillis());
      statement.setArray(5, ids);
      statement.setArray(
          6, connection.createArrayOf("uuid", said.stream().map(s -> s.held().token()).toArray()));
      statement.setArray(7, ids);
      statement.setString(8, scope.tenant());
      statement.setArray(
          9,
          scope.kinds() == null ? null : connection.createArrayOf("text", scope.kinds().toArray()));
      var rows = new ArrayList<Row>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          rows.add(row(row));
        }
      }
      return rows;
    }
  }

  private static Row row(ResultSet row) throws SQLException {
    var job =
        new Claimed(
            row.getLong(1),
            row.getString(2),
            row.getString(3),
            row.getInt(4),
            row.getInt(5),
            row.getInt(6),
            false,
            row.getObject(7, UUID.class),
            "{}",
            row.getInt(8),
            List.of(),
            null,
            0,
            row.getLong(12),
            0);
    return new Row(job, row.getLong(9), row.getBoolean(10), row.getLong(11), row.getLong(12));
  }
}
