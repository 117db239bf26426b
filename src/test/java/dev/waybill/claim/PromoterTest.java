package dev.waybill.claim;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class PromoterTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Promoter promoter = new Promoter(DB.database());

  @Test
  void jobs_whose_time_has_come_become_ready_and_others_do_not() throws SQLException {
    long soon = DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '1 hour')");
    long later = DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '2 hours')");
    DB.execute("UPDATE waybill.jobs SET run_at = now() - interval '1 second' WHERE id = ?", soon);
    assertEquals("ready", DB.state(soon), "users see it as ready at once");
    Promoter.Round round = promoter.promote();
    assertEquals(1, round.promoted());
    assertFalse(round.full());
    assertTrue(round.nextMillis() > 7_100_000 && round.nextMillis() <= 7_200_000, round.toString());
    assertEquals("ready", DB.text("SELECT state FROM waybill.jobs WHERE id = ?", soon));
    assertEquals("scheduled", DB.text("SELECT state FROM waybill.jobs WHERE id = ?", later));
  }

  @Test
  void nothing_scheduled_means_nothing_to_wait_for() throws SQLException {
    assertEquals(new Promoter.Round(0, false, Long.MAX_VALUE), promoter.promote());
  }

  @Test
  void many_at_once_come_in_pages() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, run_at) SELECT 'k', now() + interval '1 hour' FROM generate_series(1, 2500)
        """);
    DB.execute("UPDATE waybill.jobs SET run_at = now() - interval '1 second'");
    assertEquals(new Promoter.Round(1000, true, Long.MAX_VALUE), promoter.promote());
    assertEquals(1000, promoter.promote().promoted());
    assertEquals(new Promoter.Round(500, false, Long.MAX_VALUE), promoter.promote());
    assertEquals(500, jobs.claim("k", 500).size());
  }

  @Test
  void a_row_locked_by_another_is_passed_by() throws SQLException {
    long id = DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '1 hour')");
    DB.execute("UPDATE waybill.jobs SET run_at = now() - interval '1 second'");
    try (Connection other = DB.connect()) {
      other.setAutoCommit(false);
      TestDatabase.column(other, "SELECT id FROM waybill.jobs WHERE id = ? FOR UPDATE", id);
      assertEquals(0, promoter.promote().promoted());
      other.rollback();
      other.setAutoCommit(true);
    }
    assertEquals(1, promoter.promote().promoted());
  }

  /** Committed late, or given back with a time long past: before where the last round ended. */
  @Test
  void what_turns_up_behind_the_last_round_is_promoted_within_a_second() throws SQLException {
    DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '1 hour')");
    DB.execute("UPDATE waybill.jobs SET run_at = now() - interval '1 second'");
    assertEquals(1, promoter.promote().promoted());
    long late = DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '1 hour')");
    DB.execute("UPDATE waybill.jobs SET run_at = now() - interval '1 day' WHERE id = ?", late);
    await()
        .atMost(Duration.ofSeconds(10)) // Nobody would look there again.
        .until(() -> {
          var _ = promoter.promote();
          return DB.is("SELECT state = 'ready' FROM waybill.jobs WHERE id = ?", late);
        });
  }

  /** More than a page of them, and others behind the bound meanwhile. */
  @Test
  void many_that_turn_up_late_are_all_promoted() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, run_at) SELECT 'k', now() + interval '1 hour' FROM generate_series(1, 2500)
        """);
    DB.execute("UPDATE waybill.jobs SET run_at = now() WHERE id % 2 = 0");
    int promoted = promoter.promote().promoted() + promoter.promote().promoted();
    DB.execute(
        "UPDATE waybill.jobs SET run_at = now() - id * interval '1 second' WHERE state = 'scheduled'");
    long end = System.nanoTime() + 30_000_000_000L;
    while (promoted < 2_500 && System.nanoTime() < end) {
      promoted += promoter.promote().promoted();
    }
    assertEquals(2_500, promoted);
  }
}
