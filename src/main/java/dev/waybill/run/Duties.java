package dev.waybill.run;

import dev.waybill.job.Claimed;
import dev.waybill.job.Delivery;
import dev.waybill.job.Outcome;
import dev.waybill.job.Policy;
import dev.waybill.policy.Policies;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jboss.logging.Logger;

/**
 * Who works a kind at this moment, by its policy: a handler of this build, the push, or whoever
 * pulls. The one place that knows which kinds a pool claims.
 */
@Singleton
final class Duties {

  private static final Logger LOG = Logger.getLogger(Duties.class);

  private final Handlers handlers;
  private final Policies policies;
  private final Push push;

  @Inject
  Duties(Handlers handlers, Policies policies, Push push) {
    this.handlers = handlers;
    this.policies = policies;
    this.push = push;
  }

  /** Refuses a wrong setting, before anything was touched. */
  void check() {
    push.check();
  }

  /** The kinds that have a handler. */
  Map<String, Integer> handled() {
    return handlers.kinds();
  }

  /**
   * What this pool claims now: kinds that it names, or that nobody names when it has {@code *}.
   * Those without a handler in this build are left alone, unless they are pushed; those that are
   * pulled too. What a push sends it does not read, so any payload version will do.
   */
  Map<String, Integer> of(PoolPlan plan, List<PoolPlan> all) {
    var kinds = new HashMap<String, Integer>();
    handlers
        .kinds()
        .forEach((kind, version) -> {
          if (policies.of(kind).delivery() == Delivery.BEAN && plan.takes(kind, all)) {
            kinds.put(kind, version);
          }
        });
    for (String kind : policies.deliveredBy(Delivery.HTTP)) {
      if (plan.takes(kind, all)) {
        kinds.put(kind, (int) Short.MAX_VALUE);
      }
    }
    return kinds;
  }

  /** How many more jobs this pool may begin, of the kinds where that is bounded. */
  Map<String, Integer> room(PoolPlan plan, List<PoolPlan> all, Iterable<Running> running) {
    var inHand = new HashMap<String, Integer>();
    for (String kind : policies.deliveredBy(Delivery.HTTP)) {
      if (plan.takes(kind, all)) {
        inHand.put(kind, 0);
      }
    }
    if (inHand.isEmpty()) {
      return Map.of();
    }
    for (Running attempt : running) {
      inHand.computeIfPresent(attempt.job().kind(), (_, n) -> n + 1);
    }
    return push.room(inHand);
  }

  /** Its policy may have changed since the claim. */
  Outcome run(Claimed job, JobContext context) throws Exception {
    Policy policy = policies.of(job.kind());
    return switch (policy.delivery()) {
      case BEAN -> handlers.run(job, context);
      case HTTP -> push.deliver(job, policy, context);
      case PULL -> new Outcome.Release();
    };
  }

  /** A kind that is named and that nobody works may be a mistake, or of another build. */
  void warnOfUnworked(PoolPlan plan) {
    for (String kind : plan.kinds()) {
      if (!kind.equals(PoolPlan.REST)
          && !handlers.kinds().containsKey(kind)
          && policies.of(kind).delivery() == Delivery.BEAN) {
        LOG.warnf("no handler in this build, left alone kind=%s pool=%s", kind, plan.name());
      }
    }
  }
}
