package dev.waybill.retain;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.AfterEach;
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

  /** As a held snapshot does, and the vacuum that comes after it. */
  private static void blowUp() throws SQLException {
    DB.execute(
        """
        ALTER TABLE waybill.claims SET (autovacuum_enabled = off);
        ALTER TABLE waybill.arrivals SET (autovacuum_enabled = off);
        INSERT INTO waybill.arrivals (kind, n) SELECT 'k', 1 FROM generate_series(1, 300000);
        INSERT INTO waybill.claims (token, ids, kinds) SELECT gen_random_uuid(), '{1}', '{k}' FROM generate_series(1, 150000)
        """);
    DB.execute("DELETE FROM waybill.arrivals; DELETE FROM waybill.claims");
    DB.execute("VACUUM (TRUNCATE false) waybill.arrivals, waybill.claims");
    DB.execute(TestDatabase.COUNTED);
    assertTrue(size("waybill.arrivals") > 10_000_000);
    assertTrue(size("waybill.claims") > 10_000_000);
  }

  @AfterEach
  void empty() throws SQLException {
    DB.execute("TRUNCATE waybill.arrivals, waybill.claims; " + TestDatabase.COUNTED);
  }

  /** Who sums up what came, or counts what runs, reads these tables whole. */
  @Test
  void what_was_blown_up_is_cut_off() throws SQLException {
    blowUp();
    Vacuum vacuum = vacuum(1_000_000);
    var cut = new TreeSet<String>();
    // More than one try, should somebody have a snapshot or a lock at the first.
    for (int i = 0; i < 120; i++) {
      cut.addAll(vacuum.run());
    }
    assertEquals(Set.of("waybill.arrivals", "waybill.claims"), cut);
    assertTrue(size("waybill.arrivals") + size("waybill.claims") < 1_000_000);
  }

  @Test
  void a_table_that_is_wide_for_a_moment_is_left_alone() throws SQLException {
    blowUp();
    Vacuum vacuum = vacuum(1_000_000);
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

  /** As when producers never leave the table alone. */
  @Test
  void what_cannot_be_cut_off_is_tried_less_and_less_often() throws SQLException {
    blowUp();
    Vacuum vacuum = vacuum(1_000_000);
    var tries = new ArrayList<Integer>();
    try (Connection producer = DB.connect()) {
      producer.setAutoCommit(false);
      TestDatabase.execute(producer, "LOCK TABLE waybill.arrivals IN SHARE UPDATE EXCLUSIVE MODE");
      for (int i = 1; i <= 240; i++) {
        if (vacuum.run().contains("waybill.arrivals")) {
          tries.add(i);
        }
      }
      producer.rollback();
    }
    assertEquals(List.of(30, 60, 120, 240), tries);
    assertTrue(size("waybill.arrivals") > 10_000_000);
  }
}
