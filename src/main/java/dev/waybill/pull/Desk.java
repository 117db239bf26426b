package dev.waybill.pull;

import dev.waybill.claim.Claimer;
import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import dev.waybill.job.Claimed;
import dev.waybill.job.Delivery;
import dev.waybill.policy.Policies;
import dev.waybill.pull.Handing.Line;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Where polls wait. One thread looks for all of them: it asks once which of the wanted kinds have
 * something ready, claims for everybody who waits for such a kind, and deals what it got in turns,
 * the longest waiting first.
 */
@Singleton
public final class Desk {

  private static final Logger LOG = Logger.getLogger(Desk.class);

  static final String POOL = "pull";
  private static final int BATCH_MAX = 500;
  private static final long IDLE_MILLIS_MIN = 5;
  private static final long IDLE_MILLIS_MAX = 1_000;
  private static final long ARM_AFTER_MILLIS = 40;
  private static final long ARMED_NANOS_MAX = TimeUnit.SECONDS.toNanos(10);
  private static final long ARM_AGAIN_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
  private static final long SWEEP_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  /** An empty lane costs a claim; so many in one round, or others would wait for them. */
  private static final int EMPTY_CLAIMS_MAX = 8;

  /** So many kinds at once, or the look for them would take too long; the others wait. */
  private static final int LINES_MAX = 10_000;

  /** Of claimers for kinds that nobody waits for at the moment. */
  private static final int CLAIMERS_MAX = 1_000;

  /** A payload's version is the worker's matter here. */
  private static final int ANY_VERSION = Short.MAX_VALUE;

  private final Database database;
  private final Policies policies;
  private final Handing handing;
  private final PullEvents events;
  private final int pollsMax;
  private final ConcurrentLinkedQueue<Poll> arrived = new ConcurrentLinkedQueue<>();
  private final AtomicInteger polls = new AtomicInteger();

  private volatile Predicate<String> handledHere = _ -> false;
  private volatile BooleanSupplier wakeups = () -> false;
  private volatile boolean started;
  private volatile boolean stopping;
  private volatile boolean woken;
  private volatile long turnedNanos = System.nanoTime();
  private @Nullable Thread loop;

  // Of the loop's thread only.
  private final List<Poll> waiting = new ArrayList<>();
  // For those bound to a tenant apart from the others.
  private final Map<Line, Claiming> claimers = new HashMap<>();
  private volatile Set<String> armed = Set.of();
  private long armedUntilNanos;
  private boolean failing;
  private volatile int rounds;

  @Inject
  Desk(
      Database database,
      Policies policies,
      Handing handing,
      PullEvents events,
      PullSettings settings) {
    this.database = database;
    this.policies = policies;
    this.handing = handing;
    this.events = events;
    this.pollsMax = settings.pollsMax();
  }

  /** The kinds of this that a handler of this process works, unless their policy says otherwise. */
  public void start(Predicate<String> handled) {
    handledHere = handled;
    started = true;
    loop = Thread.ofPlatform().daemon().name("pull").start(this::turn);
  }

  /** Everybody who waits is answered at once, with nothing; nobody is let in any more. */
  public void stop() throws InterruptedException {
    stopping = true;
    wake();
    @Nullable Thread ending = loop;
    if (ending != null) {
      ending.join();
    }
    answerAll();
  }

  /** There may be something to claim. */
  public void wake() {
    armed = Set.of();
    woken = true;
    LockSupport.unpark(loop);
  }

  /** As for pools: somebody calls {@link #wake} when work comes, as long as this is true. */
  public void wokenWhile(BooleanSupplier connected) {
    wakeups = connected;
  }

  /** The loop turns; failed tries count as turning. */
  public boolean live() {
    return !started || stopping || System.nanoTime() - turnedNanos < WEDGED_AFTER.toNanos();
  }

  private static final Duration WEDGED_AFTER = Duration.ofSeconds(30);

  /** Polls that wait at the moment. */
  public int waitingPolls() {
    return polls.get();
  }

  /** Whether workers elsewhere work this kind: asked of the policy as it is now. */
  public boolean lends(String kind) {
    return switch (policies.of(kind).delivery()) {
      case PULL -> true;
      case BEAN -> !handledHere.test(kind);
      case HTTP -> false;
    };
  }

  /** How often it looked; each look is one query when there is nothing. */
  int rounds() {
    return rounds;
  }

