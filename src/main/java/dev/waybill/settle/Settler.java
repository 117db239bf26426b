package dev.waybill.settle;

import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import dev.waybill.job.Claimed;
import dev.waybill.job.ErrorText;
import dev.waybill.job.Outcome;
import dev.waybill.policy.Policies;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Consumer;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Collects outcomes and writes them in batches. A batch is whatever came in while the one before
 * was written, so it grows with the load by itself; a small one waits {@value #LINGER_MILLIS} ms
 * for company, but only while other attempts are under way that could join it.
 */
@Singleton
public final class Settler {

  private static final Logger LOG = Logger.getLogger(Settler.class);
  private static final int BATCH_MAX = 500;
  private static final int LINGER_MILLIS = 3;
  private static final int IDLE_MILLIS = 100;
  private static final int FLUSHERS = 2;
  private static final long STOP_NANOS_MAX = TimeUnit.SECONDS.toNanos(5);

  private final Database database;
  private final Statements statements;
  private final ResultWriter results;
  private final LinkedBlockingQueue<Settlement> queue = new LinkedBlockingQueue<>();

  /** Attempts that were claimed and not yet settled, in this process. */
  private final AtomicInteger underWay = new AtomicInteger();

  /**
   * Platform threads: handlers that compute without a pause may hold every carrier of the virtual
   * ones.
   */
  private final List<Thread> flushers = new ArrayList<>();

  /** When each flusher last did anything, failed tries included. */
  private final AtomicLongArray turnedNanos = new AtomicLongArray(FLUSHERS);

  private volatile boolean stopping;
  private volatile long giveUpNanos;

  public Settler(Database database, Policies policies, ResultWriter results) {
    this.database = database;
    this.statements = new Statements(policies);
    this.results = results;
  }

  public void start() {
    for (int i = 0; i < FLUSHERS; i++) {
      int number = i;
      turnedNanos.set(number, System.nanoTime());
      flushers.add(
          Thread.ofPlatform().daemon().name("settler-" + i).start(() -> flushForEver(number)));
    }
  }

  /** After the pools have stopped. What is still queued is written first. */
  public void stop() throws InterruptedException {
    giveUpNanos = System.nanoTime() + STOP_NANOS_MAX;
    stopping = true;
    for (Thread flusher : flushers) {
      flusher.join();
    }
    flushers.clear();
  }

  /** A claim brought so many attempts, each of which will be settled. */
  public void expect(int attempts) {
    underWay.addAndGet(attempts);
  }

  /** Somebody else settled this one: the handler in its own transaction, or nobody will. */
  public void expectNoMore() {
    underWay.decrementAndGet();
  }

  /** Hands an outcome over; {@code told} hears how it went, on another thread, exactly once. */
  public void settle(Claimed job, Outcome outcome, long leaseEndNanos, Consumer<Settled> told) {
    queue.add(prepare(job, outcome, leaseEndNanos, told));
  }

  /**
   * Settles on the caller's connection, so that it commits or rolls back with the caller's work;
   * false when the lease is lost.
   */
  public boolean settleIn(Connection connection, Claimed job, Outcome outcome) throws SQLException {
    try {
      return !statements.write(connection, List.of(prepare(job, outcome, 0, _ -> {}))).isEmpty();
    } catch (SQLException failure) {
      if (SqlState.of(failure) == SqlState.NO_PARTITION) {
        makePartitions(failure); // The caller's transaction is lost; its next try will find it.
      }
      throw failure;
    }
  }

  private Settlement prepare(
      Claimed job, Outcome outcome, long leaseEndNanos, Consumer<Settled> told) {
    return switch (outcome) {
      case Outcome.Done(var result) -> done(job, result, leaseEndNanos, told);
      case Outcome.Retry(_, var reason) when job.lastAttempt() ->
          new Settlement(job, new Outcome.Dead(ErrorText.clean(reason)), null, leaseEndNanos, told);
      case Outcome.Retry(var delay, var reason) ->
          new Settlement(
              job, new Outcome.Retry(delay, ErrorText.clean(reason)), null, leaseEndNanos, told);
      case Outcome.Dead(var reason) ->
          new Settlement(job, new Outcome.Dead(ErrorText.clean(reason)), null, leaseEndNanos, told);
      case Outcome.Snooze _, Outcome.Release _ ->
          new Settlement(job, outcome, null, leaseEndNanos, told);
      case Outcome.Settled _ -> throw new IllegalArgumentException("is settled already: " + job);
    };
  }

  private Settlement done(
      Claimed job, @Nullable Object result, long leaseEndNanos, Consumer<Settled> told) {
    try {
      return new Settlement(job, new Outcome.Done(null), results.json(result), leaseEndNanos, told);
    } catch (ResultWriter.NotStorable refused) {
      String reason = "the result cannot be stored: " + refused.getMessage();
      return new Settlement(
          job, new Outcome.Dead(ErrorText.clean(reason)), null, leaseEndNanos, told);
    }
  }

  /** Every flusher still turns. */
  public boolean turnsWithin(Duration limit) {
    for (int i = 0; i < flushers.size(); i++) {
      if (System.nanoTime() - turnedNanos.get(i) > limit.toNanos()) {
        return false;
      }
    }
    return true;
  }

  /** Never interrupted: an interrupt would close the connection in the middle of a COMMIT. */
  private void flushForEver(int number) {
    var batch = new ArrayList<Settlement>(BATCH_MAX);
    while (!stopping || (underWay.get() > 0 && System.nanoTime() - giveUpNanos < 0)) {
      turnedNanos.set(number, System.nanoTime());
      collect(batch, IDLE_MILLIS);
      if (!batch.isEmpty() && batch.size() < Math.min(BATCH_MAX, underWay.get())) {
        collect(batch, LINGER_MILLIS);
      }
      if (!batch.isEmpty()) {
        flush(batch, number);
        batch.clear();
      }
    }
  }

  /** Adds what is there; when that is nothing, what comes within the time. */
  private void collect(List<Settlement> batch, int millis) {
    try {
      @Nullable Settlement first = queue.poll(millis, TimeUnit.MILLISECONDS);
      if (first != null) {
        batch.add(first);
        queue.drainTo(batch, BATCH_MAX - batch.size());
      }
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Until it is written, or the leases are over. The connection may break after COMMIT was sent;
   * then the same again finds nothing.
   */
  private void flush(List<Settlement> batch, int number) {
    List<Settlement> open = batch;
    long waitMillis = 20;
    boolean careful = false;
    while (!open.isEmpty()) {
      turnedNanos.set(number, System.nanoTime());
      try {
        open = careful ? writeUnlocked(open) : write(open);
        if (!open.isEmpty()) {
          open = withoutThoseGivenUp(open);
          waitMillis = pause(waitMillis);
        }
      } catch (SQLException failure) {
        switch (SqlState.of(failure)) {
          case BAD_VALUE, DUPLICATE -> {
            oneByOne(open, failure, number);
            return;
          }
          case NO_PARTITION -> makePartitions(failure);
          case TRY_AGAIN, TIMED_OUT -> careful = true;
          case UNREACHABLE, BROKEN -> {}
        }
        LOG.warnf(
            "settle failed, trying again jobs=%d sqlstate=%s", open.size(), failure.getSQLState());
        open = withoutThoseGivenUp(open);
        waitMillis = pause(waitMillis);
      } catch (RuntimeException | Error bug) {
        LOG.errorf(bug, "settle failed jobs=%d", open.size());
        open.forEach(s -> tell(s, Settled.GIVEN_UP));
        return;
      }
    }
  }

  private List<Settlement> write(List<Settlement> batch) throws SQLException {
    Set<Long> settled = database.transaction(c -> statements.write(c, batch));
    batch.forEach(s -> tell(s, settled.contains(s.job().id()) ? Settled.SETTLED : Settled.LOST));
    return List.of();
  }

  /**
   * Somebody holds the lock of a row, for instance a producer that cancels the job and does not
   * commit: the others of the batch must not wait for it. Answers those that are still ours and
   * locked.
   */
  private List<Settlement> writeUnlocked(List<Settlement> batch) throws SQLException {
    var locked = new ArrayList<Settlement>();
    var lost = new ArrayList<Settlement>();
    Set<Long> settled =
        database.transaction(c -> {
          Set<Long> unlocked = statements.lock(c, batch);
          Set<Long> ours = statements.ours(c, batch);
          var now = new ArrayList<Settlement>();
          for (Settlement s : batch) {
            long id = s.job().id();
            (unlocked.contains(id) ? now : ours.contains(id) ? locked : lost).add(s);
          }
          return statements.write(c, now);
        });
    batch.stream()
        .filter(s -> settled.contains(s.job().id()))
        .forEach(s -> tell(s, Settled.SETTLED));
    lost.forEach(s -> tell(s, Settled.LOST));
    return locked;
  }

  /** Nobody made partitions for a while, or time went wrong. Any holder may make them. */
  private void makePartitions(SQLException missing) {
    try {
      database.run(Statements::makePartitions);
    } catch (SQLException failure) {
      missing.addSuppressed(failure);
    }
  }

  /**
   * One of the batch holds a value that the database refuses: it must not take the others with it.
   */
  private void oneByOne(List<Settlement> batch, SQLException failure, int number) {
    if (batch.size() > 1) {
      batch.forEach(s -> flush(List.of(s), number));
      return;
    }
    Settlement refused = batch.getFirst();
    LOG.errorf(
        "settle refused %s outcome=%s sqlstate=%s",
        refused.job(), refused.outcome().word(), failure.getSQLState());
    if (refused.outcome() instanceof Outcome.Done) {
      String reason = "the database refused the result: SQLSTATE " + failure.getSQLState();
      flush(
          List.of(
              new Settlement(
                  refused.job(),
                  new Outcome.Dead(reason),
                  null,
                  refused.leaseEndNanos(),
                  refused.told())),
          number);
      return;
    }
    tell(refused, Settled.GIVEN_UP);
  }

  private List<Settlement> withoutThoseGivenUp(List<Settlement> batch) {
    var open = new ArrayList<Settlement>(batch.size());
    for (Settlement s : batch) {
      if (s.leaseIsOver() || (stopping && System.nanoTime() - giveUpNanos > 0)) {
        tell(s, Settled.GIVEN_UP);
      } else {
        open.add(s);
      }
    }
    return open;
  }

  private static long pause(long millis) {
    try {
      TimeUnit.MILLISECONDS.sleep(ThreadLocalRandom.current().nextLong(millis / 2, millis + 1));
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
    return Math.min(1_000, millis * 2);
  }

  private void tell(Settlement settlement, Settled how) {
    underWay.decrementAndGet();
    try {
      settlement.told().accept(how);
    } catch (RuntimeException bug) {
      LOG.errorf(bug, "after settling %s", settlement.job());
    }
  }
}
