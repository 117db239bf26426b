package dev.waybill.retain;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.waybill.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class VacuumTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static Vacuum vacuum(long dead) {
    return new Vacuum(DB.database(), new ArchiveTest.Given("", dead));
  }

  private static long dead() throws SQLException {
    return DB.number("SELECT pg_stat_get_dead_tuples('waybill.jobs'::regclass)");
  }

  private static void leaveDead(int jobs) throws SQLException {
    DB.execute("ALTER TABLE waybill.jobs SET (autovacuum_enabled = off)");
    DB.enqueue("k", jobs);
    DB.execute("UPDATE waybill.jobs SET priority = 1; " + TestDatabase.COUNTED);
    assertEquals(jobs, dead());
  }

  @Test
  void what_is_dead_goes_when_there_is_enough_of_it() throws SQLException {
    leaveDead(3_000);
    assertEquals(List.of(), vacuum(0).run(), "switched off");
    assertEquals(List.of(), vacuum(1_000_000).run());
    assertEquals(List.of("waybill.jobs"), vacuum(1_000).run());
    // A snapshot of somebody else's, as autovacuum takes when it analyzes, keeps the dead for its
    // time; and then the next vacuum takes them.
    await()
        .until(() -> {
          var _ = vacuum(1).run();
          return dead() == 0;
        });
    assertEquals(3_000, DB.number("SELECT count(*) FROM waybill.jobs"));
  }

  @Test
  void while_another_vacuums_nobody_waits() throws Exception {
    leaveDead(3_000);
    try (Connection other = DB.connect()) {
      other.setAutoCommit(false);
      TestDatabase.execute(other, "LOCK TABLE waybill.jobs IN SHARE UPDATE EXCLUSIVE MODE");
      vacuum(1_000).run();
      assertEquals(3_000, dead());
      other.rollback();
      other.setAutoCommit(true);
    }
  }
}
