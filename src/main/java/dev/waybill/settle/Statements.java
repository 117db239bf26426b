package dev.waybill.settle;

import dev.waybill.job.Backoff;
import dev.waybill.job.Outcome;
import dev.waybill.job.Policy;
import dev.waybill.policy.Policies;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The statements that end attempts, one for each kind of outcome, each for a whole batch. All are
 * fenced alike: {@code id} and {@code token} must match, and only a running job has a token, so a
 * stale holder changes no row. Each answers the ids it changed. The jobs of one claim have one
 * token, so each is sent once, and {@code held} says which of them is a job's.
 *
 * <p>Plan hazard: {@code id = ANY (ids)} keeps every plan on the primary key; a join alone, planned
 * while the table was empty, reads all of it.
 */
final class Statements {

  /**
   * DELETE and INSERT in one statement: the job is in one table in every snapshot. An UPDATE of a
   * partition key would lose claims.
   *
   * <p>Instead of a join {@code width_bucket} says which of the ids, in their order, a job has: a
   * seventh of the work of a batch of nine. Each column that the DELETE returns costs half a
   * microsecond a statement.
   */
  private static final String DONE =
      """
      WITH gone AS (
        DELETE FROM waybill.jobs j
        WHERE j.id = ANY (?) AND j.token = (?::uuid[])[(?::int[])[width_bucket(j.id, ?::bigint[])]]
        RETURNING j.id, j.run_at, j.created_at, j.started_at, j.priority, j.attempt, j.max_attempts, j.crashes, j.payload_version, j.kind,
          j.tenant, j.payload, j.dedupe_key, j.tags, j.traceparent, j.worker, j.last_error, j.attempts,
          (?::jsonb[])[width_bucket(j.id, ?::bigint[])] AS result
      ), ended AS (
        INSERT INTO waybill.jobs_done (id, run_at, created_at, started_at, finished_at, priority, attempt, max_attempts, crashes,
          payload_version, state, kind, tenant, payload, dedupe_key, tags, traceparent, worker, last_error, attempts, result)
        SELECT id, run_at, created_at, started_at, now(), priority, attempt, max_attempts, crashes,
          payload_version, 'done', kind, tenant, payload, dedupe_key, tags, traceparent, worker, last_error, attempts, result
        FROM gone
        RETURNING id, kind
      ), told AS MATERIALIZED (
        SELECT kind, array_agg(id) AS ids FROM ended GROUP BY kind
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'done', cardinality(ids) FROM told
      )
      SELECT ids FROM told
      """;

  /** For kinds that keep nothing (retention 0): the job leaves no trace but a count. */
  private static final String DONE_AND_GONE =
      """
      WITH gone AS (
        DELETE FROM waybill.jobs j USING unnest(?::bigint[], ?::int[]) AS s(id, held)
        WHERE j.id = ANY (?) AND j.id = s.id AND j.token = (?::uuid[])[s.held]
        RETURNING j.id, j.kind
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n)
        SELECT n.kind, f.what, n.jobs
        FROM (SELECT kind, count(*) AS jobs FROM gone GROUP BY kind) n CROSS JOIN unnest(ARRAY['done', 'purged']) AS f(what)
      )
      SELECT id FROM gone
      """;

  /**
   * Back to the queue after a failure. The wait is {@code base * factor^(attempt - 1)} up to the
   * cap, times a random part for jitter, or what the handler asked for; counted from the database's
   * now. The exponent is bounded so that power() cannot overflow.
   */
  private static final String RETRY =
      """
      WITH ended AS (
        UPDATE waybill.jobs j
        SET due = false, state = 'scheduled', token = NULL, lease_until = NULL, worker = NULL, started_at = NULL, progress = NULL, last_error = s.error,
          run_at = now() + interval '1 millisecond' * coalesce(s.asked_ms,
            least(s.cap_ms, s.base_ms * power(s.factor, least(j.attempt - 1, 100))) * CASE WHEN s.jitter THEN random() ELSE 1 END),
          attempts = waybill.with_attempt(j.attempts, j.attempt, j.worker, j.started_at, 'retry', s.error)
        FROM unnest(?::bigint[], ?::int[], ?::text[], ?::bigint[], ?::bigint[], ?::float8[], ?::bigint[], ?::boolean[])
          AS s(id, held, error, asked_ms, base_ms, factor, cap_ms, jitter)
        WHERE j.id = ANY (?) AND j.id = s.id AND j.token = (?::uuid[])[s.held]
        RETURNING j.id, j.kind
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'retried', count(*) FROM ended GROUP BY kind
      )
      SELECT id FROM ended
      """;

