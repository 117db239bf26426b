package dev.waybill.run;

import dev.waybill.claim.Claimer;
import dev.waybill.claim.Found;
import dev.waybill.job.Claimed;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Decides for one pool when to sweep, and what to claim from meanwhile. Where a held snapshot keeps
 * dead entries at the head of each lane a sweep has to walk them all: then it is made seldom and
 * beside the claims, which go on where the last one ended.
 *
 * <p>Used by the pool's loop, but for {@link #told}.
 */
final class Lookout {

  /**
   * A sweep at least this often, however busy: new tenants, late commits and retries are found by
   * it. Sweeps take a tenth of the time at most, but late commits are found within two seconds.
   */
  private static final long EVERY_NANOS_BUSY = 100_000_000;

  private static final long SHARE_BUSY = 10;

  /** Where nothing is known, a fortieth of the time at most: what comes meanwhile waits for it. */
  private static final long SHARE = 40;

  private static final long EVERY_NANOS_MAX = 1_500_000_000;

  private static final long NEWS_NANOS = 20_000_000;

  /**
   * A sweep that takes longer is made beside the claims. Below it a second thread and a result that
   * is a moment old are not worth it.
   */
  private static final long DEAR_NANOS = 4_000_000;

  /** How a sweep beside the claims ended: one of the two is there. */
  private record Ended(@Nullable Found found, @Nullable Throwable failure, long tookNanos) {}

  private final String pool;
  private final Claimer claimer;
  private final Runnable lookAgain;
  private final AtomicReference<@Nullable Ended> ended = new AtomicReference<>();

  /** Somebody said that there is work: look for it, whatever is known. */
  private volatile boolean news;

  private @Nullable Thread beside;
  private long tookNanos;
  private long tookBeforeNanos;
  private long sweptNanos = System.nanoTime() - EVERY_NANOS_BUSY;

  /**
   * The next look is a sweep, however dear: it was armed, and what came in between must be seen.
   */
  private boolean sweepFirst;

  /** After the last look, if it found nothing, a sweep is still to come. */
  private boolean putOff;

  /** Since the last sweep a claim was made from lanes that were only remembered. */
  private boolean guessed;

  /**
   * @param lookAgain called by another thread when there is something to look at
   */
  Lookout(String pool, Claimer claimer, Runnable lookAgain) {
    this.pool = pool;
    this.claimer = claimer;
    this.lookAgain = lookAgain;
  }

  /** Somebody said that there is work. */
  void told() {
    news = true;
  }

  void armed() {
    sweepFirst = true;
  }

  /** Whether the last look found nothing, and a sweep is still to come. */
  boolean putOff() {
    return putOff;
  }

  /** Until the next sweep. One that is under way says itself when it has ended. */
  long dueMillis() {
    if (beside != null) {
      return Long.MAX_VALUE;
    }
    long dueNanos = sweptNanos + every(false) - System.nanoTime();
    return TimeUnit.NANOSECONDS.toMillis(dueNanos) + 1;
  }

  /** No look is made any more; waits for what is under way. */
  void end() throws InterruptedException {
    @Nullable Thread ending = beside;
    if (ending != null) {
      ending.join();
    }
  }

  /** Claims from the lanes that are known, after a sweep when that is due. */
  List<Claimed> look(int slots, long now) throws SQLException {
    boolean swept = takeOver();
    putOff = false;
    boolean dear = tookNanos > DEAR_NANOS;
    boolean due = sweepFirst || now - sweptNanos > every(claimer.knowsMore());
    if (due && dear) {
      sweepBeside(now);
      due = false;
    }
    boolean knowsMore = claimer.knowsMore();
    long since = now - sweptNanos;
    boolean told = news;
    boolean asked = told && since > Math.max(NEWS_NANOS, SHARE_BUSY * tookNanos);
    // When something came, once between two sweeps though one is due: it is the quicker answer.
    boolean guess =
        !knowsMore && (due ? told && !guessed : claimer.remembersAll()) && claimer.recall();
    if (guess) {
      List<Claimed> batch = guess(slots, told);
      if (!batch.isEmpty() || !(due || asked)) {
        putOff = !swept || news;
        return batch;
      }
    }
    // What is new may be of a kind that is not held up; but each promotion is news.
    boolean askedWhileHeld = asked && claimer.heldMillis() > 0;
    if (due || guess || !knowsMore || askedWhileHeld) {
      if (!dear) {
        sweep();
      } else if (!swept) {
        sweepBeside(now);
      }
    }
    // What was told of while it was swept may have come too late for that.
    putOff = dear && (!swept || news);
    return claimer.claim(slots);
  }

  /** From the lanes that were emptied last. */
  private List<Claimed> guess(int slots, boolean told) throws SQLException {
    guessed = true;
    news = false;
    List<Claimed> batch = claimer.claim(slots);
    if (told && batch.isEmpty()) {
      news = true;
    }
    return batch;
  }

  private long every(boolean knowsMore) {
    return Math.min(
        EVERY_NANOS_MAX,
        knowsMore ? Math.max(EVERY_NANOS_BUSY, SHARE_BUSY * tookNanos) : SHARE * tookNanos);
  }

  private void sweep() throws SQLException {
    news = false; // Before it: what is said meanwhile must not be overwritten.
    long beganNanos = System.nanoTime();
    try {
      claimer.sweep();
    } catch (SQLException failure) {
      news = true;
      throw failure;
    }
    sweepFirst = false;
    guessed = false;
    sweptNanos = beganNanos;
    took(System.nanoTime() - beganNanos);
  }

  /** One that waited for something else says nothing about what the next will cost. */
  private void took(long nanos) {
    tookNanos = Math.min(nanos, tookBeforeNanos);
    tookBeforeNanos = nanos;
  }

  /** One at a time; what it finds is taken over by the next look after its end. */
  private void sweepBeside(long now) {
    if (beside != null) {
      return;
    }
    news = false;
    sweepFirst = false;
    guessed = false;
    sweptNanos = now;
    claimer.sweepBegins();
    // Not a virtual thread: handlers that compute would keep it from beginning.
    beside = Thread.ofPlatform().daemon().name("sweep-" + pool).start(this::find);
  }

  private void find() {
    long beganNanos = System.nanoTime();
    @Nullable Found found = null;
    @Nullable Throwable failure = null;
    try {
      found = claimer.find();
    } catch (SQLException | RuntimeException | Error e) {
      failure = e;
    }
    ended.set(new Ended(found, failure, System.nanoTime() - beganNanos));
    lookAgain.run();
  }

  /** Whether a sweep beside the claims has ended since the last look. */
  private boolean takeOver() throws SQLException {
    @Nullable Ended last = ended.getAndSet(null);
    if (last == null) {
      return false;
    }
    beside = null;
    @Nullable Found found = last.found();
    if (found != null) {
      claimer.add(found);
      took(last.tookNanos());
      return true;
    }
    news = true;
    claimer.forget();
    if (last.failure() instanceof SQLException failure) {
      throw failure;
    }
    throw new IllegalStateException("sweep failed", last.failure());
  }
}
