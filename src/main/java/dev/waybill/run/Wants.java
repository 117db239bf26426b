package dev.waybill.run;

import dev.waybill.claim.Wanted;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What one pool is after, given what it has in hand. */
final class Wants implements Wanted {

  private final PoolPlan plan;
  private final List<PoolPlan> all;
  private final Duties duties;
  private final Set<Running> running = ConcurrentHashMap.newKeySet();

  Wants(PoolPlan plan, List<PoolPlan> all, Duties duties) {
    this.plan = plan;
    this.all = List.copyOf(all);
    this.duties = duties;
  }

  PoolPlan plan() {
    return plan;
  }

  /** The attempts under way: the pool adds to it and takes from it. */
  Set<Running> running() {
    return running;
  }

  @Override
  public Map<String, Integer> kinds() {
    return duties.of(plan, all);
  }

  @Override
  public Map<String, Integer> room() {
    return duties.room(plan, all, running);
  }
}
