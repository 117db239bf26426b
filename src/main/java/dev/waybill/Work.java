package dev.waybill;

import dev.waybill.figures.Durations;
import dev.waybill.fleet.Fleet;
import dev.waybill.pull.Desk;
import dev.waybill.run.Pools;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.util.Locale;
import java.util.Set;
import org.jboss.logging.Logger;

/** Handing out jobs, to the pools of this process and to workers that call, and telling of it. */
@Singleton
final class Work {

  private static final Logger LOG = Logger.getLogger("waybill");

  private final Pools pools;
  private final Desk desk;
  private final Wakeup wakeup;
  private final Fleet fleet;
  private final Durations durations;

  @Inject
  Work(Pools pools, Desk desk, Wakeup wakeup, Fleet fleet, Durations durations) {
    this.pools = pools;
    this.desk = desk;
    this.wakeup = wakeup;
    this.fleet = fleet;
    this.durations = durations;
  }

  /** Refuses a wrong setting, before anything was touched. */
  void check() {
    pools.check();
  }

  void start(Set<Role> roles) throws SQLException, DatabaseUrl.Refused {
    if (roles.contains(Role.WORKER)) {
      pools.start();
    }
    pools.heedPolicies();
    if (roles.contains(Role.API)) {
      desk.start(pools.handled()::contains);
    }
    if (roles.contains(Role.WORKER) || roles.contains(Role.API)) {
      wakeup.start();
    }
    fleet.join(roles.stream().map(role -> role.name().toLowerCase(Locale.ROOT)).sorted().toList());
  }

  /** Answers when nothing is under way here any more. */
  void stop() throws InterruptedException {
    desk.stop();
    pools.drain();
    try {
      durations.flush();
    } catch (SQLException failure) {
      LOG.debugf(failure, "a minute's durations are lost");
    }
    wakeup.stop();
    fleet.leave();
  }
}
