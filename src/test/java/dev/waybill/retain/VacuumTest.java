package dev.waybill.retain;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

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

  private static long size(String table) throws SQLException {
    return DB.number("SELECT pg_relation_size('" + table + "')");
  }

  /** As under a held snapshot: so many rows that the table is wide when they are gone. */
  private static void blowUp() throws SQLException {
    DB.execute(
        """
        ALTER TABLE waybill.claims SET (autovacuum_enabled = off);
        ALTER TABLE waybill.arrivals SET (autovacuum_enabled = off);
        INSERT INTO waybill.arrivals (kind, n) SELECT 'k', 1 FROM generate_series(1, 300000);
        INSERT INTO waybill.claims (token, ids, kinds) SELECT gen_random_uuid(), '{1}', '{k}' FROM generate_series(1, 150000)
        """);
    DB.execute("DELETE FROM waybill.arrivals; DELETE FROM waybill.claims; " + TestDatabase.COUNTED);
    assertTrue(size("waybill.arrivals") > 10_000_000);
    assertTrue(size("waybill.claims") > 10_000_000);
  }

  /** Who sums up what came, or counts what runs, reads these tables whole. */
  @Test
  void what_a_held_snapshot_blew_up_is_cut_off_after_it() throws Exception {
    try (Connection backup = DB.connect()) {
      backup.setAutoCommit(false);
      backup.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      TestDatabase.execute(backup, "SELECT 1");
      blowUp();
      Vacuum vacuum = vacuum(1_000);
      assertEquals(List.of("waybill.arrivals", "waybill.claims"), vacuum.run());
      assertTrue(size("waybill.claims") > 10_000_000, "in use by a snapshot");
      backup.rollback();
    }
    Vacuum vacuum = vacuum(1_000);
    await()
        .until(() -> {
          var _ = vacuum.run();
          return size("waybill.arrivals") + size("waybill.claims") < 1_000_000;
        });
  }

  @Test
  void a_table_that_is_wide_for_a_moment_is_left_alone() throws SQLException {
    blowUp();
    Vacuum vacuum = vacuum(1_000_000);
    DB.execute("VACUUM (TRUNCATE false) waybill.arrivals, waybill.claims");
    DB.execute(TestDatabase.COUNTED);
    for (int i = 0; i < 29; i++) {
      assertEquals(List.of(), vacuum.run());
    }
    DB.execute(
        "INSERT INTO waybill.arrivals (kind, n) SELECT 'k', 1 FROM generate_series(1, 100000); "
            + TestDatabase.COUNTED);
    assertEquals(List.of("waybill.claims"), vacuum.run());
    DB.execute("DELETE FROM waybill.arrivals; " + TestDatabase.COUNTED);
    assertEquals(List.of(), vacuum.run(), "wide again, but not for long");
    assertTrue(size("waybill.arrivals") > 10_000_000);
  }
}
