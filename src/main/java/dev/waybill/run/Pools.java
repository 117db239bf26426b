package dev.waybill.run;

import dev.waybill.claim.Claimer;
import dev.waybill.claim.Promoter;
import dev.waybill.db.Beat;
import dev.waybill.db.Database;
import dev.waybill.job.Outcome;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/** The pools of this process, from start to drain. */
@Singleton
public final class Pools {

  private static final Logger LOG = Logger.getLogger(Pools.class);
  private static final Duration WEDGED_AFTER = Duration.ofSeconds(30);
  private static final Duration CLAIMED_WITHIN = Duration.ofSeconds(10);
  private static final Duration LAST_WORD = Duration.ofSeconds(3);

  private final Database database;
  private final PoolParts parts;
  private final RunSettings settings;
  private final WorkerName worker;
  private final List<Pool> pools = new ArrayList<>();
  private final Heartbeat heartbeat;
  private final Promotion promotion;
  private volatile @Nullable Watch watch;
  private volatile BooleanSupplier wakeups = () -> false;
  private volatile boolean draining;
  private volatile boolean started;
  private volatile boolean heeding;
  private final Beat reading =
      new Beat(LOG, Logger.Level.ERROR, "policies not read, going on as before");

  @Inject
  Pools(
      Database database,
      PoolParts parts,
      RunSettings settings,
      WorkerName worker,
      Heartbeat heartbeat) {
    this.database = database;
    this.parts = parts;
    this.settings = settings;
    this.worker = worker;
    this.heartbeat = heartbeat;
    this.promotion = new Promotion(new Promoter(database), this::wake);
  }

  /** Refuses a wrong setting, before anything was touched. */
  public void check() {
    List<PoolPlan> _ = ours(PoolPlan.parse(settings.pools()));
    parts.duties().check();
  }

  public void start() throws SQLException {
    parts.policies().makeKnown(parts.duties().handled().keySet());
    List<PoolPlan> plans = PoolPlan.parse(settings.pools());
    for (PoolPlan plan : ours(plans)) {
      var wants = new Wants(plan, plans, parts.duties());
      var claimer = new Claimer(database, parts.policies(), worker.value(), wants);
      parts.duties().warnOfUnworked(plan);
      pools.add(new Pool(wants, claimer, parts, () -> wakeups.getAsBoolean()));
      LOG.infof(
          "pool started pool=%s slots=%d kinds=%s",
          plan.name(), plan.slots(), wants.kinds().keySet());
    }
    var watching = new Watch(pools, heartbeat.reserved());
    parts.settler().start();
    watching.start();
    watch = watching;
    promotion.start();
    pools.forEach(Pool::start);
    started = true;
  }

  private List<PoolPlan> ours(List<PoolPlan> all) {
    return PoolPlan.chosen(settings.pool().orElse(""), all);
  }

  /**
   * After {@link #start}, if that is called at all: a pod that does not work heeds policies too.
   */
  public void heedPolicies() throws SQLException {
    parts.policies().refresh();
    heeding = true;
  }

  /** How soon a changed policy is heeded here. */
  @Scheduled(every = "2s", concurrentExecution = ConcurrentExecution.SKIP)
  void refreshPolicies() {
    if (heeding && !draining) {
      reading.run(parts.policies()::refresh);
    }
  }

  /**
   * Somebody calls {@link #wake} when work comes, as long as this is true; without it pools poll
   * more often.
   */
  public void wokenWhile(BooleanSupplier connected) {
    wakeups = connected;
  }

  /** The kinds that have a handler in this build. */
  public Set<String> handled() {
    return parts.duties().handled().keySet();
  }

  /** There may be something to claim. */
  public void wake() {
    pools.forEach(Pool::wake);
  }

  /** Stop claiming; finish within the drain time; give back the rest. */
  public void drain() throws InterruptedException {
    draining = true;
    if (!started || pools.isEmpty()) {
      return;
    }
    promotion.stop();
    pools.forEach(Pool::claimNoMore);
    for (Pool pool : pools) {
      pool.stopClaiming();
    }
    LOG.infof("draining jobs=%d drain=%s", inHand(), settings.drain());
    if (!emptyWithin(settings.drain())) {
      LOG.infof("giving back jobs=%d", inHand());
      pools.forEach(pool -> pool.running().forEach(attempt -> attempt.stop(Running.Stop.DRAIN)));
      if (!emptyWithin(LAST_WORD)) {
        pools.forEach(pool -> pool.running().forEach(a -> pool.abandon(a, new Outcome.Release())));
      }
    }
    parts.settler().stop();
    @Nullable Watch watching = watch;
    if (watching != null) {
      watching.stop();
    }
    LOG.info("drained");
  }

  private boolean emptyWithin(Duration limit) throws InterruptedException {
    long end = System.nanoTime() + limit.toNanos();
    while (inHand() > 0 && System.nanoTime() < end) {
      TimeUnit.MILLISECONDS.sleep(5);
    }
    return inHand() == 0;
  }

  private int inHand() {
    return pools.stream().mapToInt(pool -> pool.running().size()).sum();
  }

  /** The loops turn; that they fail while the database is away does not count against them. */
  public boolean live() {
    return !started
        || draining
        || (watches()
            && promotion.pulse().turnsWithin(WEDGED_AFTER)
            && parts.settler().turnsWithin(WEDGED_AFTER)
            && pools.stream().allMatch(pool -> pool.pulse().turnsWithin(WEDGED_AFTER)));
  }

  private boolean watches() {
    @Nullable Watch watching = watch;
    return watching != null && watching.pulse().turnsWithin(WEDGED_AFTER);
  }

  /**
   * Every pool could claim lately, and the service is not going down. A pod that does not work is
   * ready when it could reach the database lately.
   */
  public boolean ready() {
    if (draining) {
      return false;
    }
    return heeding
        && parts.policies().readWithin(CLAIMED_WITHIN)
        && pools.stream()
            .allMatch(pool -> pool.isFull() || pool.pulse().claimsWithin(CLAIMED_WITHIN));
  }

  public boolean draining() {
    return draining;
  }

  /** The name this process goes by. */
  public String worker() {
    return worker.value();
  }

  /** The pools, none before {@link #start}. */
  public List<PoolState> states() {
    return started ? pools.stream().map(Pool::state).toList() : List.of();
  }

  /** Slots taken, by pool. */
  public Map<String, Integer> slotsInUse() {
    var inUse = new HashMap<String, Integer>();
    pools.forEach(pool -> inUse.put(pool.name(), pool.slotsInUse()));
    return inUse;
  }
}
