package dev.waybill.claim;

import dev.waybill.db.Database;
import dev.waybill.job.Claimed;
import dev.waybill.job.Policy;
import dev.waybill.policy.Policies;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Takes ready jobs for one pool, in turns between the tenants. Each pool has its own; one thread
 * uses it.
 */
public final class Claimer {

  /**
   * The claim. Why it is written this way:
   *
   * <ul>
   *   <li>It starts from the lanes (kind, payload version, tenant, priority) whose turn it is and
   *       takes at most a quantum from each: one tenant's half million jobs cost another one index
   *       descent, not a wait. A look-ahead over the oldest rows would see only the flood.
   *   <li>{@code MATERIALIZED} with the {@code LIMIT} inside: as {@code IN (SELECT ... LIMIT n)}
   *       the subquery may run more than once under a changed plan and claim more than n. The
   *       number of rows is checked all the same.
   *   <li>{@code FOR NO KEY UPDATE SKIP LOCKED}: claimers pass each other by, and nobody waits.
   *       After the lock PostgreSQL looks at the row's newest version again, so a job claimed
   *       meanwhile is not ready any more and drops out.
   *   <li>{@code ctid = due.tid} goes back to the locked rows themselves. Joined by id, a plan made
   *       while the table was empty reads the whole table: 400 ms instead of 1; by ctid there is no
   *       index to read it by. A row that was changed between snapshot and lock is not found this
   *       way; it stays ready, and the next sweep finds it.
   *   <li>The lane is found in {@code jobs_due} by {@code waybill.place}, a hash with a number
   *       added; kind and tenant are asked for as well, should two have the same place.
   *   <li>{@code (run_at, id) >= (low)} bounds the scan from below, see {@link Lane}.
   *   <li>{@code due} makes the partial index match. It holds running jobs as well, so that this
   *       needs to write to no index at all: what it changes is in none, the new version of a row
   *       stays on its page (HOT). Running ones lie behind the low bound, mostly.
   *   <li>What it takes it notes in {@code waybill.claims}, see {@link Claims}. A row that was
   *       locked and then not found is named there as well, and does not run, since it has not the
   *       token.
   *   <li>What is the same for a lane is not sent back with each job, only the lane's number.
   *   <li>{@code run_at <= now()}: no attempt before its time, by the database's clock.
   *   <li>A payload newer than this build reads is left for a newer build: the sweep finds none of
   *       its lanes. A filter here would walk those rows again at each claim.
   *   <li>{@code date_part} and not {@code extract}, which computes in numeric: 0.5 us a job. A
   *       double holds the microseconds of this century exactly.
   *   <li>The attempt rises here, where the lease begins, and never passes the limit: a job whose
   *       limit was lowered below its attempts comes out as exhausted and is buried instead of run.
   * </ul>
   */
  private static final String CLAIM =
      """
      WITH due AS MATERIALIZED (
        SELECT head.tid, head.id, lane.n, head.attempt >= coalesce(head.max_attempts, lane.max_attempts) AS exhausted, lane.lease_ms
        FROM unnest(?::text[], ?::smallint[], ?::text[], ?::smallint[], ?::bigint[], ?::bigint[], ?::int[], ?::bigint[], ?::int[])
          WITH ORDINALITY AS lane(kind, payload_version, tenant, priority, low_micros, low_id, max_attempts, lease_ms, most, n)
        CROSS JOIN LATERAL (
          SELECT j.ctid AS tid, j.id, j.attempt, j.max_attempts FROM waybill.jobs j
          WHERE j.due AND j.state = 'ready' AND j.kind = lane.kind AND j.tenant = lane.tenant
            AND waybill.place(j.kind, j.payload_version) = waybill.place(lane.kind, lane.payload_version)
            AND waybill.place(j.tenant, j.priority) = waybill.place(lane.tenant, lane.priority)
            AND (j.run_at, j.id) >= ('epoch'::timestamptz + lane.low_micros * interval '1 microsecond', lane.low_id)
            AND j.run_at <= now()
          ORDER BY j.run_at, j.id LIMIT lane.most
          FOR NO KEY UPDATE SKIP LOCKED
        ) head
        LIMIT ?
      ), noted AS (
        INSERT INTO waybill.claims (token, ids, kinds) SELECT ?, array_agg(id), ? FROM due HAVING count(*) > 0
      )
      UPDATE waybill.jobs j
      SET state = 'running', token = ?, worker = ?, started_at = now(), lease_until = now() + due.lease_ms * interval '1 millisecond',
        attempt = CASE WHEN due.exhausted THEN j.attempt ELSE j.attempt + 1 END, progress = NULL
      FROM due WHERE j.ctid = due.tid
      RETURNING j.id, due.n, j.attempt, j.max_attempts, due.exhausted, j.payload, j.tags, j.traceparent,
        (date_part('epoch', j.run_at) * 1000000)::bigint, (SELECT (date_part('epoch', now()) * 1000000)::bigint)
      """;

