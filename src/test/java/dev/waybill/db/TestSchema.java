package dev.waybill.db;

import dev.waybill.TestDatabase;
import org.flywaydb.core.Flyway;

/** The schema of a test's database, for other rooms' tests. */
public final class TestSchema {

  private TestSchema() {}

  public static Schema of(TestDatabase db) {
    return new Schema(
        db.database(),
        new Session(db.database(), TestDatabase.sessionSettings()),
        Flyway.configure().dataSource(db.dataSource()).load());
  }
}
