package dev.waybill.api;

import dev.waybill.access.Caller;
import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import dev.waybill.enqueue.Gathering;
import dev.waybill.enqueue.NewJob;
import dev.waybill.enqueue.Queue;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.io.InputStream;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Takes jobs in: one, or a batch of them; under an idempotency key or without. */
@Singleton
final class Enqueuing {

  /** So many jobs go to the database at once, or fewer when they are large. */
  private static final int CHUNK_ROWS = 2_000;

  private static final int CHUNK_CHARS = 1 << 20;

  /**
   * What is read before a connection is taken: a client that sends slowly must not hold one, and
   * most batches are smaller than this.
   */
  private static final int AHEAD_CHARS = 4 << 20;

  private static final int BATCHES_AT_ONCE = 8;
  private static final int DEDUPE_TRIES = 5;

  /** A job that this transaction has inserted; any other has the number of another. */
  private static final String MADE_HERE =
      """
      SELECT EXISTS (SELECT FROM waybill.jobs j WHERE j.id = ? AND j.xmin = pg_current_xact_id_if_assigned()::xid)
      """;

  private final Database database;
  private final Queue queue;
  private final Gathering gathering;
  private final Requests requests;
  private final KnownKinds kinds;
  private final Semaphore batches = new Semaphore(BATCHES_AT_ONCE);

  @Inject
  Enqueuing(
      DataSource dataSource,
      Queue queue,
      Gathering gathering,
      Requests requests,
      KnownKinds kinds) {
    this.database = new Database(dataSource);
    this.queue = queue;
    this.gathering = gathering;
    this.requests = requests;
    this.kinds = kinds;
  }

  /**
   * A job, and whether this request made it.
   *
   * @param made false: an earlier request with the same idempotency key did
   */
  record One(JobView job, boolean made) {}

  /** As {@link One}, of a batch. */
  record Many(List<Long> ids, boolean made) {

    Many {
      ids = List.copyOf(ids);
    }
  }

  /**
   * Without waiting for anything itself.
   *
   * @param back runs what goes on with the answer
   */
  CompletionStage<One> one(
      NewJob job, Caller caller, Idempotency.@Nullable Key key, Executor back) {
    if (key != null || job.dedupeKey() != null || !kinds.knows(job)) {
      return Aside.call(() -> asks(job, caller, key), back);
    }
    // One statement, one round trip, and nothing to read: the answer is known.
    return gathering
        .enqueue(job, back)
        .thenApply(told -> new One(JobView.fresh(job, told, caller.payloads()), true));
  }

  /** What takes more than one question to the database, or may have to wait for somebody. */
  private One asks(NewJob job, Caller caller, Idempotency.@Nullable Key key) throws SQLException {
    if (!kinds.knows(job)) {
      boolean _ =
          database.run(c -> {
            kinds.check(c, Set.of(job.kind()));
            return true;
          });
    }
    if (key == null && job.dedupeKey() == null) {
      return new One(database.run(c -> enqueue(c, job, caller)), true);
    }
    if (key == null) {
      return new One(database.transaction(c -> enqueue(c, job, caller)), true);
    }
    String asked = new Idempotency.Fingerprint().add(job).sum();
    @Nullable One known = database.run(c -> known(c, key, asked, job, caller));
    if (known != null) {
      return known;
    }
    try {
      return new One(
          database.transaction(c -> {
            JobView view = enqueue(c, job, caller);
            key.remember(c, asked, List.of(view.id()));
            return view;
          }),
          true);
    } catch (Idempotency.Raced _) {
      @Nullable One first = database.run(c -> known(c, key, asked, job, caller));
      if (first == null) {
        throw new IllegalStateException("somebody was first with this key, and is not there");
      }
      return first;
    }
  }

  /** The live job that has its dedupe key may be another than the request says, so it is read. */
  private JobView enqueue(Connection connection, NewJob job, Caller caller) throws SQLException {
    for (int tries = 0; tries < DEDUPE_TRIES; tries++) {
      Queue.Told told = queue.enqueueTold(connection, job);
      if (job.dedupeKey() == null) {
        return JobView.fresh(job, told, caller.payloads());
      }
      @Nullable JobView view = JobReader.read(connection, told.id(), caller);
      if (view != null) {
        return madeHere(connection, told.id()) ? view : view.asDuplicate();
      }
      // The job that had the key has ended meanwhile, and nothing of it was kept: the key is free.
    }
    throw new Problem.Thrown(Problem.busy());
  }