  /** Why a poll was not let in. */
  public sealed interface Entry {

    record In(Poll poll) implements Entry {}

    record Full(int pollsMax) implements Entry {}

    /** This process is about to end. */
    record Closed() implements Entry {}
  }

  public Entry enter(Ask ask, Duration wait) {
    if (stopping || !started) {
      return new Entry.Closed();
    }
    if (polls.incrementAndGet() > pollsMax) {
      polls.decrementAndGet();
      return new Entry.Full(pollsMax);
    }
    var poll = new Poll(ask, wait.toNanos(), _ -> polls.decrementAndGet(), handing::giveBackSoon);
    arrived.add(poll);
    woken = true;
    LockSupport.unpark(loop);
    if (stopping) {
      answerAll(); // The loop may have ended between the two looks at it.
    }
    return new Entry.In(poll);
  }

  private void answerAll() {
    for (@Nullable Poll poll = arrived.poll(); poll != null; poll = arrived.poll()) {
      boolean _ = poll.give(List.of());
    }
  }

  /** When a cap held the last round up: how soon there may be room. */
  private long heldMillis = Long.MAX_VALUE;

  private void turn() {
    long idleMillis = IDLE_MILLIS_MIN;
    while (!stopping) {
      turnedNanos = System.nanoTime();
      woken = false;
      takeArrived();
      if (waiting.isEmpty()) {
        idle(IDLE_MILLIS_MAX);
        continue;
      }
      Look look = look();
      if (look == Look.GAVE || look == Look.MORE) {
        idleMillis = IDLE_MILLIS_MIN;
        continue;
      }
      if (look == Look.NOTHING && idleMillis > ARM_AFTER_MILLIS && arm()) {
        continue;
      }
      idle(
          look == Look.FAILED
              ? ThreadLocalRandom.current().nextLong(100, 1_000)
              : Math.min(idleMillis, heldMillis));
      idleMillis = woken ? IDLE_MILLIS_MIN : Math.min(idleMillisMax(), idleMillis * 2);
    }
    waiting.forEach(poll -> {
      boolean _ = poll.give(List.of());
    });
    waiting.clear();
  }

  private void takeArrived() {
    waiting.removeIf(poll -> !poll.isOpen());
    for (@Nullable Poll poll = arrived.poll(); poll != null; poll = arrived.poll()) {
      waiting.add(poll);
    }
  }

