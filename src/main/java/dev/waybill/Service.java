package dev.waybill;

import dev.waybill.access.Access;
import dev.waybill.alert.Alerts;
import dev.waybill.db.Schema;
import dev.waybill.deadletter.Beats;
import dev.waybill.figures.Durations;
import dev.waybill.fleet.Fleet;
import dev.waybill.policy.Policies;
import dev.waybill.policy.Seeds;
import dev.waybill.pull.Desk;
import dev.waybill.retain.Maintenance;
import dev.waybill.retain.Partitions;
import dev.waybill.run.Pools;
import dev.waybill.trace.Tracer;
import io.quarkus.runtime.Quarkus;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.ShutdownDelayInitiatedEvent;
import io.quarkus.scheduler.Scheduler;
import jakarta.enterprise.event.Observes;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.util.Locale;
import java.util.Set;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * The order of things at start and at stop. A wrong setting or a wrong database ends the start with
 * one line.
 */
@Singleton
final class Service implements QuarkusApplication {

  private static final Logger LOG = Logger.getLogger("waybill");

  private final Settings settings;
  private final Schema schema;
  private final Access access;
  private final Partitions partitions;
  private final Pools pools;
  private final Desk desk;
  private final Wakeup wakeup;
  private final Maintenance maintenance;
  private final Beats deadLetters;
  private final Alerts alerts;
  private final Scheduler beats;
  private final Policies policies;
  private final Fleet fleet;
  private final Durations durations;
  private final Tracer tracer;

  @Inject
  Service(
      Settings settings,
      Schema schema,
      Access access,
      Partitions partitions,
      Pools pools,
      Desk desk,
      Maintenance maintenance,
      Beats deadLetters,
      Alerts alerts,
      Wakeup wakeup,
      Scheduler beats,
      Policies policies,
      Fleet fleet,
      Durations durations,
      Tracer tracer) {
    this.settings = settings;
    this.schema = schema;
    this.access = access;
    this.partitions = partitions;
    this.pools = pools;
    this.desk = desk;
    this.maintenance = maintenance;
    this.deadLetters = deadLetters;
    this.alerts = alerts;
    this.wakeup = wakeup;
    this.beats = beats;
    this.policies = policies;
    this.fleet = fleet;
    this.durations = durations;
    this.tracer = tracer;
  }

  @Override
  public int run(String... args) throws InterruptedException {
    Waybill.serving();
    try {
      Set<Role> roles = Role.parse(settings.roles());
      pools.check();
      alerts.check();
      tracer.check();
      Seeds seeds = Seeds.parse(settings.kinds().orElse(""));
      access.check(roles.contains(Role.API));
      schema.checkServer();
      if (!prepareSchema()) {
        return 0;
      }
      schema.checkSettings();
      policies.sow(seeds);
      access.start();
      start(roles);
      sayWhereToLook();
      Quarkus.waitForExit();
      return 0;
    } catch (IllegalArgumentException | Schema.Refused | DatabaseUrl.Refused refused) {
      System.err.println("waybill: " + refused.getMessage());
      return Waybill.EXIT_REFUSED;
    } catch (SQLException failure) {
      System.err.println("waybill: the database refused the start: " + failure.getMessage());
      return Waybill.EXIT_REFUSED;
    }
  }

  /** False when there is nothing more to do. */
  private boolean prepareSchema() throws Schema.Refused {
    switch (settings.migrate()) {
      case "start" -> schema.migrate();
      case "only" -> {
        schema.migrate();
        return false;
      }
      case "never" -> schema.checkVersion();
      default ->
          throw new IllegalArgumentException(
              "WAYBILL_MIGRATE: '" + settings.migrate() + "' is not one of start, only, never");
    }
    return true;
  }

  private void start(Set<Role> roles) throws SQLException, DatabaseUrl.Refused {
    tracer.start();
    if (roles.contains(Role.MAINTENANCE)) {
      partitions.makeAhead();
      maintenance.start();
      deadLetters.start();
      alerts.start();
    }
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
    beats.resume();
  }

  private void sayWhereToLook() {
    String at = "http://" + settings.http().host() + ":" + settings.http().port();
    LOG.infof(
        "Waybill is ready: jobs %s/v1/jobs, documents %s/q/openapi, health %s/q/health, metrics %s/q/metrics",
        at, at, at, at);
    @Nullable String psql = Waybill.embeddedPsql();
    if (psql != null) {
      LOG.infof("embedded PostgreSQL, data in %s: %s", settings.data(), psql);
    }
  }

  private void writeDurations() {
    try {
      durations.flush();
    } catch (SQLException failure) {
      LOG.debugf(failure, "a minute's durations are lost");
    }
  }

  /**
   * Quarkus fires this first of all when it stops, whatever the reason, and waits. HTTP still
   * answers meanwhile: not ready, so that nobody sends more, while requests under way are served.
   */
  void stop(@Observes ShutdownDelayInitiatedEvent stopping) throws InterruptedException {
    beats.pause();
    maintenance.stop();
    deadLetters.stop();
    alerts.stop();
    desk.stop();
    pools.drain();
    writeDurations();
    wakeup.stop();
    fleet.leave();
    tracer.stop();
    Waybill.over();
  }
}
