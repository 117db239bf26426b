package dev.waybill;

import dev.waybill.alert.Alerts;
import dev.waybill.deadletter.Beats;
import dev.waybill.retain.Maintenance;
import dev.waybill.retain.Partitions;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;

/** The duties of the role maintenance. One process of a cluster does for them; several are safe. */
@Singleton
final class Housekeeping {

  private final Partitions partitions;
  private final Maintenance maintenance;
  private final Beats deadLetters;
  private final Alerts alerts;

  @Inject
  Housekeeping(Partitions partitions, Maintenance maintenance, Beats deadLetters, Alerts alerts) {
    this.partitions = partitions;
    this.maintenance = maintenance;
    this.deadLetters = deadLetters;
    this.alerts = alerts;
  }

  /** Refuses a wrong setting, before anything was touched. */
  void check() {
    alerts.check();
  }

  void start() throws SQLException {
    partitions.makeAhead();
    maintenance.start();
    deadLetters.start();
    alerts.start();
  }

  void stop() {
    maintenance.stop();
    deadLetters.stop();
    alerts.stop();
  }
}
