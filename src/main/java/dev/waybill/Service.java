package dev.waybill;

import dev.waybill.db.Schema;
import dev.waybill.trace.Tracer;
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
  private final Entrance entrance;
  private final Housekeeping housekeeping;
  private final Work work;
  private final Tracer tracer;
  private final Scheduler beats;

  @Inject
  Service(
      Settings settings,
      Entrance entrance,
      Housekeeping housekeeping,
      Work work,
      Tracer tracer,
      Scheduler beats) {
    this.settings = settings;
    this.entrance = entrance;
    this.housekeeping = housekeeping;
    this.work = work;
    this.tracer = tracer;
    this.beats = beats;
  }

  @Override
  public int run(String... args) throws InterruptedException {
    Waybill.serving();
    try {
      Set<Role> roles = Role.parse(settings.roles());
      work.check();
      housekeeping.check();
      tracer.check();
      if (!entrance.pass(roles.contains(Role.API))) {
        return 0;
      }
      tracer.start();
      if (roles.contains(Role.MAINTENANCE)) {
        housekeeping.start();
      }
      work.start(roles);
      beats.resume();
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
    housekeeping.stop();
    work.stop();
    tracer.stop();
    Waybill.over();
  }
}
