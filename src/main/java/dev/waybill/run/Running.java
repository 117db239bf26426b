package dev.waybill.run;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.waybill.job.Claimed;
import dev.waybill.job.ErrorText;
import dev.waybill.job.Outcome;
import dev.waybill.settle.Settler;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/** One attempt under way in this process. */
final class Running implements JobContext {

  /** Why a handler was told to stop. */
  enum Stop {
    /** The time limit: the attempt failed. */
    TIMEOUT,
    /** Taken over or cancelled: nothing is left to settle. */
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
  private volatile boolean abandoned;
  private final AtomicReference<@Nullable String> progress = new AtomicReference<>();

  Running(Claimed job, Duration timeout, Duration grace, Settler settler) {
    this.job = job;
    this.settler = settler;
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

  /** From its own thread, before the handler. */
  void begin() {
    thread = Thread.currentThread();
    if (stop.get() != null) {
      Thread.currentThread().interrupt();
    }
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
   * For a handler that does not heed its interrupt: its attempt is settled without it. True for the
   * caller who is to do so; what the handler returns later is ignored.
   */
  synchronized boolean abandon() {
    if (handlerReturned || abandoned) {
      return false;
    }
    abandoned = true;
    return true;
  }

  boolean abandoned() {
    return abandoned;
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