  private static boolean madeHere(Connection connection, long id) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(MADE_HERE)) {
      statement.setLong(1, id);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() && row.getBoolean(1);
      }
    }
  }

  /** As it is now; as it was when it was enqueued, if it is gone for good meanwhile. */
  private static @Nullable One known(
      Connection connection, Idempotency.Key key, String asked, NewJob job, Caller caller)
      throws SQLException {
    Idempotency.@Nullable Known known = key.find(connection);
    if (known == null) {
      return null;
    }
    known.same(asked);
    long id = known.ids().getFirst();
    @Nullable JobView view = JobReader.read(connection, id, caller);
    if (view != null) {
      return new One(view, false);
    }
    var runAt =
        job.runAt() != null && job.runAt().isAfter(known.createdAt())
            ? job.runAt()
            : job.delay() == null ? known.createdAt() : known.createdAt().plus(job.delay());
    var told = new Queue.Told(id, known.createdAt(), runAt);
    return new One(JobView.fresh(job, told, caller.payloads()), false);
  }

  /** All of them or none. */
  Many many(
      InputStream body,
      boolean lines,
      Caller caller,
      Idempotency.@Nullable Key key,
      @Nullable String traceparent)
      throws SQLException {
    if (!batches.tryAcquire()) {
      throw Problem.tooMany("This process takes " + BATCHES_AT_ONCE + " batches at once.");
    }
    try {
      var fingerprint = key == null ? null : new Idempotency.Fingerprint();
      var reader = new BatchReader(requests, body, lines, caller, traceparent, fingerprint);
      return key == null || fingerprint == null
          ? new Many(enqueueAll(reader, null, null), true)
          : many(reader, key, fingerprint);
    } finally {
      batches.release();
    }
  }

  private Many many(BatchReader reader, Idempotency.Key key, Idempotency.Fingerprint fingerprint)
      throws SQLException {
    Idempotency.@Nullable Known known = database.run(key::find);
    if (known == null) {
      try {
        return new Many(enqueueAll(reader, key, fingerprint), true);
      } catch (Idempotency.Raced _) {
        known = database.run(key::find);
        if (known == null) {
          throw new IllegalStateException("somebody was first with this key, and is not there");
        }
        known.same(fingerprint.sum());
        return new Many(known.ids(), false);
      }
    }
    while (!reader.next(AHEAD_CHARS, BatchReader.JOBS_MAX).isEmpty()) {
      // Only for its fingerprint.
    }
    known.same(fingerprint.sum());
    return new Many(known.ids(), false);
  }

  private List<Long> enqueueAll(
      BatchReader reader,
      Idempotency.@Nullable Key key,
      Idempotency.@Nullable Fingerprint fingerprint)
      throws SQLException {
    List<BatchReader.Row> ahead = reader.next(AHEAD_CHARS, BatchReader.JOBS_MAX);
    if (ahead.isEmpty()) {
      throw Problem.invalid("jobs", "There is no job in it.");
    }
    try {
      return database.transaction(connection -> {
        var ids = new ArrayList<Long>(ahead.size());
        var admitted = new HashSet<String>();
        var asked = new HashSet<String>();
        List<BatchReader.Row> some = ahead;
        while (!some.isEmpty()) {
          kinds.check(
              connection,
              some.stream()
                  .map(row -> row.job().kind())
                  .filter(asked::add)
                  .collect(Collectors.toSet()));
          takeRooms(connection, some, admitted);
          enqueueChunks(connection, some, ids);
          some = reader.next(CHUNK_CHARS, CHUNK_ROWS);
        }
        if (key != null && fingerprint != null) {
          key.remember(connection, fingerprint.sum(), ids);
        }
        return ids;
      });
    } catch (RefusedChunk refused) {
      throw whichRow(refused);
    }
  }

  /**
   * What the limits of its tenants say about a batch is decided by its first part: one that is let
   * in is not refused half-way, when it has used up what it would need to begin anew.
   */
  private void takeRooms(Connection connection, List<BatchReader.Row> rows, Set<String> admitted)
      throws SQLException {
    var fresh = new TreeMap<String, Integer>();
    var owed = new TreeMap<String, Integer>();
    for (BatchReader.Row row : rows) {
      String tenant = row.job().tenant();
      (admitted.contains(tenant) ? owed : fresh).merge(tenant, 1, Integer::sum);
    }
    if (!fresh.isEmpty()) {
      queue.takeRooms(connection, fresh, false);
    }
    if (!owed.isEmpty()) {
      queue.takeRooms(connection, owed, true);
    }
    admitted.addAll(fresh.keySet());
  }

  private void enqueueChunks(Connection connection, List<BatchReader.Row> rows, List<Long> ids)
      throws SQLException {
    var chunk = new ArrayList<BatchReader.Row>(Math.min(rows.size(), CHUNK_ROWS));
    long chars = 0;
    for (BatchReader.Row row : rows) {
      chunk.add(row);
      chars += row.job().payload().length();
      if (chunk.size() == CHUNK_ROWS || chars >= CHUNK_CHARS) {
        enqueueChunk(connection, chunk, ids);
        chunk.clear();
        chars = 0;
      }
    }
    if (!chunk.isEmpty()) {
      enqueueChunk(connection, chunk, ids);
    }
  }

  private void enqueueChunk(Connection connection, List<BatchReader.Row> chunk, List<Long> ids)
      throws SQLException {
    try {
      for (long id :
          queue.enqueueAdmitted(connection, chunk.stream().map(BatchReader.Row::job).toList())) {
        ids.add(id);
      }
    } catch (SQLException failure) {
      if (SqlState.of(failure) == SqlState.BAD_VALUE) {
        throw new RefusedChunk(List.copyOf(chunk), failure);
      }
      throw failure;
    }
  }

  /** One of these was refused. */
  private static final class RefusedChunk extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final transient List<BatchReader.Row> rows;
    private final SQLException why;

    RefusedChunk(List<BatchReader.Row> rows, SQLException why) {
      super(why);
      this.rows = rows;
      this.why = why;
    }
  }

  /** After the transaction: asks about one after the other which it is. */
  private Problem.Thrown whichRow(RefusedChunk refused) throws SQLException {
    return database.run(connection -> {
      for (BatchReader.Row row : refused.rows) {
        try {
          queue.check(connection, row.job());
        } catch (SQLException failure) {
          if (SqlState.of(failure) != SqlState.BAD_VALUE) {
            throw failure;
          }
          return new Problem.Thrown(Problems.refused(failure).at(row.line(), row.index()));
        }
      }
      return new Problem.Thrown(Problems.refused(refused.why));
    });
  }
}