  /**
   * Snooze and release: back to the queue with the attempt given back, if the claim took one: that
   * of an exhausted job did not. A released job keeps its place in the lane.
   */
  private static final String GIVE_BACK =
      """
      WITH ended AS (
        UPDATE waybill.jobs j
        SET due = s.delay_ms <= 0, state = CASE WHEN s.delay_ms > 0 THEN 'scheduled' ELSE 'ready' END,
          run_at = CASE WHEN s.delay_ms > 0 THEN now() + s.delay_ms * interval '1 millisecond' ELSE j.run_at END,
          token = NULL, lease_until = NULL, worker = NULL, started_at = NULL, progress = NULL, attempt = j.attempt - s.given_back,
          attempts = waybill.with_attempt(j.attempts, j.attempt, j.worker, j.started_at, s.word, NULL)
        FROM unnest(?::bigint[], ?::int[], ?::bigint[], ?::text[], ?::int[])
          AS s(id, held, delay_ms, word, given_back)
        WHERE j.id = ANY (?) AND j.id = s.id AND j.token = (?::uuid[])[s.held]
        RETURNING j.id, j.kind, j.state
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n)
        SELECT kind, 'returned', count(*) FROM ended GROUP BY kind
        UNION ALL
        SELECT kind, 'scheduled', count(*) FROM ended WHERE state = 'scheduled' GROUP BY kind
      )
      SELECT id FROM ended
      """;

  private static final String DEAD =
      """
      WITH gone AS (
        DELETE FROM waybill.jobs j USING unnest(?::bigint[], ?::int[], ?::text[]) AS s(id, held, error)
        WHERE j.id = ANY (?) AND j.id = s.id AND j.token = (?::uuid[])[s.held]
        RETURNING j.*, s.error
      )
      INSERT INTO waybill.jobs_dead (id, run_at, created_at, started_at, finished_at, priority, attempt, max_attempts, crashes,
        payload_version, kind, tenant, payload, dedupe_key, tags, traceparent, worker, last_error, fingerprint, attempts)
      SELECT id, run_at, created_at, started_at, now(), priority, attempt, max_attempts, crashes,
        payload_version, kind, tenant, payload, dedupe_key, tags, traceparent, worker, error, waybill.fingerprint(error),
        waybill.with_attempt(attempts, attempt, worker, started_at, 'dead', error)
      FROM gone
      RETURNING id
      """;

  /** Takes a lock of its own and does nothing when they are there. */
  private static final String MAKE_PARTITIONS = "SELECT waybill.make_partitions()";

  /** Which of these can be settled without waiting for anybody's lock; locks them. */
  private static final String LOCK =
      """
      SELECT j.id FROM waybill.jobs j, unnest(?::bigint[], ?::int[]) AS s(id, held)
      WHERE j.id = ANY (?) AND j.id = s.id AND j.token = (?::uuid[])[s.held] FOR UPDATE OF j SKIP LOCKED
      """;

  private static final String OURS =
      """
      SELECT j.id FROM waybill.jobs j, unnest(?::bigint[], ?::int[]) AS s(id, held)
      WHERE j.id = ANY (?) AND j.id = s.id AND j.token = (?::uuid[])[s.held]
      """;

  /**
   * What became of attempts whose rows are gone: cancelled, or done by an earlier try whose answer
   * was lost. An attempt is settled once, so its number is proof enough; a job that was cancelled
   * while it did not run has no worker. The bound on the time leaves the old partitions out.
   */
  private static final String ENDED =
      """
      SELECT s.number, d.state FROM unnest(?::bigint[], ?::int[]) WITH ORDINALITY AS s(id, attempt, number), waybill.jobs_done d
      WHERE d.id = ANY (?) AND d.id = s.id AND d.attempt = s.attempt AND d.worker IS NOT NULL
        AND d.finished_at > now() - interval '1 day'
      """;

  private final Policies policies;

  Statements(Policies policies) {
    this.policies = policies;
  }

