package dev.waybill.claim;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.retain.Reaper;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What runs is what the claims name. */
class ClaimsTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);

  private static long claims() throws SQLException {
    return DB.number("SELECT count(*) FROM waybill.claims");
  }

  private static long running() throws SQLException {
    return DB.number("SELECT count(*) FROM waybill.running");
  }

  private static int forget() throws SQLException {
    try (Connection connection = DB.connect()) {
      return Claims.forget(connection);
    }
  }

  @Test
  void a_claim_names_what_it_took() throws SQLException {
    DB.enqueue("k", 5);
    List<Claimed> took = jobs.claim("k", 3);
    assertEquals(1, claims());
    assertEquals(
        3,
        DB.number(
            "SELECT cardinality(ids) FROM waybill.claims WHERE token = ?",
            took.getFirst().token()));
    assertEquals(3, running());
    assertTrue(DB.is("SELECT bool_and(state = 'running') FROM waybill.running"));
  }

  @Test
  void a_claim_that_brought_nothing_leaves_nothing() throws SQLException {
    Claimer claimer = jobs.claimer("k");
    DB.enqueue("k");
    claimer.sweep();
    DB.execute("DELETE FROM waybill.jobs");
    assertEquals(List.of(), claimer.claim(5));
    assertEquals(0, claims());
  }

  /** Or it would write to every index. */
  @Test
  void what_a_claim_changes_is_in_no_index() throws SQLException {
    DB.execute(
        """
        SELECT waybill.enqueue('k', jsonb_build_object('text', repeat('x', 150))) FROM generate_series(1, 2000)
        """);
    String hot = "SELECT pg_stat_get_tuples_hot_updated('waybill.jobs'::regclass)";
    long before = DB.number(hot);
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    for (int i = 0; i < 4; i++) {
      assertEquals(500, claimer.claim(500).size());
    }
    // Statistics lag behind by ten seconds at most; a page may have been full.
    await().untilAsserted(() -> assertTrue(DB.number(hot) - before >= 1_900));
  }

  @Test
  void a_claim_stays_while_one_of_its_jobs_runs() throws Exception {
    DB.enqueue("k", 2);
    List<Claimed> took = jobs.claim("k", 2);
    assertTrue(jobs.settle(took.get(0), Outcome.done()));
    assertEquals(0, forget());
    assertEquals(1, running());
    assertTrue(jobs.settle(took.get(1), Outcome.retry("x")));
    assertEquals(1, forget());
    assertEquals(0, claims());
  }

  @Test
  void a_job_that_was_taken_over_runs_by_its_second_claim_only() throws SQLException {
    Claimed first = jobs.running("k");
    jobs.leaseOver(first.id());
    DB.execute("UPDATE waybill.jobs SET state = 'ready', token = NULL, lease_until = NULL");
    Claimed second = jobs.claimOne("k");
    assertEquals(2, claims());
    assertEquals(1, running());
    assertEquals(1, forget());
    assertTrue(DB.is("SELECT token = ? FROM waybill.claims", second.token()));
  }

  @Test
  void nobody_waits_for_a_claim_that_somebody_else_deletes() throws Exception {
    assertTrue(jobs.settle(jobs.running("k"), Outcome.done()));
    assertTrue(jobs.settle(jobs.running("k"), Outcome.done()));
    try (Connection other = DB.connect()) {
      other.setAutoCommit(false);
      try (var statement = other.createStatement()) {
        statement.execute("SELECT FROM waybill.claims LIMIT 1 FOR UPDATE");
        assertEquals(1, assertTimeoutPreemptively(Duration.ofSeconds(10), ClaimsTest::forget));
        assertEquals(1, claims());
      }
    }
  }

  @Test
  void settles_delete_the_claims_they_ended() throws Exception {
    Settler settler = jobs.settler();
    settler.start();
    try {
      for (int i = 0; i < 40; i++) {
        assertEquals(Settled.SETTLED, TestJobs.settle(settler, jobs.running("k"), Outcome.done()));
      }
    } finally {
      settler.stop();
    }
    assertTrue(claims() <= 20, "of 40 claims there are " + claims());
  }

  @Test
  void a_running_job_that_no_claim_names_is_found_and_reaped() throws SQLException {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    DB.execute("DELETE FROM waybill.claims");
    var reaper = new Reaper(DB.database());
    assertEquals(Map.of(), reaper.reap());
    assertEquals(1, reaper.findStrays());
    assertEquals(0, reaper.findStrays());
    assertEquals(Map.of("k", 1L), reaper.reap());
    assertEquals(0, claims());
  }

  @Test
  void one_that_its_claim_forgot_to_name_is_added_to_it() throws SQLException {
    DB.enqueue("k", 3);
    assertEquals(3, jobs.claim("k", 3).size());
    DB.execute("UPDATE waybill.claims SET ids = ids[1:1]");
    assertEquals(1, running());
    assertEquals(1, new Reaper(DB.database()).findStrays());
    assertEquals(1, claims());
    assertEquals(3, running());
  }

  @Test
  void one_whose_kind_its_claim_does_not_name_is_found() throws SQLException {
    jobs.running("k");
    DB.execute("UPDATE waybill.claims SET kinds = '{other}'");
    assertEquals(1, DB.number("SELECT count(*) FROM waybill.audit() WHERE NOT ok"));
    assertEquals(1, new Reaper(DB.database()).findStrays());
    assertEquals(1, claims());
    assertEquals(1, running());
    DB.auditIsClean();
  }

  @Test
  void strays_are_looked_for_page_by_page() throws SQLException {
    DB.enqueue("k", 7);
    assertEquals(7, jobs.claim("k", 7).size());
    DB.execute("UPDATE waybill.jobs SET token = gen_random_uuid() WHERE id % 2 = 1");
    DB.execute("DELETE FROM waybill.claims");
    long odd = DB.number("SELECT count(*) FROM waybill.jobs WHERE id % 2 = 1");
    try (Connection connection = DB.connect()) {
      // Those that have one token lie in several pages, and are found in each.
      assertTrue(Claims.findStrays(connection, 2) > odd);
      assertEquals(0, Claims.findStrays(connection, 2));
    }
    assertEquals(odd + 1, claims());
    assertEquals(7, running());
  }

  /** Nobody can say whose it is; it must not keep the others from being found. */
  @Test
  void one_without_a_token_is_passed_by() throws SQLException {
    Claimed job = jobs.running("k");
    Claimed other = jobs.running("k");
    DB.execute("DELETE FROM waybill.claims");
    DB.execute("UPDATE waybill.jobs SET token = NULL WHERE id = ?", other.id());
    assertEquals(1, new Reaper(DB.database()).findStrays());
    assertTrue(DB.is("SELECT token = ? FROM waybill.claims", job.token()));
  }

  /** More than a page of a table holds. */
  @Test
  void a_claim_may_be_large() throws SQLException {
    DB.enqueue("k", 3_000);
    assertEquals(3_000, jobs.claim("k", 3_000).size());
    assertEquals(3_000, running());
  }
}
