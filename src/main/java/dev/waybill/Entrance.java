package dev.waybill;

import dev.waybill.access.Access;
import dev.waybill.db.Schema;
import dev.waybill.policy.Policies;
import dev.waybill.policy.Seeds;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;

/** What is looked at before anything is begun: who may call, and whether the database is ours. */
@Singleton
final class Entrance {

  private final Settings settings;
  private final Schema schema;
  private final Access access;
  private final Policies policies;

  @Inject
  Entrance(Settings settings, Schema schema, Access access, Policies policies) {
    this.settings = settings;
    this.schema = schema;
    this.access = access;
    this.policies = policies;
  }

  /** False when there is nothing more to do than to migrate, and that is done. */
  boolean pass(boolean withApi) throws Schema.Refused, SQLException, InterruptedException {
    Seeds seeds = Seeds.parse(settings.kinds().orElse(""));
    access.check(withApi);
    schema.checkServer();
    if (!prepareSchema()) {
      return false;
    }
    schema.checkSettings();
    policies.sow(seeds);
    access.start();
    return true;
  }

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
}
