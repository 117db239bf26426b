package dev.waybill.settle;

import dev.waybill.claim.Claims;
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
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.IntStream;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Collects outcomes and writes them in batches. A batch is whatever came in while the one before
 * was written, so it grows with the load by itself. One that is not full waits for company: after
 * one of {@value #COMPANY} or more until {@value #APART_MILLIS} ms have passed since that, or one
 * comes that says that somebody waits for what it frees; and then {@value #LINGER_MILLIS} ms at
 * most and {@value #GAP_MILLIS} for each that comes, as long as any attempt of this process is in
 * no batch yet. What cannot be written is tried again apart, see {@link Trouble}: it keeps nobody
 * else waiting.
 */
@Singleton
public final class Settler {

  private static final Logger LOG = Logger.getLogger(Settler.class);
  private static final int BATCH_MAX = 500;
  private static final int APART_MILLIS = 30;

  /** With fewer at a time a statement for each costs little, and who waits for one has it soon. */
  private static final int COMPANY = 4;

  private static final int LINGER_MILLIS = 3;
  private static final int GAP_MILLIS = 1;
  private static final int IDLE_MILLIS = 100;
  private static final int FLUSHERS = 2;
  private static final long STOP_NANOS_MAX = TimeUnit.SECONDS.toNanos(5);

  private final Statements statements;
  private final ResultWriter results;
  private final LinkedBlockingQueue<Settlement> queue = new LinkedBlockingQueue<>();

  /** Attempts that were claimed and not yet settled, in this process. */
  private final AtomicInteger underWay = new AtomicInteger();

  /** Those of them that are in no batch yet. */
  private final AtomicInteger awaited = new AtomicInteger();

  /**
   * One batch at a time: two that wait for company would share what comes. Fair, since an idle
   * thread asks for it again at once, and the other would not turn.
   */
  private final ReentrantLock collecting = new ReentrantLock(true);

  /** A batch that may wait is not closed before. By the one who collects. */
  private long nextNanos = System.nanoTime();

  /**
   * Platform threads: handlers that compute without a pause may hold every carrier of the virtual
   * ones.
   */
  private final List<Thread> threads = new ArrayList<>();

  /** When each of them last did anything, failed tries included. */
  private final AtomicLongArray turnedNanos = new AtomicLongArray(FLUSHERS + 1);

  private final Writer writer;
  private final Trouble trouble;

  private volatile boolean stopping;
  private volatile long giveUpNanos;

  public Settler(Database database, Policies policies, ResultWriter results) {
    this.statements = new Statements(policies);
    this.results = results;
    this.writer = new Writer(database, statements, this::tell);
    this.trouble = new Trouble(writer, this::tell, BATCH_MAX);
  }

  public void start() {
    for (int i = 0; i < FLUSHERS; i++) {
      int number = i;
      start("settler-" + i, number, () -> flush(number));
    }
    start("settler-again", FLUSHERS, () -> trouble.turn(IDLE_MILLIS));
  }

  private interface Turn {
    void take() throws InterruptedException;
  }

  private void start(String name, int number, Turn turn) {
    turnedNanos.set(number, System.nanoTime());
    threads.add(Thread.ofPlatform().daemon().name(name).start(() -> turnForEver(number, turn)));
  }

  /**
   * After the pools have stopped. What is still queued is written first; what cannot be written is
   * given up.
   */
  public void stop() throws InterruptedException {
    giveUpNanos = System.nanoTime() + STOP_NANOS_MAX;
    stopping = true;
    for (Thread thread : threads) {
      thread.join();
    }
    threads.clear();
    trouble.giveUp();
  }

  /** Never interrupted: an interrupt would close the connection in the middle of a COMMIT. */
  private void turnForEver(int number, Turn turn) {
    while (!stopping || (underWay.get() > 0 && System.nanoTime() - giveUpNanos < 0)) {
      turnedNanos.set(number, System.nanoTime());
      try {
        turn.take();
      } catch (InterruptedException _) {
        Thread.currentThread().interrupt();
        return;
      } catch (RuntimeException | Error bug) {
        LOG.error("settler failed", bug);
      }
    }
  }

  /** A claim brought so many attempts, each of which will be settled. */
  public void expect(int attempts) {
    underWay.addAndGet(attempts);
    awaited.addAndGet(attempts);
  }

  /** Somebody else settled this one: the handler in its own transaction, or nobody will. */
  public void expectNoMore() {
    underWay.decrementAndGet();
    awaited.decrementAndGet();
  }

  /** Hands an outcome over; the holder hears how it went. */
  public void settle(Claimed job, Outcome outcome, Holder holder) {
    queue.add(prepare(job, outcome, holder));
  }

  /**
   * Settles on the caller's connection, so that it commits or rolls back with the caller's work;
   * false when the lease is lost.
   */
  public boolean settleIn(Connection connection, Claimed job, Outcome outcome) throws SQLException {
    try {
      List<Settlement> one = List.of(prepare(job, outcome, new Caller(job)));
      return !statements.write(connection, statements.ways(one)).isEmpty();
    } catch (SQLException failure) {
      if (SqlState.of(failure) == SqlState.NO_PARTITION) {
        writer.makePartitions(
            failure); // The caller's transaction is lost; its next try will find it.
      }
      throw failure;
    }
  }

  /** How an attempt ended. */
  public record Ended(Claimed job, Outcome outcome) {}

  /**
   * Like {@link #settleIn(Connection, Claimed, Outcome)} for several at once; answers those whose
   * lease was theirs.
   */
  public List<Ended> settleIn(Connection connection, List<Ended> ended) throws SQLException {
    try {
      List<Settlement> batch =
          ended.stream().map(e -> prepare(e.job(), e.outcome(), new Caller(e.job()))).toList();
      Set<Settlement> settled = statements.write(connection, statements.ways(batch));
      int _ =
          Claims.forget(connection, ended.stream().map(e -> e.job().token()).distinct().toList());
      return IntStream.range(0, batch.size())
          .filter(i -> settled.contains(batch.get(i)))
          .mapToObj(ended::get)
          .toList();
    } catch (SQLException failure) {
      if (SqlState.of(failure) == SqlState.NO_PARTITION) {
        writer.makePartitions(failure);
      }
      throw failure;
    }
  }

  /** Hears by the answer. */
  private record Caller(Claimed job) implements Holder {

    @Override
    public long leaseEndNanos() {
      return job.leaseEndNanos();
    }

    @Override
    public void told(Settled how) {
      // It asked for an answer.
    }
  }

  private Settlement prepare(Claimed job, Outcome outcome, Holder holder) {
    return switch (outcome) {
      case Outcome.Done(var result) -> done(job, result, holder);
      case Outcome.Retry(_, var reason) when job.lastAttempt() ->
          new Settlement(job, new Outcome.Dead(ErrorText.clean(reason)), null, holder);
      case Outcome.Retry(var delay, var reason) ->
          new Settlement(job, new Outcome.Retry(delay, ErrorText.clean(reason)), null, holder);
      case Outcome.Dead(var reason) ->
          new Settlement(job, new Outcome.Dead(ErrorText.clean(reason)), null, holder);
      case Outcome.Snooze _, Outcome.Release _ -> new Settlement(job, outcome, null, holder);
      case Outcome.Settled _ -> throw new IllegalArgumentException("is settled already: " + job);
    };
  }

  private Settlement done(Claimed job, @Nullable Object result, Holder holder) {
    try {
      return new Settlement(job, new Outcome.Done(null), results.json(result), holder);
    } catch (ResultWriter.NotStorable refused) {
      String reason = "the result cannot be stored: " + refused.getMessage();
      return new Settlement(job, new Outcome.Dead(ErrorText.clean(reason)), null, holder);
    }
  }

  /** Every thread still turns. */
  public boolean turnsWithin(Duration limit) {
    for (int i = 0; i < threads.size(); i++) {
      if (System.nanoTime() - turnedNanos.get(i) > limit.toNanos()) {
        return false;
      }
    }
    return true;
  }

  private void flush(int number) throws InterruptedException {
    var batch = new ArrayList<Settlement>(BATCH_MAX); // Large enough: to grow may fail.
    try {
      collect(batch);
      turnedNanos.set(number, System.nanoTime());
      if (!batch.isEmpty()) {
        writer.write(batch);
      }
    } catch (SQLException | RuntimeException | Error failure) {
      trouble.take(batch, failure);
    }
  }

  private void collect(List<Settlement> batch) throws InterruptedException {
    collecting.lockInterruptibly();
    try {
      if (take(batch, TimeUnit.MILLISECONDS.toNanos(IDLE_MILLIS))) {
        waitForNext(batch);
        long gapNanos = TimeUnit.MILLISECONDS.toNanos(GAP_MILLIS);
        long untilNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LINGER_MILLIS);
        boolean more = true;
        while (more && batch.size() < BATCH_MAX && awaited.get() > 0) {
          more = take(batch, Math.min(gapNanos, untilNanos - System.nanoTime()));
        }
        int millis = batch.size() < COMPANY ? 0 : APART_MILLIS;
        nextNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
      }
    } finally {
      collecting.unlock();
    }
  }

  /** Each is asked once, when it comes: what changes meanwhile is late by less than the wait. */
  private void waitForNext(List<Settlement> batch) throws InterruptedException {
    int asked = 0;
    long leftNanos = nextNanos - System.nanoTime();
    while (leftNanos > 0 && batch.size() < BATCH_MAX && !stopping) {
      for (; asked < batch.size(); asked++) {
        if (!batch.get(asked).holder().mayWait()) {
          return;
        }
      }
      boolean _ = take(batch, leftNanos);
      leftNanos = nextNanos - System.nanoTime();
    }
  }

  /**
   * Adds what is there; when that is nothing, what comes within the time. False when nothing did.
   */
  private boolean take(List<Settlement> batch, long nanos) throws InterruptedException {
    @Nullable Settlement first = queue.poll(nanos, TimeUnit.NANOSECONDS);
    if (first == null) {
      return false;
    }
    batch.add(first);
    awaited.addAndGet(-1 - queue.drainTo(batch, BATCH_MAX - batch.size()));
    return true;
  }

  private void tell(Settlement settlement, Settled how) {
    underWay.decrementAndGet();
    try {
      settlement.holder().told(how);
    } catch (RuntimeException | Error bug) {
      LOG.errorf(bug, "after settling %s", settlement.job());
    }
  }
}
