package dev.waybill.run;

import dev.waybill.claim.Leases;
import dev.waybill.db.Database;
import io.agroal.api.AgroalDataSource;
import io.quarkus.agroal.DataSource;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.util.List;

/**
 * The leases of this process, over a connection that nobody else uses and that stays open: when the
 * server takes no more connections, running jobs keep their leases.
 */
@Singleton
final class Heartbeat {

  private final Leases leases;

  @Inject
  Heartbeat(@DataSource("heartbeat") AgroalDataSource own) {
    this(new Database(own));
  }

  Heartbeat(Database database) {
    leases = new Leases(database);
  }

  /** Opens the connection, before there is anything to keep. */
  Leases reserved() throws SQLException {
    var _ = leases.ours(List.of());
    return leases;
  }
}