  private void idle(long millis) {
    if (!woken && !stopping) {
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(millis));
    }
  }

  private long idleMillisMax() {
    return wakeups.getAsBoolean() ? IDLE_MILLIS_MAX : IDLE_MILLIS_MAX / 2;
  }

  private enum Look {
    GAVE,
    MORE,
    NOTHING,
    FAILED
  }

  private Look look() {
    try {
      heldMillis = Long.MAX_VALUE;
      Look look = round(List.copyOf(waiting));
      failing = false;
      return look;
    } catch (SQLException failure) {
      if (!failing) {
        LOG.errorf(
            "claim failed, trying again pool=%s sqlstate=%s error=%s",
            POOL, failure.getSQLState(), SqlState.of(failure));
      }
    } catch (RuntimeException bug) {
      LOG.errorf(bug, "claim failed pool=%s", POOL);
    }
    failing = true;
    return Look.FAILED;
  }

  private static final class Claiming {
    final Claimer claimer;
    long sweptNanos = System.nanoTime() - SWEEP_NANOS;

    Claiming(Claimer claimer) {
      this.claimer = claimer;
    }
  }

  /** One look for all who wait. */
  private Look round(List<Poll> all) throws SQLException {
    Map<Line, List<Poll>> lines = lines(all);
    Set<Line> ready = handing.ready(lines.keySet());
    var hands = new LinkedHashMap<Poll, List<Claimed>>();
    boolean more = false;
    int first = rounds;
    try {
      List<Line> order = new ArrayList<>(lines.keySet());
      for (int i = 0; i < order.size() && !stopping; i++) {
        Line line = order.get(Math.floorMod(i + first, order.size()));
        Claiming claiming = claimer(line);
        if (ready.contains(line) || claiming.claimer.knowsMore()) {
          more |= claim(claiming, lines.getOrDefault(line, List.of()), hands);
        }
      }
      rounds = first + 1;
    } finally {
      // What was claimed is handed out, or goes back, even when the next claim failed.
      handing.hand(hands);
    }
    all.forEach(Poll::looked);
    return !hands.isEmpty() ? Look.GAVE : more ? Look.MORE : Look.NOTHING;
  }

  private Map<Line, List<Poll>> lines(List<Poll> all) {
    var lines = new LinkedHashMap<Line, List<Poll>>();
    var lent = new HashMap<String, Boolean>();
    for (Poll poll : all) {
      for (String kind : poll.ask().kinds()) {
        // Asked once a round and not at the door: a policy may change while somebody waits.
        var line = new Line(kind, poll.ask().tenant());
        if (lent.computeIfAbsent(kind, this::lends)
            && (lines.size() < LINES_MAX || lines.containsKey(line))) {
          lines.computeIfAbsent(line, _ -> new ArrayList<>()).add(poll);
        }
      }
    }
    if (claimers.size() > CLAIMERS_MAX) {
      claimers.keySet().retainAll(lines.keySet());
    }
    return lines;
  }

  private Claiming claimer(Line line) {
    return claimers.computeIfAbsent(
        line,
        _ ->
            new Claiming(
                new Claimer(
                    database,
                    policies,
                    POOL,
                    Map.of(line.kind(), ANY_VERSION),
                    policy -> policy.delivery() != Delivery.HTTP,
                    line.tenant())));
  }

  /** True when there may be more at once than was taken. */
  private boolean claim(Claiming claiming, List<Poll> line, Map<Poll, List<Claimed>> hands)
      throws SQLException {
    Claimer claimer = claiming.claimer;
    for (int tries = 0; tries < EMPTY_CLAIMS_MAX; tries++) {
      var open = new ArrayDeque<Poll>();
      int wanted = 0;
      for (Poll poll : line) {
        int room = poll.ask().max() - hands.getOrDefault(poll, List.of()).size();
        if (room > 0 && poll.isOpen()) {
          open.add(poll);
          wanted += Math.min(room, BATCH_MAX);
        }
      }
      if (open.isEmpty()) {
        return false;
      }
      long now = System.nanoTime();
      if (!claimer.knowsMore() || now - claiming.sweptNanos > SWEEP_NANOS) {
        claimer.sweep();
        claiming.sweptNanos = now;
      }
      List<Claimed> batch = claimer.claim(Math.min(wanted, BATCH_MAX));
      events.claimed(POOL, batch, System.nanoTime() - now);
      if (!batch.isEmpty()) {
        // First the hands, so that whatever fails does not cost those who got a job.
        deal(batch.stream().filter(job -> !job.exhausted()).toList(), open, hands);
        handing.bury(batch.stream().filter(Claimed::exhausted).toList());
        return true;
      }
      if (claimer.heldMillis() > 0) {
        heldMillis = Math.min(heldMillis, claimer.heldMillis());
        return false;
      }
      if (!claimer.knowsMore()) {
        return false;
      }
    }
    return true;
  }

  /** One each, in turns, the longest waiting first. */
  private static void deal(
      List<Claimed> batch, ArrayDeque<Poll> open, Map<Poll, List<Claimed>> hands) {
    for (Claimed job : batch) {
      Poll poll = open.remove();
      List<Claimed> hand = hands.computeIfAbsent(poll, _ -> new ArrayList<>());
      hand.add(job);
      if (hand.size() < poll.ask().max()) {
        open.add(poll);
      }
    }
  }

  /** True when it armed just now: then what came in between must be looked for before sleeping. */
  private boolean arm() {
    Set<String> kinds = new HashSet<>();
    waiting.forEach(poll -> kinds.addAll(poll.ask().kinds()));
    long now = System.nanoTime();
    if (!wakeups.getAsBoolean() || (armed.containsAll(kinds) && now - armedUntilNanos < 0)) {
      return false;
    }
    try {
      armed =
          kinds; // Before the statement: a wake-up that comes meanwhile must not be overwritten.
      boolean all =
          new Claimer(
                  database,
                  policies,
                  POOL,
                  kinds.stream().collect(Collectors.toMap(kind -> kind, _ -> ANY_VERSION)))
              .arm();
      armedUntilNanos = System.nanoTime() + (all ? ARMED_NANOS_MAX : ARM_AGAIN_NANOS);
      return true;
    } catch (SQLException failure) {
      armed = Set.of();
      LOG.debugf(failure, "not armed, polling pool=%s", POOL);
      return false;
    }
  }
}
