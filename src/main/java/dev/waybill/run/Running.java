package dev.waybill.run;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.waybill.job.Claimed;
import dev.waybill.job.ErrorText;
import dev.waybill.job.Outcome;
import dev.waybill.settle.Holder;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import dev.waybill.trace.Span;
import dev.waybill.trace.TraceContext;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * One attempt under way in this process. Its slot is free when its thread has ended and it was
 * heard how its outcome went, in whichever order.
 *
 * <p>Thousands wait at once for their settlement, and are copied at each collection meanwhile: it
 * is one object, without locks and atomics of its own.
 */
final class Running implements JobContext, Holder {

  private static final Logger LOG = Logger.getLogger(Running.class);

  /** Why a handler was told to stop. */
  enum Stop {
    /** The time limit: the attempt failed. */
    TIMEOUT,
    /**
     * Taken over or cancelled, or not extended in time. In the last case the row may be ours yet,
     * and the attempt counts as used, as it would if the reaper came first: or an attempt that
     * never keeps its lease would be given back for ever.
     */
    LEASE_LOST,
    /** The service goes down: the job goes back, with its attempt. */
    DRAIN
  }

  /** Where it runs. */
  interface Home {

    /** See {@link Holder#mayWait}. */
    boolean mayWait(Running attempt);

    /** Heard how its outcome went. */
    void settled(Running attempt, Outcome outcome, Settled how);

    /** Called once, when nothing of it is left here: the slot is free. */
    void left(Running attempt);
  }

  /** Its outcome was handed over, or it was said that there is none to come. */
  private static final int HANDED_OVER = 1;

  private static final int TOLD = 2;
  private static final int THREAD_ENDED = 4;

  private static final VarHandle MARKS = marksOf();

  /** Shared: natively each object that is locked gets a lock as large as itself. */
  private static final List<Object> LOCKS =
      IntStream.range(0, 64).mapToObj(_ -> new Object()).toList();

  private final Claimed job;
  private final Settler settler;
  private final long startNanos;
  private final long timeoutNanos;
  private final long graceNanos;

  /** Set under the lock. */
  private volatile @Nullable Stop stop;

  /** When the lease ends, by nanoTime; moved on by the heartbeat. */
  private volatile long leaseEndNanos;

  private volatile @Nullable Thread thread;
  private volatile boolean handlerReturned;

  // Written by MARKS only.
  @SuppressWarnings("UnusedVariable")
  private volatile int marks;

  /** The one that was handed over. */
  private @Nullable Outcome outcome;

  /** Set under the lock. */
  private volatile @Nullable String progress;

  private final Home home;

  /** Of this attempt; null while traces are off. */
  private final @Nullable Span span;

  Running(
      Claimed job,
      long startNanos,
      Duration timeout,
      Duration grace,
      Settler settler,
      @Nullable Span span,
      Home home) {
    this.job = job;
    this.startNanos = startNanos;
    this.span = span;
    this.settler = settler;
    this.home = home;
    this.timeoutNanos = timeout.toNanos();
    this.graceNanos = grace.toNanos();
    this.leaseEndNanos = job.leaseEndNanos();
  }

  Claimed job() {
    return job;
  }

  long startNanos() {
    return startNanos;
  }

  @Override
  public long leaseEndNanos() {
    return leaseEndNanos;
  }

  void leaseExtendedTo(long endNanos) {
    leaseEndNanos = endNanos;
  }

  boolean timedOut(long nowNanos) {
    return nowNanos - startNanos > timeoutNanos;
  }

  boolean overdue(long nowNanos) {
    return nowNanos - startNanos > timeoutNanos + graceNanos;
  }

  @Nullable Stop stopped() {
    return stop;
  }

