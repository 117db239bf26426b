package dev.waybill.retain;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.claim.Leases;
import dev.waybill.db.Database;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class ReaperTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Reaper reaper = new Reaper(DB.database());

  @AfterEach
  void audit() throws SQLException {
    DB.auditIsClean();
  }

  @Test
  void a_job_of_a_vanished_holder_is_ready_again_and_its_crash_counted_apart() throws SQLException {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    assertEquals(Map.of("k", 1L), reaper.reap());
    assertTrue(
        DB.is(
            """
            SELECT state = 'ready' AND attempt = 1 AND crashes = 1 AND token IS NULL AND worker IS NULL AND lease_until IS NULL
              AND attempts -> 0 ->> 'outcome' = 'crashed' AND attempts -> 0 ->> 'worker' = 'tester' FROM waybill.jobs
            """));
    assertEquals(2, jobs.claimOne("k").attempt());
  }

  /** Its holder lives, and could not keep its lease while the database was away. */
  @Test
  void after_an_outage_holders_have_a_beat_to_come_back_before_their_jobs_are_reaped()
      throws SQLException {
    Claimed lives = jobs.running("k");
    Claimed vanished = jobs.running("k");
    try (var pool = DB.apart("reaper")) {
      var there = new Reaper(new Database(pool));
      assertEquals(Map.of(), there.reap());
      DB.execute(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'reaper'");
      assertThrows(SQLException.class, there::reap);
      jobs.leaseOver(lives.id());
      jobs.leaseOver(vanished.id());
      await().ignoreExceptions().until(() -> there.reap().isEmpty());
      assertEquals("running", DB.state(lives.id()));
      assertEquals(
          Set.of(lives.id()), new Leases(DB.database()).extend(List.of(TestJobs.held(lives))));
      assertEquals(Map.of("k", 1L), there.reap());
    }
    assertEquals("running", DB.state(lives.id()));
    assertEquals("ready", DB.state(vanished.id()));
  }

  @Test
  void a_failure_is_no_crash() throws SQLException {
    assertTrue(jobs.settle(jobs.running("k"), Outcome.retry("x")));
    assertEquals(0, DB.number("SELECT crashes FROM waybill.jobs"));
  }

  @Test
  void a_lease_that_lasts_is_left_alone() throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Map.of(), reaper.reap());
    assertEquals(Set.of(job.id()), new Leases(DB.database()).ours(List.of(TestJobs.held(job))));
  }

  @Test
  void a_crash_on_the_last_attempt_is_a_dead_letter() throws SQLException {
    DB.number("SELECT waybill.enqueue('k', max_attempts => 1)");
    Claimed job = jobs.claimOne("k");
    jobs.leaseOver(job.id());
    assertEquals(Map.of("k", 1L), reaper.reap());
    assertEquals("dead", DB.state(job.id()));
    assertTrue(
        DB.is(
            """
            SELECT attempt = 1 AND crashes = 1 AND last_error LIKE '%vanished%' AND attempts -> 0 ->> 'outcome' = 'crashed'
            FROM waybill.jobs_dead
            """));
  }

  @Test
  void the_kinds_own_limit_counts() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, max_attempts) VALUES ('k', 2)");
    for (int attempt = 1; attempt <= 2; attempt++) {
      if (attempt == 1) {
        DB.enqueue("k");
      }
      jobs.leaseOver(jobs.claimOne("k").id());
      reaper.reap();
    }
    assertEquals(1, DB.number("SELECT count(*) FROM waybill.jobs_dead WHERE crashes = 2"));
  }

  @Test
  void a_job_that_kills_its_process_again_and_again_ends_within_its_limit() throws SQLException {
    long id = DB.enqueue("k");
    for (int i = 0; i < 10; i++) {
      jobs.leaseOver(jobs.claimOne("k").id());
      reaper.reap();
    }
    assertEquals("dead", DB.state(id));
  }

  @Test
  void many_are_reaped_in_pages() throws SQLException {
    DB.enqueue("k", 1_700);
    DB.execute(
        """
        UPDATE waybill.jobs SET state = 'running', token = gen_random_uuid(), worker = 'w', started_at = now(),
          lease_until = now() - interval '1 s', attempt = CASE WHEN id % 2 = 0 THEN 1 ELSE 10 END
        """);
    DB.noteClaims();
    assertEquals(Map.of("k", 1_700L), reaper.reap());
    assertEquals(850, DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'ready'"));
    assertEquals(850, DB.number("SELECT count(*) FROM waybill.jobs_dead"));
  }

  @Test
  void a_late_settle_that_comes_first_wins() throws Exception {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    try (Connection late = DB.connect()) {
      late.setAutoCommit(false);
      assertTrue(jobs.settleIn(late, job, Outcome.done()));
      assertEquals(Map.of(), reaper.reap(), "passes by what is locked");
      late.commit();
      late.setAutoCommit(true);
    }
    assertEquals(Map.of(), reaper.reap());
    assertEquals("done", DB.state(job.id()));
  }

  @Test
  void a_late_settle_that_comes_second_changes_nothing() throws Exception {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    String reap = statement("GIVE_BACK");
    try (Connection reaping = DB.connect()) {
      reaping.setAutoCommit(false);
      assertEquals(List.of("k"), TestDatabase.column(reaping, reap, 10, null, null, 500));
      var late = CompletableFuture.supplyAsync(() -> settle(job, Outcome.done()));
      waitsForALock();
      reaping.commit();
      reaping.setAutoCommit(true);
      assertFalse(late.get());
    }
    assertEquals("ready", DB.state(job.id()));
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.jobs_done"));
  }

  @Test
  void a_late_settle_behind_a_burial_changes_nothing() throws Exception {
    DB.number("SELECT waybill.enqueue('k', max_attempts => 1)");
    Claimed job = jobs.claimOne("k");
    jobs.leaseOver(job.id());
    try (Connection reaping = DB.connect()) {
      reaping.setAutoCommit(false);
      assertEquals(
          List.of("k"), TestDatabase.column(reaping, statement("BURY"), 10, null, null, 500));
      var late = CompletableFuture.supplyAsync(() -> settle(job, Outcome.retry("late")));
      waitsForALock();
      reaping.commit();
      reaping.setAutoCommit(true);
      assertFalse(late.get());
    }
    assertEquals("dead", DB.state(job.id()));
  }

  @Test
  void a_lease_extended_meanwhile_is_left_alone() throws Exception {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    try (Connection holder = DB.connect()) {
      holder.setAutoCommit(false);
      TestDatabase.execute(
          holder,
          "UPDATE waybill.jobs SET lease_until = now() + interval '30 s' WHERE token = ?",
          job.token());
      assertEquals(Map.of(), reaper.reap(), "passes by what is locked");
      holder.commit();
      holder.setAutoCommit(true);
    }
    assertEquals(Map.of(), reaper.reap());
    assertEquals("running", DB.state(job.id()));
  }

  @Test
  void one_job_that_is_locked_does_not_stop_the_others() throws Exception {
    DB.enqueue("k", 10);
    var claimed = jobs.claim("k", 10);
    for (Claimed job : claimed) {
      jobs.leaseOver(job.id());
    }
    try (Connection other = DB.connect()) {
      other.setAutoCommit(false);
      TestDatabase.column(
          other, "SELECT 1 FROM waybill.jobs WHERE id = ? FOR UPDATE", claimed.getFirst().id());
      assertEquals(Map.of("k", 9L), reaper.reap());
      other.rollback();
      other.setAutoCommit(true);
    }
    assertEquals(Map.of("k", 1L), reaper.reap());
  }

  /** Or one such row would keep the places of all others under their caps for ever. */
  @Test
  void one_job_that_cannot_be_reaped_does_not_stop_the_others() throws SQLException {
    DB.enqueue("k", 10);
    DB.execute("UPDATE waybill.jobs SET max_attempts = 1 WHERE id % 2 = 0");
    var claimed = jobs.claim("k", 10);
    for (Claimed job : claimed) {
      jobs.leaseOver(job.id());
    }
    List<Long> bad = claimed.stream().map(Claimed::id).sorted().limit(2).toList();
    DB.execute("UPDATE waybill.jobs SET attempts = '5' WHERE id IN (?, ?)", bad.get(0), bad.get(1));
    assertEquals(Map.of("k", 8L), reaper.reap());
    assertEquals(Map.of(), reaper.reap());
    DB.execute(
        "UPDATE waybill.jobs SET attempts = NULL WHERE id IN (?, ?)", bad.get(0), bad.get(1));
    assertEquals(Map.of("k", 2L), reaper.reap());
  }

  /** Liveness must not end a beat that has much to do and a slow database. */
  @Test
  void a_beat_that_gets_on_slowly_turns() throws Exception {
    DB.enqueue("k", 40);
    for (Claimed job : jobs.claim("k", 40)) {
      jobs.leaseOver(job.id());
    }
    DB.execute(
        """
        CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.2); RAISE 'slow'; END $$
        """);
    DB.execute(
        "CREATE TRIGGER slow BEFORE UPDATE ON waybill.jobs FOR EACH ROW EXECUTE FUNCTION public.slow()");
    try {
      var beat = CompletableFuture.supplyAsync(this::reapAll);
      while (!beat.isDone()) {
        // All of them take eight seconds and more, and a stall of this machine less.
        assertTrue(reaper.turnsWithin(Duration.ofSeconds(6)));
        TimeUnit.MILLISECONDS.sleep(5);
      }
      assertEquals(0, beat.join());
    } finally {
      DB.execute("DROP FUNCTION public.slow() CASCADE");
    }
    assertEquals(Map.of("k", 40L), reaper.reap());
  }

  @Test
  void reapers_of_many_pods_reap_each_job_once() throws Exception {
    DB.enqueue("k", 2_000);
    DB.execute(
        """
        UPDATE waybill.jobs SET state = 'running', token = gen_random_uuid(), worker = 'w', started_at = now(),
          lease_until = now() - interval '1 s', attempt = 1
        """);
    DB.noteClaims();
    var reapers =
        List.of(1, 2, 3, 4).stream()
            .map(_ -> CompletableFuture.supplyAsync(this::reapAll))
            .toList();
    assertEquals(2_000, reapers.stream().mapToLong(CompletableFuture::join).sum());
    assertEquals(2_000, DB.number("SELECT count(*) FROM waybill.jobs WHERE crashes = 1"));
  }

  private long reapAll() {
    try {
      return reaper.reap().getOrDefault("k", 0L);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  private boolean settle(Claimed job, Outcome outcome) {
    try {
      return jobs.settle(job, outcome);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void waitsForALock() {
    await()
        .until(() ->
            DB.number(
                    """
                    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                    """)
                > 0);
  }

  private static String statement(String constant) throws ReflectiveOperationException {
    var field = Reaper.class.getDeclaredField(constant);
    field.setAccessible(true);
    return (String) field.get(null);
  }
}