  /** A tenant's turn: at most this many jobs, while others wait. */
  private static final int QUANTUM = 16;

  private final Database database;
  private final Policies policies;
  private final String worker;
  private final Wanted wanted;
  private final Lanes lanes = new Lanes();
  private final Sweep sweep = new Sweep();
  private final @Nullable String tenant;

  /** What the caps left free at the last claim. */
  private Headroom last = Headroom.unbounded();

  /**
   * @param kinds the kinds to claim, each with the newest payload version that this build can read
   */
  public Claimer(Database database, Policies policies, String worker, Map<String, Integer> kinds) {
    this(database, policies, worker, () -> kinds, null);
  }

  /**
   * @param takes which of the kinds, by their policy as it is at the moment
   * @param tenant only this tenant's jobs; null for all
   */
  public Claimer(
      Database database,
      Policies policies,
      String worker,
      Map<String, Integer> kinds,
      Predicate<Policy> takes,
      @Nullable String tenant) {
    this(
        database,
        policies,
        worker,
        () -> {
          var now = new HashMap<>(kinds);
          now.keySet().removeIf(kind -> !takes.test(policies.of(kind)));
          return now;
        },
        tenant);
  }

  public Claimer(Database database, Policies policies, String worker, Wanted wanted) {
    this(database, policies, worker, wanted, null);
  }

  private Claimer(
      Database database, Policies policies, String worker, Wanted wanted, @Nullable String tenant) {
    this.database = database;
    this.policies = policies;
    this.worker = worker;
    this.wanted = wanted;
    this.tenant = tenant;
  }

  /** Whether the last sweep left something to claim. */
  public boolean knowsMore() {
    return !lanes.isEmpty();
  }

  /**
   * What was said to have come is mostly where the last came from: the lanes that were emptied
   * last, without asking the database. False when it remembers none; when the claim then brings
   * nothing, a sweep is to be made.
   */
  public boolean recall() {
    return lanes.recall(recallable());
  }

  /**
   * Whether all lanes that were emptied since the last sweep would be recalled. Those of a kind
   * that has caps are not: without room for them, an empty one could not be told from a full one.
   */
  public boolean remembersAll() {
    return lanes.remembersAll(recallable().keySet());
  }

  private Map<String, Integer> recallable() {
    Map<String, Integer> kinds = open();
    Set<String> bounded = wanted.room().keySet();
    kinds.keySet().removeIf(kind -> bounded.contains(kind) || policies.of(kind).caps().any());
    return kinds;
  }

  private Map<String, Integer> open() {
    var open = new HashMap<>(wanted.kinds());
    open.keySet().retainAll(policies.notPaused(open.keySet()));
    return open;
  }

  /** Looks for what is ready. */
  public void sweep() throws SQLException {
    lanes.swept(find().lanes());
  }

  /** What is emptied from now on counts as emptied since this sweep. */
  public void sweepBegins() {
    lanes.sweepBegins();
  }

  /** The part of a sweep that asks the database: another thread may do it. */
  public Found find() throws SQLException {
    Map<String, Integer> open = open();
    return new Found(
        open.keySet(), open.isEmpty() ? List.of() : database.run(c -> sweep.of(c, open, tenant)));
  }

