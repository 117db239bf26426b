package dev.waybill.settle;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.db.Database;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Settling when the database is not as it should be. */
class TroubledSettleTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Settler settler = jobs.settler();

  @BeforeEach
  void start() {
    settler.start();
  }

  @AfterEach
  void stop() throws Exception {
    settler.stop();
    DB.execute("SELECT waybill.make_partitions()");
    DB.auditIsClean();
  }

  private static void dropPartitions() throws SQLException {
    for (var name :
        DB.column(
            """
            SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'waybill.jobs_done'::regclass
            """)) {
      DB.execute("DROP TABLE " + name);
    }
  }

  @Test
  void a_missing_partition_is_made_and_no_job_is_lost() throws SQLException {
    DB.enqueue("k", 20);
    var claimed = jobs.claim("k", 20);
    dropPartitions();
    var told = claimed.stream().map(job -> TestJobs.hand(settler, job, Outcome.done())).toList();
    told.forEach(t -> assertEquals(Settled.SETTLED, t.join()));
    assertEquals(20, DB.number("SELECT count(*) FROM waybill.jobs_done WHERE state = 'done'"));
  }

  @Test
  void a_missing_partition_fails_the_handlers_transaction_but_not_its_next_try()
      throws SQLException {
    Claimed job = jobs.running("k");
    dropPartitions();
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      assertThrows(SQLException.class, () -> settler.settleIn(connection, job, Outcome.done()));
      connection.rollback();
      assertTrue(settler.settleIn(connection, job, Outcome.done()));
      connection.commit();
      connection.setAutoCommit(true);
    }
    assertEquals("done", DB.state(job.id()));
  }

  /** A done job must not become a dead letter because the table is away. */
  @Test
  void what_the_database_cannot_take_now_is_tried_again_while_the_lease_lasts()
      throws SQLException {
    Claimed job = jobs.running("k");
    DB.execute("ALTER TABLE waybill.jobs_done RENAME TO away");
    CompletableFuture<Settled> told;
    try {
      told = TestJobs.hand(settler, job, Outcome.done());
      await().until(() -> failedSettles() > 1);
    } finally {
      DB.execute("ALTER TABLE waybill.away RENAME TO jobs_done");
    }
    assertEquals(Settled.SETTLED, told.join());
    assertEquals("done", DB.state(job.id()));
  }

  /** The connection whose last statement failed goes on with ROLLBACK: the settler was there. */
  private static long failedSettles() throws SQLException {
    return DB.number(
        """
        SELECT sessions_fatal + xact_rollback FROM pg_stat_database WHERE datname = current_database()
        """);
  }

  @Test
  void a_row_that_somebody_locks_does_not_keep_the_rest_of_its_batch_waiting() throws SQLException {
    Claimed locked = jobs.running("k");
    Claimed other = jobs.running("k");
    CompletableFuture<Settled> late;
    try (Connection canceller = DB.connect()) {
      canceller.setAutoCommit(false);
      TestDatabase.execute(canceller, "SELECT waybill.cancel(" + locked.id() + ")");
      settler.expect(2);
      late = new CompletableFuture<>();
      var prompt = new CompletableFuture<Settled>();
      settler.settle(locked, Outcome.done(), locked.leaseEndNanos(), late::complete);
      settler.settle(other, Outcome.done(), other.leaseEndNanos(), prompt::complete);
      assertEquals(Settled.SETTLED, prompt.join());
      assertEquals("done", DB.state(other.id()));
      canceller.rollback();
    }
    assertEquals(Settled.SETTLED, late.join());
    assertEquals("done", DB.state(locked.id()));
  }

  @Test
  void an_outcome_is_given_up_when_its_lease_is_over_and_the_job_stays_for_the_reaper()
      throws SQLException {
    Claimed job = jobs.running("k");
    DB.execute("ALTER TABLE waybill.jobs_done RENAME TO away");
    try {
      settler.expect(1);
      var told = new CompletableFuture<Settled>();
      settler.settle(job, Outcome.done(), System.nanoTime(), told::complete);
      assertEquals(Settled.GIVEN_UP, told.join());
    } finally {
      DB.execute("ALTER TABLE waybill.away RENAME TO jobs_done");
    }
    assertEquals("running", DB.state(job.id()));
  }

  @Test
  void connections_that_break_are_replaced_and_nothing_is_lost() throws Exception {
    DB.enqueue("k", 300);
    try (var breaking = DB.apart("breaking")) {
      var troubled =
          new Settler(
              new Database(breaking), jobs.policies(), new ResultWriter(new ObjectMapper()));
      troubled.start();
      var told = new ArrayList<CompletableFuture<Settled>>();
      for (Claimed job : jobs.claim("k", 300)) {
        told.add(TestJobs.hand(troubled, job, Outcome.done()));
        DB.execute(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'breaking'
            """);
      }
      told.forEach(CompletableFuture::join);
      troubled.stop();
    }
    assertEquals(300, DB.number("SELECT count(*) FROM waybill.jobs_done WHERE state = 'done'"));
  }
}
