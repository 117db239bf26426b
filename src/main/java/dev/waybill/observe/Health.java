package dev.waybill.observe;

import dev.waybill.db.Schema;
import dev.waybill.pull.Desk;
import dev.waybill.retain.Maintenance;
import dev.waybill.run.Pools;
import jakarta.enterprise.inject.Produces;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import org.eclipse.microprofile.health.HealthCheck;
import org.eclipse.microprofile.health.HealthCheckResponse;
import org.eclipse.microprofile.health.Liveness;
import org.eclipse.microprofile.health.Readiness;
import org.eclipse.microprofile.health.Startup;

/**
 * The three questions of Kubernetes. None of them asks the database: they tell what the loops saw
 * of it.
 */
@Singleton
final class Health {

  private final Pools pools;
  private final Desk desk;
  private final Maintenance maintenance;
  private final Schema schema;

  @Inject
  Health(Pools pools, Desk desk, Maintenance maintenance, Schema schema) {
    this.pools = pools;
    this.desk = desk;
    this.maintenance = maintenance;
    this.schema = schema;
  }

  /**
   * Loops that turn but fail are alive: restarting every pod in a database outage mends nothing.
   */
  @Produces
  @Liveness
  HealthCheck live() {
    return () ->
        HealthCheckResponse.named("loops turn")
            .status(pools.live() && desk.live() && maintenance.live())
            .build();
  }

  @Produces
  @Readiness
  HealthCheck ready() {
    return () ->
        HealthCheckResponse.named("claims succeed")
            .status(pools.ready())
            .withData("draining", pools.draining())
            .withData("lostTableSettings", String.join(", ", schema.lostSettings()))
            .build();
  }

  @Produces
  @Startup
  HealthCheck started() {
    return () -> HealthCheckResponse.named("schema is there").status(schema.isCurrent()).build();
  }
}
