package dev.waybill.run;

import dev.waybill.claim.Claimer;
import dev.waybill.db.SqlState;
import dev.waybill.job.Claimed;
import dev.waybill.job.ErrorText;
import dev.waybill.job.Outcome;
import dev.waybill.policy.Policies;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import dev.waybill.trace.Span;
import dev.waybill.trace.Tracer;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * One set of slots, and the loop that fills them. A slot is taken by a claim and free again when
 * the job is settled: there is no prefetch, so this process never holds more jobs of the pool than
 * it has slots.
 */
final class Pool implements Running.Home {

  private static final Logger LOG = Logger.getLogger(Pool.class);

  /**
   * While jobs are short, a claim waits this long for half of the slots: fewer statements a job.
   */
  private static final long GATHER_MICROS = 2_000;

  private static final long SHORT_JOB_NANOS = 20_000_000;
  private static final long IDLE_MILLIS_MIN = 5;

  /**
   * After a claim that took all there was. At 1,000 jobs a second each two ms more take 2 to 3 %
   * off the server's work for a job, and put one or two on a pickup's p99.
   */
  private static final long TOGETHER_MILLIS = 10;

  private static final long IDLE_MILLIS_MAX = 1_280;

  /**
   * Idle for so long, a pool asks to be woken; sooner it would cost producers a NOTIFY now and
   * again under load.
   */
  private static final long ARM_AFTER_MILLIS = 40;

  /** Longer than this nobody relies on having asked: a notification may have been lost. */
  private static final long ARMED_NANOS_MAX = TimeUnit.SECONDS.toNanos(10);

  private static final long ARM_AGAIN_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private static final int BATCH_MAX = 500;

  /** A process that cannot start a thread shall not claim the same job again at once. */
  private static final Duration NOT_STARTED = Duration.ofSeconds(1);

  private final PoolPlan plan;
  private final Claimer claimer;
  private final Lookout lookout;
  private final Duties duties;
  private final Policies policies;
  private final Settler settler;
  private final PoolEvents events;
  private final Tracer tracer;
  private final BooleanSupplier wakeups;
  private final Duration grace;
  private final Slots free;
  private final Set<Running> running;
  private final Pulse pulse = new Pulse();

  private volatile boolean stopping;
  private volatile boolean woken;
  private volatile boolean armed;

  /** The last claim did not take all that is known: it had not the slots, or a cap held it back. */
  private volatile boolean leftSome;

  /** The last claim left jobs alone because of a cap: when one of ours ends, there may be room. */
  private volatile boolean waitsForPlace;

  private long armedUntilNanos;

  /** A moving average over short time; handlers race to move it, and a lost step does no harm. */
  private final AtomicLong usualNanos = new AtomicLong(SHORT_JOB_NANOS);

  private @Nullable Thread loop;

  Pool(Wants wants, Claimer claimer, PoolParts parts, BooleanSupplier wakeups) {
    this.plan = wants.plan();
    this.running = wants.running();
    this.claimer = claimer;
    this.lookout = new Lookout(plan.name(), claimer, this::lookAgain);
    this.duties = parts.duties();
    this.policies = parts.policies();
    this.settler = parts.settler();
    this.events = parts.events();
    this.tracer = parts.tracer();
    this.grace = parts.settings().grace();
    this.free = new Slots(plan.slots());
    this.wakeups = wakeups;
  }

  void start() {
    loop = Thread.ofPlatform().daemon().name("pool-" + plan.name()).start(this::turn);
  }

  /** There may be something to claim: do not wait for the next poll. */
  void wake() {
    armed = false;
    lookout.told();
    lookAgain();
  }

  private void lookAgain() {
    woken = true;
    LockSupport.unpark(loop);
  }

  /** The first half of {@link #stopClaiming}, for all pools before any is waited for. */
  void claimNoMore() {
    stopping = true;
  }

  /** No more claims; answers when the loop has ended, with a claim that was under way. */
  void stopClaiming() throws InterruptedException {
    stopping = true;
    wake();
    @Nullable Thread ending = loop;
    if (ending != null) {
      ending.join();
    }
    lookout.end();
  }

  String name() {
    return plan.name();
  }

  /** Busy to the last slot: it cannot claim, and need not. */
  boolean isFull() {
    return slotsInUse() == plan.slots();
  }

  /** By attempts and not by what is free: a claim under way holds all free slots. */
  int slotsInUse() {
    return Math.min(plan.slots(), running.size());
  }

  PoolState state() {
    return new PoolState(plan.name(), claimer.kinds(), plan.slots(), slotsInUse());
  }

  Set<Running> running() {
    return running;
  }

  Pulse pulse() {
    return pulse;
  }

  private void turn() {
    long idleMillis = IDLE_MILLIS_MIN;
    while (!stopping) {
      pulse.turned();
      try {
        idleMillis = round(idleMillis);
      } catch (RuntimeException | Error bug) {
        LOG.errorf(bug, "loop failed, going on pool=%s", plan.name());
        park(1_000);
      }
    }
  }

