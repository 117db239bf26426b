package dev.waybill.settle;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.db.Database;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.retain.Reaper;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Settling when the database is not as it should be. */
class TroubledSettleTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Settler settler = jobs.settler();

  private long rollbacksBefore;

  @BeforeEach
  void start() throws SQLException {
    rollbacksBefore = rollbacks();
    settler.start();
  }

  @AfterEach
  void stop() throws Exception {
    settler.stop();
    refuseNoMore();
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

  /** A month without maintenance; and whoever cancels may execute functions and nothing else. */
  @Test
  void a_producer_cancels_on_a_day_without_a_partition() throws SQLException {
    Claimed running = jobs.running("k");
    long other = DB.enqueue("k");
    dropPartitions();
    try (Connection producer = DB.connect()) {
      TestDatabase.execute(producer, "SET ROLE waybill_producer");
      assertEquals(
          List.of("t"), TestDatabase.column(producer, "SELECT waybill.cancel(?)", running.id()));
      assertEquals(List.of("t"), TestDatabase.column(producer, "SELECT waybill.cancel(?)", other));
      assertEquals(List.of("f"), TestDatabase.column(producer, "SELECT waybill.cancel(?)", other));
      TestDatabase.execute(producer, "RESET ROLE");
    }
    assertEquals("cancelled", DB.state(running.id()));
    assertEquals("cancelled", DB.state(other));
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.make_partitions()"), "made already");
  }

  /** Whoever settles need not own the tables. */
  @Test
  void one_who_may_create_nothing_makes_the_missing_partition_all_the_same() throws Exception {
    dropPartitions();
    String role = "settler_" + DB.text("SELECT current_database()");
    try (Connection connection = DB.connect()) {
      TestDatabase.execute(connection, "CREATE ROLE " + role);
      TestDatabase.execute(connection, "GRANT USAGE ON SCHEMA waybill TO " + role);
      TestDatabase.execute(
          connection, "GRANT EXECUTE ON FUNCTION waybill.make_partitions(integer) TO " + role);
      TestDatabase.execute(connection, "SET ROLE " + role);
      assertTrue(Statements.makePartitions(connection));
      TestDatabase.execute(connection, "RESET ROLE");
      TestDatabase.execute(connection, "DROP OWNED BY " + role);
      TestDatabase.execute(connection, "DROP ROLE " + role);
    }
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, TestJobs.settle(settler, job, Outcome.done()));
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
  void what_the_database_cannot_take_now_is_tried_again() throws SQLException {
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
  private long failedSettles() throws SQLException {
    return rollbacks() - rollbacksBefore;
  }

  private static long rollbacks() throws SQLException {
    return DB.number(
        "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()");
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
      late = TestJobs.handExpected(settler, locked, Outcome.done());
      CompletableFuture<Settled> prompt = TestJobs.handExpected(settler, other, Outcome.done());
      assertEquals(Settled.SETTLED, prompt.join());
      assertEquals("done", DB.state(other.id()));
      canceller.rollback();
    }
    assertEquals(Settled.SETTLED, late.join());
    assertEquals("done", DB.state(locked.id()));
  }

  /** Refuses to keep jobs that say so in their payload, as a trigger of somebody's may. */
  private static void refuse(String what) throws SQLException {
    DB.execute(
        """
        CREATE FUNCTION waybill.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'refused'; END $$
        """);
    DB.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON waybill.jobs_done FOR EACH ROW WHEN ("
            + what
            + ") EXECUTE FUNCTION waybill.refuse()");
  }

  private static void refuseNoMore() throws SQLException {
    DB.execute("DROP FUNCTION IF EXISTS waybill.refuse() CASCADE");
  }

  private CompletableFuture<Settled> handOver(Claimed job, long leaseEndNanos) {
    var told = new CompletableFuture<Settled>();
    settler.expect(1);
    settler.settle(job, Outcome.done(), TestJobs.holder(leaseEndNanos, false, told));
    return told.orTimeout(60, TimeUnit.SECONDS);
  }

  @Test
  void an_outcome_is_tried_again_after_its_lease_is_over_as_long_as_nobody_has_the_job()
      throws SQLException {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    refuse("true");
    CompletableFuture<Settled> told;
    try {
      told = handOver(job, System.nanoTime() - 1);
      await().until(() -> failedSettles() > 3);
      assertFalse(told.isDone());
    } finally {
      refuseNoMore();
    }
    assertEquals(Settled.SETTLED, told.join());
    assertEquals("done", DB.state(job.id()));
  }

  @Test
  void an_outcome_is_not_tried_any_more_once_somebody_else_has_the_job() throws SQLException {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    refuse("true");
    try {
      CompletableFuture<Settled> told = handOver(job, System.nanoTime() - 1);
      await().until(() -> failedSettles() > 2);
      new Reaper(DB.database()).reap();
      assertEquals(Settled.LOST, told.join());
    } finally {
      refuseNoMore();
    }
    assertEquals("ready", DB.state(job.id()));
  }

  @Test
  void an_outcome_is_given_up_ten_minutes_after_its_lease() throws SQLException {
    Claimed job = jobs.running("k");
    refuse("true");
    try {
      assertEquals(
          Settled.GIVEN_UP,
          handOver(job, System.nanoTime() - Duration.ofMinutes(10).toNanos()).join());
    } finally {
      refuseNoMore();
    }
    assertEquals("running", DB.state(job.id()));
  }

  @Test
  void a_stop_gives_up_what_cannot_be_written_and_does_not_wait_for_long() throws Exception {
    Claimed job = jobs.running("k");
    refuse("true");
    try {
      CompletableFuture<Settled> told = handOver(job, job.leaseEndNanos());
      // Five seconds. Its lease would last for thirty, and ten minutes more.
      assertTimeout(Duration.ofSeconds(20), settler::stop);
      assertEquals(Settled.GIVEN_UP, told.join());
    } finally {
      refuseNoMore();
    }
    assertEquals("running", DB.state(job.id()));
  }

  /** More of them than there are threads, and each alone among good ones. */
  @Test
  void outcomes_in_trouble_keep_nobody_else_waiting() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, payload) SELECT 'k', to_jsonb(n % 50 = 0) FROM generate_series(1, 400) n
        """);
    var troubled = new ArrayList<CompletableFuture<Settled>>();
    refuse("NEW.payload = 'true'");
    try {
      var good = new ArrayList<CompletableFuture<Settled>>();
      for (Claimed job : jobs.claim("k", 400)) {
        (job.payload().equals("true") ? troubled : good).add(handOver(job, job.leaseEndNanos()));
      }
      good.forEach(told -> assertEquals(Settled.SETTLED, told.join()));
      assertEquals(392, DB.number("SELECT count(*) FROM waybill.jobs_done"));
      // What comes now does not even notice.
      for (int i = 0; i < 20; i++) {
        Claimed next = jobs.running("k");
        assertEquals(Settled.SETTLED, handOver(next, next.leaseEndNanos()).join());
      }
      assertTrue(troubled.stream().noneMatch(CompletableFuture::isDone));
    } finally {
      refuseNoMore();
    }
    troubled.forEach(told -> assertEquals(Settled.SETTLED, told.join()));
  }

  @Test
  void a_table_that_is_away_stops_only_the_outcomes_that_need_it() throws SQLException {
    Claimed done = jobs.running("k");
    Claimed failed = jobs.running("k");
    DB.execute("ALTER TABLE waybill.jobs_done RENAME TO away");
    CompletableFuture<Settled> late;
    try {
      late = handOver(done, done.leaseEndNanos());
      assertEquals(Settled.SETTLED, TestJobs.settle(settler, failed, Outcome.retry("try again")));
      assertFalse(late.isDone());
    } finally {
      DB.execute("ALTER TABLE waybill.away RENAME TO jobs_done");
    }
    assertEquals(Settled.SETTLED, late.join());
  }

  /** After a failover: the connections lead to a server that is a standby now. */
  @Test
  void connections_to_a_server_that_became_read_only_are_replaced() throws Exception {
    DB.enqueue("k", 20);
    List<Claimed> claimed = jobs.claim("k", 20);
    String name = DB.text("SELECT current_database()");
    try (var pool = DB.apart("demoted")) {
      DB.execute("ALTER DATABASE " + name + " SET default_transaction_read_only = on");
      try {
        new Database(pool).run(c -> TestDatabase.column(c, "SELECT 1"));
      } finally {
        DB.execute("ALTER DATABASE " + name + " RESET default_transaction_read_only");
      }
      var settlerThere =
          new Settler(new Database(pool), jobs.policies(), new ResultWriter(new ObjectMapper()));
      settlerThere.start();
      claimed.stream()
          .map(job -> TestJobs.hand(settlerThere, job, Outcome.done()))
          .forEach(told -> assertEquals(Settled.SETTLED, told.join()));
      settlerThere.stop();
    }
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
