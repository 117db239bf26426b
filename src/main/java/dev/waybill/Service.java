package dev.waybill;

import dev.waybill.access.Access;
import dev.waybill.db.Schema;
import dev.waybill.retain.Maintenance;
import dev.waybill.retain.Partitions;
import dev.waybill.run.Pools;
import io.quarkus.runtime.Quarkus;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.ShutdownDelayInitiatedEvent;
import io.quarkus.scheduler.Scheduler;
import jakarta.enterprise.event.Observes;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
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
  private final Wakeup wakeup;
  private final Maintenance maintenance;
  private final Scheduler beats;

  @Inject
  Service(
      Settings settings,
      Schema schema,
      Access access,
      Partitions partitions,
      Pools pools,
      Maintenance maintenance,
      Wakeup wakeup,
      Scheduler beats) {
    this.settings = settings;
    this.schema = schema;
    this.access = access;
    this.partitions = partitions;
    this.pools = pools;
    this.maintenance = maintenance;
    this.wakeup = wakeup;
    this.beats = beats;
  }

  @Override
  public int run(String... args) throws InterruptedException {
    Waybill.serving();
    try {
      Set<Role> roles = Role.parse(settings.roles());
      pools.check();
      access.check(roles.contains(Role.API));
      schema.checkServer();
      if (!prepareSchema()) {
        return 0;
      }
      schema.checkSettings();
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
    if (roles.contains(Role.MAINTENANCE)) {
      partitions.makeAhead();
      maintenance.start();
    }
    if (roles.contains(Role.WORKER)) {
      pools.start();
      wakeup.start();
    }
    pools.heedPolicies();
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

  /**
   * Quarkus fires this first of all when it stops, whatever the reason, and waits. HTTP still
   * answers meanwhile: not ready, so that nobody sends more, while requests under way are served.
   */
  void stop(@Observes ShutdownDelayInitiatedEvent stopping) throws InterruptedException {
    beats.pause();
    maintenance.stop();
    pools.drain();
    wakeup.stop();
    Waybill.over();
  }
}