  /** Answers how long to wait the next time that there is nothing. */
  private long round(long idleMillis) {
    int slots = freeSlots();
    if (slots == 0) {
      return idleMillis;
    }
    List<Claimed> batch = claim(slots);
    free.giveBack(slots - batch.size());
    boolean held = claimer.heldMillis() > 0;
    waitsForPlace = claimer.waitsForPlace();
    leftSome = claimer.knowsMore();
    if (!batch.isEmpty()) {
      start(batch);
      if (!leftSome) {
        // All there was. What comes meanwhile comes in one claim.
        idle(TOGETHER_MILLIS);
      }
      return IDLE_MILLIS_MIN;
    }
    // That lane had nothing to claim after all; each round takes one off the list.
    if ((leftSome && !held) || (idleMillis > ARM_AFTER_MILLIS && arm())) {
      return idleMillis;
    }
    long pause = held ? Math.min(idleMillis, claimer.heldMillis()) : idleMillis;
    if (lookout.putOff()) {
      // The sweep is not put off by a long sleep.
      pause = Math.clamp(lookout.dueMillis(), 1, pause);
    }
    idle(pause);
    if (lookout.putOff() && !held) {
      return idleMillis;
    }
    return woken ? IDLE_MILLIS_MIN : Math.min(idleMillisMax(), idleMillis * 2);
  }

  /**
   * Takes the slots that are free, waiting for at least one; a little longer while jobs are short.
   */
  private int freeSlots() {
    try {
      if (!free.await(1, 500, TimeUnit.MILLISECONDS)) {
        return 0;
      }
      if (usualNanos.get() < SHORT_JOB_NANOS) {
        int half = Math.min(BATCH_MAX, plan.slots()) / 2;
        boolean _ = free.await(half, GATHER_MICROS, TimeUnit.MICROSECONDS);
      }
      return free.take(BATCH_MAX);
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
      return 0;
    }
  }

  /** Errors are waited out here, with jitter, so that a returning database is not stampeded. */
  private List<Claimed> claim(int slots) {
    try {
      woken = false;
      long now = System.nanoTime();
      List<Claimed> batch = lookout.look(slots, now);
      pulse.claimed();
      tellClaimed(batch, System.nanoTime() - now);
      return batch;
    } catch (SQLException failure) {
      if (pulse.failed()) {
        LOG.errorf(
            "claim failed, trying again pool=%s sqlstate=%s error=%s",
            plan.name(), failure.getSQLState(), SqlState.of(failure));
      }
      park(ThreadLocalRandom.current().nextLong(100, 1_000));
      return List.of();
    } catch (RuntimeException | Error bug) {
      // Thrown on, an Error would end the loop, with the slots that it holds.
      pulse.failed();
      LOG.errorf(bug, "claim failed pool=%s", plan.name());
      park(1_000);
      return List.of();
    }
  }

  /** Whatever goes wrong there: the batch is claimed, and must be run. */
  private void tellClaimed(List<Claimed> batch, long nanos) {
    try {
      events.claimed(plan.name(), batch, nanos);
    } catch (RuntimeException | Error bug) {
      LOG.errorf(bug, "after a claim pool=%s", plan.name());
    }
  }

  /** True when it armed just now: then what came in between must be looked for before sleeping. */
  private boolean arm() {
    long now = System.nanoTime();
    if (!wakeups.getAsBoolean() || (armed && now - armedUntilNanos < 0)) {
      return false;
    }
    try {
      armed = true; // Before the statement: a wake-up that comes meanwhile must not be overwritten.
      boolean all = claimer.arm();
      armedUntilNanos = System.nanoTime() + (all ? ARMED_NANOS_MAX : ARM_AGAIN_NANOS);
      lookout.armed();
      return true;
    } catch (SQLException | RuntimeException failure) {
      armed = false;
      LOG.debugf(failure, "not armed, polling pool=%s", plan.name());
      return false;
    }
  }

  /** Without wake-ups, polling alone has to be quick enough. */
  private long idleMillisMax() {
    return wakeups.getAsBoolean() ? IDLE_MILLIS_MAX : IDLE_MILLIS_MAX / 2;
  }

  private void idle(long millis) {
    if (!woken && !stopping) {
      park(millis);
    }
  }