  /** How an attempt is ended, each by a statement of its own. */
  enum Way {
    DONE,
    DONE_AND_GONE,
    RETRY,
    GIVE_BACK,
    DEAD
  }

  /** Asked once for a batch: policies may change. */
  Map<Way, List<Settlement>> ways(List<Settlement> batch) {
    return batch.stream()
        .collect(
            Collectors.groupingBy(this::way, () -> new EnumMap<>(Way.class), Collectors.toList()));
  }

  private Way way(Settlement s) {
    return switch (s.outcome()) {
      case Outcome.Done _ ->
          policies.of(s.job().kind()).keepsNothing() ? Way.DONE_AND_GONE : Way.DONE;
      case Outcome.Retry _ -> Way.RETRY;
      case Outcome.Snooze _, Outcome.Release _ -> Way.GIVE_BACK;
      case Outcome.Dead _ -> Way.DEAD;
      case Outcome.Settled _ ->
          throw new IllegalArgumentException("is settled already: " + s.job());
    };
  }

  /**
   * Writes these outcomes, in one transaction with whatever else the connection has open; answers
   * those that were ours. A job is twice in a batch when we lost its lease and claimed it again:
   * the second is asked for apart, since an answer names jobs, and not their holders.
   */
  Set<Settlement> write(Connection connection, Map<Way, List<Settlement>> ways)
      throws SQLException {
    Set<Settlement> settled = Collections.newSetFromMap(new IdentityHashMap<>());
    for (var each : ways.entrySet()) {
      List<Settlement> left = each.getValue();
      while (!left.isEmpty()) {
        var byId = new TreeMap<Long, Settlement>();
        left = left.stream().filter(s -> byId.putIfAbsent(s.job().id(), s) != null).toList();
        byId.keySet().retainAll(end(connection, each.getKey(), List.copyOf(byId.values())));
        settled.addAll(byId.values());
      }
    }
    return settled;
  }

  private Set<Long> end(Connection connection, Way way, List<Settlement> ordered)
      throws SQLException {
    return switch (way) {
      case DONE -> done(connection, ordered);
      case DONE_AND_GONE -> execute(connection, DONE_AND_GONE, ordered);
      case RETRY -> retry(connection, ordered);
      case GIVE_BACK -> giveBack(connection, ordered);
      case DEAD -> dead(connection, ordered);
    };
  }

  Set<Long> lock(Connection connection, List<Settlement> batch) throws SQLException {
    return execute(connection, LOCK, batch);
  }

  Set<Long> ours(Connection connection, List<Settlement> batch) throws SQLException {
    return execute(connection, OURS, batch);
  }