  private static VarHandle marksOf() {
    try {
      return MethodHandles.lookup().findVarHandle(Running.class, "marks", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** Answers the marks there were. */
  private int mark(int mark) {
    return (int) MARKS.getAndBitwiseOr(this, mark);
  }

  private Object lock() {
    return LOCKS.get(Math.floorMod(job.id(), LOCKS.size()));
  }

  /**
   * From its own thread, before the handler. False: it was told to stop before it could begin, or
   * its lease is over, and perhaps somebody else has the job by now. The handler must not be called
   * then.
   */
  boolean begin() {
    thread = Thread.currentThread();
    if (leaseOver()) {
      boolean _ = stop(Stop.LEASE_LOST);
    }
    return stop == null;
  }

  /**
   * Its handler was not called, and is not any more: it has no thread, and the one that comes will
   * find that it shall stop. In this order, since {@link #end} is what takes the thread away.
   */
  boolean neverBegins() {
    return stop != null && thread == null && !handlerReturned;
  }

  /** By our own clock, which is never late. */
  boolean leaseOver() {
    return System.nanoTime() - leaseEndNanos >= 0;
  }

  /** From its own thread, after the handler: a late interrupt must not hit what comes then. */
  void end() {
    synchronized (lock()) {
      handlerReturned = true;
      thread = null;
    }
    boolean _ = Thread.interrupted();
  }

  /**
   * Tells the handler to stop, if it is still at work. A lost lease outweighs the other reasons.
   */
  boolean stop(Stop why) {
    synchronized (lock()) {
      if (handlerReturned || stop == why || stop == Stop.LEASE_LOST) {
        return false;
      }
      stop = why;
      @Nullable Thread working = thread;
      if (working != null) {
        working.interrupt();
      }
      return true;
    }
  }

  /**
   * Hands its outcome to the settler, which expects exactly one for each attempt: the first
   * caller's. What a handler returns that was left behind is ignored.
   */
  boolean settle(Outcome ended) {
    if ((mark(HANDED_OVER) & HANDED_OVER) != 0) {
      return false;
    }
    outcome = ended;
    if (ended instanceof Outcome.Settled) {
      settler.expectNoMore();
      told(Settled.SETTLED);
      return true;
    }
    try {
      settler.settle(job, ended, this);
    } catch (RuntimeException | Error bug) {
      LOG.errorf(bug, "outcome not taken, the lease runs out %s", job);
      settler.expectNoMore();
      told(Settled.GIVEN_UP);
    }
    return true;
  }

  /**
   * Instead of an outcome, for a handler that was never called: its lease is over, so the job is
   * the reaper's. Given back by us it would have no bound.
   */
  void leave() {
    if ((mark(HANDED_OVER) & HANDED_OVER) == 0) {
      outcome = new Outcome.Release();
      settler.expectNoMore();
      told(Settled.GIVEN_UP);
    }
  }

  @Override
  public boolean mayWait() {
    return home.mayWait(this);
  }

  @Override
  public void told(Settled how) {
    try {
      home.settled(this, Objects.requireNonNull(outcome), how);
    } finally {
      end(TOLD);
    }
  }

  boolean returned() {
    return handlerReturned;
  }

  /** Its outcome was settled without waiting for the handler. */
  boolean abandoned() {
    return (marks & HANDED_OVER) != 0 && !handlerReturned;
  }

  /** The last word of its thread, or of the one that could not start it. */
  void threadEnded() {
    end(THREAD_ENDED);
  }

  /** Whichever of the two comes second finds the other's mark, and not its own. */
  private void end(int mark) {
    if ((mark(mark) & (TOLD | THREAD_ENDED)) == ((TOLD | THREAD_ENDED) & ~mark)) {
      home.left(this);
    }
  }

  @Nullable String progress() {
    return progress;
  }

  /** Written, so it need not be again; unless the handler said something new meanwhile. */
  void progressWritten(@Nullable String written) {
    synchronized (lock()) {
      if (Objects.equals(progress, written)) {
        progress = null;
      }
    }
  }

  @Override
  public long id() {
    return job.id();
  }

  @Override
  public int attempt() {
    return job.attempt();
  }

  @Override
  public boolean lastAttempt() {
    return job.lastAttempt();
  }

  @Override
  public String tenant() {
    return job.tenant();
  }

  @Override
  public List<String> tags() {
    return job.tags();
  }

  @Override
  public @Nullable String traceparent() {
    if (span != null) {
      return span.context().traceparent();
    }
    return TraceContext.parse(job.traceparent()) == null ? null : job.traceparent();
  }

  @Nullable Span span() {
    return span;
  }

  @Override
  public Duration remaining() {
    return Duration.ofNanos(Math.max(0, startNanos + timeoutNanos - System.nanoTime()));
  }

  @Override
  public boolean cancelled() {
    return stop != null;
  }

  @Override
  public void progress(double fraction, String note) {
    double bounded = Math.clamp(fraction, 0.0, 1.0);
    String cut = ErrorText.clean(note.length() > 200 ? note.substring(0, 200) : note);
    String said =
        JsonNodeFactory.instance.objectNode().put("fraction", bounded).put("note", cut).toString();
    synchronized (lock()) {
      progress = said;
    }
  }

  @Override
  public Logger log() {
    return Logger.getLogger("waybill.job." + job.kind());
  }

  @Override
  public void settleIn(Connection connection, Outcome outcome)
      throws SQLException, LeaseLostException {
    if (!settler.settleIn(connection, job, outcome)) {
      synchronized (lock()) {
        stop = Stop.LEASE_LOST; // No interrupt: the handler is about to roll back on this thread.
      }
      throw new LeaseLostException("lease lost " + job);
    }
  }

  /** By its id: that of the object itself is dear the first time. Equal it is only to itself. */
  @Override
  public int hashCode() {
    return Long.hashCode(job.id());
  }

  @Override
  public boolean equals(@Nullable Object other) {
    return this == other;
  }
}