  private static void park(long millis) {
    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(millis));
  }

  private void start(List<Claimed> batch) {
    var attempts = new ArrayList<Running>(batch.size());
    settler.expect(batch.size());
    try {
      long now = System.nanoTime();
      for (Claimed job : batch) {
        attempts.add(attempt(job, now));
      }
      running.addAll(attempts);
    } catch (RuntimeException | Error bug) {
      // Their leases run out; the slots must not be lost with them.
      attempts.forEach(running::remove);
      batch.forEach(_ -> settler.expectNoMore());
      free.giveBack(batch.size());
      throw bug;
    }
    try {
      new Crew<>("jobs-" + plan.name(), attempts, this::work).start();
    } catch (RuntimeException | Error refused) {
      attempts.forEach(attempt -> giveBack(attempt, refused));
    }
  }

  private Running attempt(Claimed job, long startNanos) {
    @Nullable Span span = tracer.on() ? tracer.process(job.kind(), job.traceparent()) : null;
    return new Running(
        job, startNanos, policies.of(job.kind()).timeout(), grace, settler, span, this);
  }

  private void giveBack(Running attempt, Throwable refused) {
    LOG.errorf(refused, "not started, given back %s", attempt.job());
    boolean _ = attempt.settle(Outcome.snooze(NOT_STARTED));
    attempt.threadEnded();
  }

  /** Nobody claims more for its slot, or for its place under a cap. */
  @Override
  public boolean mayWait(Running attempt) {
    return slotsInUse() <= plan.slots() / 2
        && !leftSome
        && !stopping
        && !policies.of(attempt.job().kind()).caps().any();
  }

  @Override
  public void left(Running attempt) {
    running.remove(attempt);
    free.giveBack(1);
    if (waitsForPlace) {
      lookAgain();
    }
  }

  private void work(Running attempt) {
    try {
      if (!attempt.begin()) {
        attempt.end();
        leaveUnbegun(attempt);
        return;
      }
      Outcome outcome = outcomeOf(attempt);
      long took = System.nanoTime() - attempt.startNanos();
      usualNanos.setPlain(usualNanos.getPlain() + (took - usualNanos.getPlain()) / 16);
      boolean _ = attempt.settle(outcome);
      tellRan(attempt, outcome, took);
    } catch (RuntimeException | Error bug) {
      LOG.errorf(bug, "after the handler %s", attempt.job());
      boolean _ = attempt.settle(Outcome.retry("the attempt could not be ended"));
    } finally {
      attempt.threadEnded();
    }
  }

  private void tellRan(Running attempt, Outcome outcome, long took) {
    Claimed job = attempt.job();
    @Nullable Span span = attempt.span();
    if (span == null) {
      events.ran(job, outcome, took);
      return;
    }
    Tracer.counting(span, () -> events.ran(job, outcome, took));
    span.with("messaging.message.id", String.valueOf(job.id()))
        .with("waybill.tenant", job.tenant())
        .with("waybill.attempt", job.attempt())
        .with("waybill.pickup_us", job.pickupMicros())
        .with("waybill.outcome", outcome.word())
        .failed(outcome instanceof Outcome.Retry || outcome instanceof Outcome.Dead)
        .end();
  }

  /** Counts each lost lease once, and cancellation not as one. */
  @Override
  public void settled(Running attempt, Outcome outcome, Settled how) {
    Claimed job = attempt.job();
    switch (how) {
      case SETTLED -> {
        if (attempt.stopped() == Running.Stop.LEASE_LOST) {
          events.leaseLost(job);
        }
      }
      case LOST -> {
        LOG.warnf("lease lost %s", job);
        events.leaseLost(job);
      }
      case GIVEN_UP -> events.leaseLost(job);
      case CANCELLED -> LOG.infof("cancelled while it ran %s", job);
    }
    events.settled(job, outcome, how);
  }

  private Outcome outcomeOf(Running attempt) {
    Claimed job = attempt.job();
    if (job.exhausted()) {
      attempt.end();
      return Outcome.dead("no attempt left: the limit is " + job.maxAttempts());
    }
    Outcome outcome;
    try {
      outcome = duties.run(job, attempt);
    } catch (Throwable failure) {
      // An Error of a handler is the handler's failure, like any other: the service goes on.
      outcome = Outcome.retry(ErrorText.of(failure));
    } finally {
      attempt.end();
    }
    return afterStop(attempt.stopped(), outcome);
  }

  /**
   * A handler that was told to stop and did finish has finished. One that failed because of it
   * failed for that reason.
   */
  private static Outcome afterStop(Running.@Nullable Stop why, Outcome outcome) {
    if (why == null || !(outcome instanceof Outcome.Retry)) {
      return outcome;
    }
    return switch (why) {
      case TIMEOUT -> Outcome.retry("timeout");
      case LEASE_LOST -> Outcome.retry("the lease could not be kept");
      case DRAIN -> new Outcome.Release();
    };
  }

  /**
   * No thread came for it in time, or its claim was answered late: its handler was never called, so
   * it uses no attempt as long as it holds its lease. Its slot stays taken until its thread came.
   * But for a drain it is not given back at once: whoever has threads shall have it, and not the
   * next free slot here.
   */
  void leaveUnbegun(Running attempt) {
    if (attempt.leaseOver()) {
      attempt.leave();
      return;
    }
    boolean draining = attempt.stopped() == Running.Stop.DRAIN;
    if (attempt.settle(draining ? new Outcome.Release() : Outcome.snooze(NOT_STARTED))) {
      LOG.warnf("not begun, given back %s", attempt.job());
    }
  }

  /**
   * Settles without waiting for the handler. Its slot stays taken until it ends: the thread is
   * still at work.
   */
  void abandon(Running attempt, Outcome outcome) {
    if (!attempt.returned() && attempt.settle(outcome)) {
      LOG.errorf("handler does not stop, going on without it %s", attempt.job());
    }
  }
}