  /** What a sweep found while claims went on. */
  public void add(Found found) {
    lanes.add(found.lanes(), found.kinds());
  }

  /** A sweep that began has found nothing out. */
  public void forget() {
    lanes.forget();
  }

  public Set<String> kinds() {
    return wanted.kinds().keySet();
  }

  private static final String ARM = "SELECT waybill.arm(?)";

  /**
   * Asks producers of these kinds to notify, from the next commit on; look once more after it.
   * False when some of the kinds have to be asked for again.
   */
  public boolean arm() throws SQLException {
    Object[] kinds = wanted.kinds().keySet().toArray();
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(ARM)) {
        statement.setArray(1, connection.createArrayOf("text", kinds));
        try (ResultSet row = statement.executeQuery()) {
          row.next();
          return row.getBoolean(1);
        }
      }
    });
  }

  /** Takes up to {@code max} jobs from the lanes in turn, as far as their caps leave room. */
  public List<Claimed> claim(int max) throws SQLException {
    if (lanes.isEmpty()) {
      last = Headroom.unbounded();
      return List.of();
    }
    List<String> capped =
        lanes.kinds().stream().filter(kind -> policies.of(kind).caps().any()).toList();
    List<Took> took =
        capped.isEmpty()
            ? database.run(c -> claim(c, Headroom.unbounded(), max))
            : database.transaction(c -> claim(c, Headroom.of(c, capped), max));
    return took.stream().map(Took::job).toList();
  }

  private List<Took> claim(Connection connection, Headroom headroom, int max) throws SQLException {
    int quantum = Math.max(QUANTUM, Math.ceilDiv(max, lanes.tenants()));
    int each = Math.min(quantum, max);
    Map<String, Integer> room = wanted.room();
    List<Lanes.Turn> turn =
        room.isEmpty()
            ? lanes.next(Math.ceilDiv(max, each), lane -> headroom.allot(lane, each))
            : lanes.next(Math.ceilDiv(max, each), lane -> allot(lane, each, headroom, room));
    last = headroom;
    if (turn.isEmpty()) {
      return List.of();
    }
    List<Took> took = take(connection, turn, max);
    if (took.size() > max) {
      throw new IllegalStateException("claimed " + took.size() + " jobs, asked for " + max);
    }
    var begun = new HashMap<String, Integer>();
    took.forEach(t -> begun.merge(t.job().kind(), 1, Integer::sum));
    headroom.spend(connection, begun);
    remember(turn, took, max);
    return took;
  }

  /** Its kind may be worked on here only so many times at once. */
  private static int allot(Lane lane, int each, Headroom headroom, Map<String, Integer> room) {
    @Nullable Integer left = room.get(lane.kind());
    if (left == null) {
      return headroom.allot(lane, each);
    }
    if (left <= 0) {
      headroom.noRoom();
      return 0;
    }
    int most = headroom.allot(lane, Math.min(each, left));
    room.put(lane.kind(), left - most);
    return most;
  }

  /**
   * When the last claim passed lanes over because a cap is reached: how soon to ask again. 0 when
   * it did not.
   */
  public long heldMillis() {
    return last.heldMillis();
  }

  /** Whether the last claim passed lanes over that may have room as soon as a job of ours ends. */
  public boolean waitsForPlace() {
    return last.full();
  }

  /**
   * @param turn which of the turns it comes from
   */
  private record Took(Claimed job, int turn, long runAtMicros) {}

  private void remember(List<Lanes.Turn> turn, List<Took> took, int max) {
    var tails = new @Nullable Took[turn.size()];
    var counts = new int[turn.size()];
    for (Took t : took) {
      counts[t.turn()]++;
      @Nullable Took tail = tails[t.turn()];
      if (tail == null || isBehind(t, tail)) {
        tails[t.turn()] = t;
      }
    }
    boolean cutShort = took.size() == max;
    for (int i = 0; i < counts.length; i++) {
      Lane lane = turn.get(i).lane();
      @Nullable Took tail = tails[i];
      if (tail != null) {
        lanes.advance(lane, tail.runAtMicros(), tail.job().id());
      }
      if (counts[i] < turn.get(i).most() && !cutShort) {
        lanes.exhausted(lane);
      }
    }
  }

  private static boolean isBehind(Took a, Took b) {
    return a.runAtMicros() != b.runAtMicros()
        ? a.runAtMicros() > b.runAtMicros()
        : a.job().id() > b.job().id();
  }

  private List<Took> take(Connection connection, List<Lanes.Turn> turn, int max)
      throws SQLException {
    UUID token = UUID.randomUUID();
    long sentNanos = System.nanoTime();
    List<Policy> known = turn.stream().map(t -> policies.of(t.lane().kind())).toList();
    try (PreparedStatement statement = connection.prepareStatement(CLAIM)) {
      bindLanes(connection, statement, turn, known);
      statement.setInt(10, max);
      statement.setObject(11, token);
      Object[] kinds = turn.stream().map(t -> t.lane().kind()).distinct().toArray();
      statement.setArray(12, connection.createArrayOf("text", kinds));
      statement.setObject(13, token);
      statement.setString(14, worker);
      var took = new ArrayList<Took>(max);
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          int n = rows.getInt(2) - 1;
          took.add(read(rows, n, turn.get(n).lane(), known.get(n), token, sentNanos));
        }
      }
      return took;
    }
  }

  private static void bindLanes(
      Connection connection,
      PreparedStatement statement,
      List<Lanes.Turn> turn,
      List<Policy> policies)
      throws SQLException {
    int n = turn.size();
    var kindNames = new String[n];
    var payloadVersions = new Short[n];
    var tenants = new String[n];
    var priorities = new Short[n];
    var lowMicros = new Long[n];
    var lowIds = new Long[n];
    var maxAttempts = new Integer[n];
    var leases = new Long[n];
    var most = new Integer[n];
    for (int i = 0; i < n; i++) {
      Lane lane = turn.get(i).lane();
      kindNames[i] = lane.kind();
      payloadVersions[i] = (short) lane.payloadVersion();
      tenants[i] = lane.tenant();
      priorities[i] = (short) lane.priority();
      lowMicros[i] = lane.lowMicros();
      lowIds[i] = lane.lowId();
      maxAttempts[i] = policies.get(i).maxAttempts();
      leases[i] = policies.get(i).lease().toMillis();
      most[i] = turn.get(i).most();
    }
    statement.setArray(1, connection.createArrayOf("text", kindNames));
    statement.setArray(2, connection.createArrayOf("int2", payloadVersions));
    statement.setArray(3, connection.createArrayOf("text", tenants));
    statement.setArray(4, connection.createArrayOf("int2", priorities));
    statement.setArray(5, connection.createArrayOf("int8", lowMicros));
    statement.setArray(6, connection.createArrayOf("int8", lowIds));
    statement.setArray(7, connection.createArrayOf("int4", maxAttempts));
    statement.setArray(8, connection.createArrayOf("int8", leases));
    statement.setArray(9, connection.createArrayOf("int4", most));
  }

  private static Took read(
      ResultSet row, int turn, Lane lane, Policy policy, UUID token, long sentNanos)
      throws SQLException {
    int ownLimit = row.getInt(4);
    int maxAttempts = row.wasNull() ? policy.maxAttempts() : ownLimit;
    var tags = row.getArray(7);
    long runAtMicros = row.getLong(9);
    long leaseMillis = policy.lease().toMillis();
    var job =
        new Claimed(
            row.getLong(1),
            lane.kind(),
            lane.tenant(),
            lane.priority(),
            row.getInt(3),
            maxAttempts,
            row.getBoolean(5),
            token,
            row.getString(6),
            lane.payloadVersion(),
            tags == null ? List.of() : List.of((String[]) tags.getArray()),
            row.getString(8),
            row.getLong(10) - runAtMicros,
            leaseMillis,
            sentNanos + leaseMillis * 1_000_000);
    return new Took(job, turn, runAtMicros);
  }
}