  /**
   * How those ended that are not ours any more; one that is not in the answer was lost.
   *
   * @param perhapsByUs an earlier try may have written them, and its answer was lost
   */
  Map<Settlement, Settled> ended(Connection connection, List<Settlement> gone, boolean perhapsByUs)
      throws SQLException {
    var ended = new IdentityHashMap<Settlement, Settled>();
    try (PreparedStatement statement = connection.prepareStatement(ENDED)) {
      Array ids = ID.of(connection, gone);
      statement.setArray(1, ids);
      statement.setArray(2, ints(s -> s.job().attempt()).of(connection, gone));
      statement.setArray(3, ids);
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          Settlement s = gone.get(rows.getInt(1) - 1);
          if (rows.getString(2).equals("cancelled")) {
            ended.put(s, Settled.CANCELLED);
          } else if (perhapsByUs && s.outcome() instanceof Outcome.Done) {
            ended.put(s, Settled.SETTLED);
          }
        }
      }
    }
    return ended;
  }

  static boolean makePartitions(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(MAKE_PARTITIONS)) {
      return statement.execute();
    }
  }

  /**
   * Mostly nobody has a result: then none is sent, and what is not in the array is NULL.
   *
   * @param ordered by id
   */
  private static Set<Long> done(Connection connection, List<Settlement> ordered)
      throws SQLException {
    Column results = ordered.stream().anyMatch(s -> s.resultJson() != null) ? RESULT : NO_RESULT;
    Held held = Held.of(connection, ordered);
    var settled = new HashSet<Long>();
    try (PreparedStatement statement = connection.prepareStatement(DONE)) {
      Array ids = ID.of(connection, ordered);
      statement.setArray(1, ids);
      statement.setArray(2, held.tokens());
      statement.setArray(3, held.which());
      statement.setArray(4, ids);
      statement.setArray(5, results.of(connection, ordered));
      statement.setArray(6, ids);
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          settled.addAll(List.of((Long[]) rows.getArray(1).getArray()));
        }
      }
    }
    return settled;
  }

  private Set<Long> retry(Connection connection, List<Settlement> batch) throws SQLException {
    return execute(
        connection,
        RETRY,
        batch,
        texts(s -> retryOf(s).reason()),
        longs(s -> {
          var delay = retryOf(s).delay();
          return delay == null ? null : Math.max(0, delay.toMillis());
        }),
        longs(s -> backoffOf(s).base().toMillis()),
        new Column("float8", Double[]::new, s -> backoffOf(s).factor()),
        longs(s -> backoffOf(s).cap().toMillis()),
        new Column("bool", Boolean[]::new, s -> backoffOf(s).jitter()));
  }

  private static Set<Long> giveBack(Connection connection, List<Settlement> batch)
      throws SQLException {
    return execute(
        connection,
        GIVE_BACK,
        batch,
        longs(s ->
            s.outcome() instanceof Outcome.Snooze(var delay) ? Math.max(0, delay.toMillis()) : 0L),
        texts(s -> s.outcome().word()),
        ints(s -> s.job().exhausted() ? 0 : 1));
  }

  private static Set<Long> dead(Connection connection, List<Settlement> batch) throws SQLException {
    return execute(
        connection,
        DEAD,
        batch,
        texts(s -> s.outcome() instanceof Outcome.Dead(var reason) ? reason : ""));
  }

  private static Outcome.Retry retryOf(Settlement s) {
    return (Outcome.Retry) s.outcome();
  }

  private Backoff backoffOf(Settlement s) {
    Policy policy = policies.of(s.job().kind());
    return policy.backoff();
  }

  /**
   * One array parameter: a value for each settlement of the batch.
   *
   * @param array of the type that the driver sends in binary form; of objects it makes text
   */
  private record Column(
      String type,
      IntFunction<@Nullable Object[]> array,
      Function<Settlement, @Nullable Object> value) {

    Array of(Connection connection, List<Settlement> batch) throws SQLException {
      @Nullable Object[] values = array.apply(batch.size());
      for (int i = 0; i < values.length; i++) {
        values[i] = value.apply(batch.get(i));
      }
      return connection.createArrayOf(type, values);
    }
  }

  private static Column longs(Function<Settlement, @Nullable Object> value) {
    return new Column("int8", Long[]::new, value);
  }

  private static Column ints(Function<Settlement, @Nullable Object> value) {
    return new Column("int4", Integer[]::new, value);
  }

  private static Column texts(Function<Settlement, @Nullable Object> value) {
    return new Column("text", String[]::new, value);
  }

  private static final Column ID = longs(s -> s.job().id());
  private static final Column RESULT = new Column("jsonb", String[]::new, Settlement::resultJson);
  private static final Column NO_RESULT = new Column("jsonb", _ -> new String[0], _ -> null);

  /**
   * The jobs of one claim have one token, so each is sent once.
   *
   * @param which of the tokens a job has, from 1 on
   */
  private record Held(Array tokens, Array which) {

    static Held of(Connection connection, List<Settlement> batch) throws SQLException {
      var numbers = new LinkedHashMap<UUID, Integer>();
      Array which =
          ints(s -> numbers.computeIfAbsent(s.job().token(), _ -> numbers.size() + 1))
              .of(connection, batch);
      return new Held(connection.createArrayOf("uuid", numbers.keySet().toArray()), which);
    }
  }

  private static Set<Long> execute(
      Connection connection, String sql, List<Settlement> batch, Column... more)
      throws SQLException {
    var answered = new HashSet<Long>();
    Held held = Held.of(connection, batch);
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      Array ids = ID.of(connection, batch);
      statement.setArray(1, ids);
      statement.setArray(2, held.which());
      for (int i = 0; i < more.length; i++) {
        statement.setArray(3 + i, more[i].of(connection, batch));
      }
      statement.setArray(3 + more.length, ids);
      statement.setArray(4 + more.length, held.tokens());
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          answered.add(rows.getLong(1));
        }
      }
    }
    return answered;
  }
}
