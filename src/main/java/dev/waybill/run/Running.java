package dev.waybill.run;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.waybill.job.Claimed;
import dev.waybill.job.ErrorText;
import dev.waybill.job.Outcome;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import dev.waybill.trace.Span;
import dev.waybill.trace.TraceContext;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * One attempt under way in this process. Its slot is free when its thread has ended and it was
 * heard how its outcome went, in whichever order.
 */
final class Running implements JobContext {

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

  private final Claimed job;
  private final Settler settler;
  private final long startNanos = System.nanoTime();
  private final long timeoutNanos;
  private final long graceNanos;
  private final AtomicReference<@Nullable Stop> stop = new AtomicReference<>();

  /** When the lease ends, by nanoTime; moved on by the heartbeat. */
  private volatile long leaseEndNanos;

  private volatile @Nullable Thread thread;
  private volatile boolean handlerReturned;

  /** Whether its outcome was handed over, or it was said that there is none to come. */
  private final AtomicBoolean handedOver = new AtomicBoolean();

  private final AtomicBoolean threadEnded = new AtomicBoolean();
  private final AtomicBoolean told = new AtomicBoolean();
  private final AtomicBoolean left = new AtomicBoolean();
  private final AtomicReference<@Nullable String> progress = new AtomicReference<>();

  private final Consumer<Running> over;

  /** Of this attempt; null while traces are off. */
  private final @Nullable Span span;

  /**
   * @param over called once, when nothing of it is left here: the slot is free
   */
  Running(
      Claimed job,
      Duration timeout,
      Duration grace,
      Settler settler,
      @Nullable Span span,
      Consumer<Running> over) {
    this.job = job;
    this.span = span;
    this.settler = settler;
    this.over = over;
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

  long leaseEndNanos() {
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
    return stop.get();
  }

  /**
   * From its own thread, before the handler. False: it was told to stop before it could begin, and
   * perhaps somebody else has the job by now.
   */
  boolean begin() {
    thread = Thread.currentThread();
    return stop.get() == null;
  }

  /** From its own thread, after the handler: a late interrupt must not hit what comes then. */
  synchronized void end() {
    handlerReturned = true;
    boolean _ = Thread.interrupted();
  }

  /**
   * Tells the handler to stop, if it is still at work. A lost lease outweighs the other reasons.
   */
  synchronized boolean stop(Stop why) {
    if (handlerReturned || stop.get() == why || stop.get() == Stop.LEASE_LOST) {
      return false;
    }
    stop.set(why);
    @Nullable Thread working = thread;
    if (working != null) {
      working.interrupt();
    }
    return true;
  }

  /**
   * Hands its outcome to the settler, which expects exactly one for each attempt: the first
   * caller's. What a handler returns that was left behind is ignored.
   */
  boolean settle(Outcome outcome, Consumer<Settled> how) {
    if (!handedOver.compareAndSet(false, true)) {
      return false;
    }
    Consumer<Settled> last =
        settled -> {
          try {
            how.accept(settled);
          } finally {
            told.set(true);
            leaveIfOver();
          }
        };
    if (outcome instanceof Outcome.Settled) {
      settler.expectNoMore();
      last.accept(Settled.SETTLED);
      return true;
    }
    try {
      settler.settle(job, outcome, this::leaseEndNanos, last);
    } catch (RuntimeException | Error bug) {
      LOG.errorf(bug, "outcome not taken, the lease runs out %s", job);
      settler.expectNoMore();
      last.accept(Settled.GIVEN_UP);
    }
    return true;
  }

  boolean returned() {
    return handlerReturned;
  }

  /** Its outcome was settled without waiting for the handler. */
  boolean abandoned() {
    return handedOver.get() && !handlerReturned;
  }

  /** The last word of its thread, or of the one that could not start it. */
  void threadEnded() {
    threadEnded.set(true);
    leaveIfOver();
  }

  /** Whichever of the two comes second. */
  private void leaveIfOver() {
    if (threadEnded.get() && told.get() && left.compareAndSet(false, true)) {
      over.accept(this);
    }
  }

  @Nullable String progress() {
    return progress.get();
  }

  /** Written, so it need not be again; unless the handler said something new meanwhile. */
  void progressWritten(@Nullable String written) {
    boolean _ = progress.compareAndSet(written, null);
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
    return stop.get() != null;
  }

  @Override
  public void progress(double fraction, String note) {
    double bounded = Math.clamp(fraction, 0.0, 1.0);
    String cut = ErrorText.clean(note.length() > 200 ? note.substring(0, 200) : note);
    progress.set(
        JsonNodeFactory.instance.objectNode().put("fraction", bounded).put("note", cut).toString());
  }

  @Override
  public Logger log() {
    return Logger.getLogger("waybill.job." + job.kind());
  }

  @Override
  public void settleIn(Connection connection, Outcome outcome)
      throws SQLException, LeaseLostException {
    if (!settler.settleIn(connection, job, outcome)) {
      stop.set(Stop.LEASE_LOST); // No interrupt: the handler is about to roll back on this thread.
      throw new LeaseLostException("lease lost " + job);
    }
  }
}
