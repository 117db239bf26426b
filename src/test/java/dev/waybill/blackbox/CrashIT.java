package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import dev.waybill.blackbox.CuttingProxy.Moment;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Processes that vanish, freeze and are replaced; connections and databases that break. Each test
 * ends with the invariants.
 */
@ExtendWith(Processes.class)
final class CrashIT {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /** More with {@code -Dwaybill.test.kills=300}: see CONTRIBUTING.md. */
  private static final int ROUNDS = Integer.getInteger("waybill.test.kills", 10);

  private static final String RUNNING_AT =
      "SELECT count(*) FROM waybill.jobs WHERE state = 'running' AND worker = ?";

  private TestDatabase database = TestPostgres.shared().database("postgres");

  @BeforeEach
  void newDatabase() throws SQLException {
    database = TestPostgres.shared().newDatabase();
    // Short, and longer than a machine stands still that others use as well.
    database.policy("sleep", "lease_ms = 5000");
    database.policy("echo", "lease_ms = 5000");
  }

  private ServiceProcess.Plan service() {
    return ServiceProcess.on(database);
  }

  private void awaitRunningAt(ServiceProcess process, int jobs) {
    Awaitility.await(jobs + " running at " + process.worker())
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(10))
        .until(() -> database.number(RUNNING_AT, process.worker()) >= jobs);
  }

  private void awaitState(long id, String state) {
    Awaitility.await("job " + id)
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(20))
        .untilAsserted(() -> assertEquals(state, database.state(id)));
  }

  private JsonNode job(ServiceProcess process, long id) throws Exception {
    return process.rest().job(id);
  }

  // ---------------------------------------------------------------------------------- processes

  @Test
  void jobs_of_a_killed_process_run_again_and_each_is_settled_once() throws Exception {
    var log = new EnqueueLog();
    ServiceProcess victim = service().startReady();
    ServiceProcess survivor = service().startReady();
    try (var _ = new Load(log, "sleep", "\"ms\": 15").bySql(database, 1)) {
      for (int round = 0; round < ROUNDS; round++) {
        awaitRunningAt(victim, 2);
        victim.kill9();
        victim = service().startReady();
      }
    }
    Invariants.check(database, log);
    long crashes = database.number("SELECT sum(crashes) FROM waybill.jobs_done");
    System.out.printf(
        "CrashIT: %d kills, %d jobs acknowledged, %d attempts crashed%n",
        ROUNDS, log.size(), crashes);
    assertTrue(crashes > 0);
    assertEquals(
        List.of(),
        database.texts("SELECT id FROM waybill.all_jobs WHERE attempt <> 1 + crashes"),
        "a crash is no failure, and nothing else took an attempt");
    assertEquals(0, survivor.rest().metric("waybill_lease_lost_total"));
  }

  @Test
  void a_holder_that_froze_past_its_lease_changes_nothing_when_it_wakes() throws Exception {
    List<ServiceProcess> both = List.of(service().start(), service().start());
    both.forEach(ServiceProcess::awaitReady);
    long id = database.enqueue("sleep", "{\"ms\": 8000}");
    awaitState(id, "running");
    String first = database.text("SELECT worker FROM waybill.jobs WHERE id = ?", id);
    ServiceProcess frozen = both.get(both.get(0).worker().equals(first) ? 0 : 1);
    ServiceProcess other = both.get(both.get(0).worker().equals(first) ? 1 : 0);
    frozen.stop();
    awaitRunningAt(other, 1);

    // It wakes in the middle of the other's run, and settles or gives back what is not its own.
    frozen.cont();
    Awaitility.await("the late holder learns that the lease is lost")
        .atMost(PATIENCE)
        .until(() -> frozen.rest().metric("waybill_lease_lost_total") >= 1);
    awaitState(id, "done");
    assertTrue(
        database.truth(
            "SELECT finished_at - started_at > interval '7900 ms' FROM waybill.jobs_done WHERE id = ?",
            id),
        "done when its holder was done, not when the late one woke");
    JsonNode job = job(other, id);
    assertEquals(2, job.get("attempt").asInt(), job::toString);
    assertEquals(1, job.get("crashes").asInt(), job::toString);
    assertEquals(other.worker(), job.get("worker").asText(), job::toString);
    assertEquals(first, job.at("/attempts/0/worker").asText(), job::toString);
    assertEquals("crashed", job.at("/attempts/0/outcome").asText(), job::toString);

    // It is of use again.
    long next = database.enqueue("echo", "{}");
    awaitState(next, "done");
    Awaitility.await("ready again").atMost(PATIENCE).until(frozen::isReady);
    Invariants.check(database, EnqueueLog.of(List.of(id, next)));
  }

  @Test
  void a_frozen_holder_whose_job_waits_for_its_next_run_settles_nothing() throws Exception {
    ServiceProcess frozen = service().with("WAYBILL_ROLES", "api,worker").startReady();
    ServiceProcess reaper = service().with("WAYBILL_ROLES", "api,maintenance").startReady();
    // Longer than it takes to freeze it, and over when it wakes: less than its lease.
    long id = database.enqueue("sleep", "{\"ms\": 4000}");
    awaitState(id, "running");
    frozen.stop();
    awaitState(id, "ready");
    frozen.cont();
    Invariants.check(database, EnqueueLog.of(List.of(id)));
    JsonNode job = job(frozen, id);
    assertEquals(2, job.get("attempt").asInt(), job::toString);
    assertEquals(1, job.get("crashes").asInt(), job::toString);
    assertTrue(reaper.isAlive());
  }

  @Test
  void a_long_job_keeps_its_lease_while_its_holder_lives() throws Exception {
    ServiceProcess process = service().startReady();
    List<Long> ids = database.enqueueMany("sleep", "{\"ms\": 14000}", 20);
    Invariants.check(database, EnqueueLog.of(ids));
    assertEquals(0, database.number("SELECT sum(crashes) FROM waybill.all_jobs"));
    assertEquals(0, process.rest().metric("waybill_lease_lost_total"));
  }

  @Test
  void a_job_that_kills_its_process_dies_at_its_limit_and_its_neighbours_do_not() throws Exception {
    ServiceProcess process = service().startReady();
    long poison =
        database.number(
            "SELECT waybill.enqueue('sleep', '{\"ms\": 600000}', max_attempts => 2, priority => -1)");
    List<Long> neighbours = database.enqueueMany("sleep", "{\"ms\": 3000}", 3);
    List<Long> all = new ArrayList<>(neighbours);
    all.add(poison);

    // What a handler that kills its process looks like from outside.
    awaitRunningAt(process, 4);
    process.kill9();
    process = service().startReady();
    Awaitility.await("the neighbours are done")
        .atMost(PATIENCE)
        .until(() ->
            database.number("SELECT count(*) FROM waybill.jobs_done WHERE kind = 'sleep'") == 3);
    awaitRunningAt(process, 1);
    process.kill9();
    process = service().startReady();
    awaitState(poison, "dead");

    JsonNode dead = job(process, poison);
    assertEquals(2, dead.get("attempt").asInt(), dead::toString);
    assertEquals(2, dead.get("crashes").asInt(), dead::toString);
    assertEquals("crashed", dead.at("/attempts/1/outcome").asText(), dead::toString);
    for (long id : neighbours) {
      assertEquals(1, job(process, id).get("crashes").asInt(), job(process, id)::toString);
    }
    Invariants.check(database, EnqueueLog.of(all));
  }

  @Test
  void a_drain_gives_back_what_does_not_finish_in_time() throws Exception {
    ServiceProcess process = service().with("WAYBILL_DRAIN", "8s").startReady();
    long id = database.enqueue("sleep", "{\"ms\": 600000}");
    long quick = database.enqueue("sleep", "{\"ms\": 3000}");
    awaitRunningAt(process, 2);
    process.term();
    Awaitility.await("it is not ready while it drains, and it lives")
        .atMost(PATIENCE)
        .until(() -> !process.isReady());
    assertTrue(List.of(0, 143).contains(process.exitCode()), process.output());

    assertEquals("done", database.state(quick));
    assertEquals("ready", database.state(id));
    assertEquals(
        "0 0 release",
        database.text(
            "SELECT attempt || ' ' || crashes || ' ' || (attempts->0->>'outcome') FROM waybill.jobs WHERE id = ?",
            id));
    assertTrue(database.truth("SELECT waybill.cancel(?)", id));
    Invariants.check(database, EnqueueLog.of(List.of(id, quick)));
  }

  @Test
  void a_rolling_restart_under_load_burns_no_attempt() throws Exception {
    var log = new EnqueueLog();
    var front = new AtomicReference<>(service().startReady());
    ServiceProcess other = service().startReady();
    try (var _ = new Load(log, "sleep", "\"ms\": 60").bySql(database, 3).byRest(front::get, 10)) {
      for (int round = 0; round < 2; round++) {
        ServiceProcess next = service().startReady();
        ServiceProcess old = other;
        awaitRunningAt(old, 1);
        other = front.getAndSet(next);
        old.term();
        assertTrue(List.of(0, 143).contains(old.exitCode()), old.output());
      }
    }
    Invariants.check(database, log);
    assertEquals(
        List.of(),
        database.texts("SELECT id FROM waybill.all_jobs WHERE attempt <> 1 OR crashes <> 0"));
    assertEquals(List.of(), List.copyOf(log.unanswered()), "no request was turned away");
  }

  @Test
  void eight_claimers_settle_each_of_many_jobs_once() throws Exception {
    List<Long> ids = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      ids.addAll(database.enqueueMany("echo", "{}", 10_000));
      ids.addAll(database.enqueueMany("sleep", "{\"ms\": 0}", 10_000));
    }
    database.policy("sleep", "lease_ms = NULL");
    database.policy("echo", "lease_ms = NULL");
    List<ServiceProcess> four = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      four.add(service().with("WAYBILL_POOLS", "a=echo:64;b=sleep:64").start());
    }
    four.forEach(ServiceProcess::awaitReady);
    Invariants.check(database, EnqueueLog.of(ids));
    assertEquals(
        List.of("echo 100000", "sleep 100000"),
        database.texts(
            "SELECT kind || ' ' || count(*) FROM waybill.jobs_done WHERE attempt = 1 AND crashes = 0 GROUP BY kind ORDER BY kind"));
    double settled = 0;
    for (ServiceProcess process : four) {
      settled += process.rest().metric("waybill_settled_total");
      assertEquals(0, process.rest().metric("waybill_lease_lost_total"));
    }
    assertEquals(200_000, settled);
  }

  // ------------------------------------------------------------------- connections and databases

  @Test
  void an_immediate_stop_of_the_database_loses_nothing_acknowledged() throws Exception {
    try (TestPostgres cluster = TestPostgres.own()) {
      database = cluster.newDatabase();
      database.policy("echo", "lease_ms = 2000");
      var log = new EnqueueLog();
      ServiceProcess process = service().startReady();
      try (var _ = new Load(log, "echo", "").bySql(database, 2).byRest(() -> process, 5)) {
        for (int round = 0; round < 2; round++) {
          int before = log.size();
          Awaitility.await("load").atMost(PATIENCE).until(() -> log.size() > before + 100);
          cluster.stopImmediately();
          Awaitility.await("not ready")
              .atMost(PATIENCE)
              .until(() -> {
                assertTrue(process.isLive(), "an outage is no reason to restart");
                return !process.isReady();
              });
          cluster.startAgain();
          Awaitility.await("recovers by itself")
              .atMost(Duration.ofSeconds(30))
              .until(process::isReady);
          assertTrue(process.isLive());
        }
        int before = log.size();
        Awaitility.await("load").atMost(PATIENCE).until(() -> log.size() > before + 100);
      }
      Invariants.check(database, log);
      assertEquals(0, database.number("SELECT count(*) FROM waybill.jobs_dead"));
      countedAgain();
    }
  }

  private static final String WHOLE = "SELECT EXISTS (SELECT FROM waybill.arrivals_whole)";

  private void countedAgain() throws SQLException {
    Awaitility.await("what came is counted again")
        .atMost(PATIENCE)
        .until(() -> database.truth(WHOLE));
    assertEquals(List.of(), database.texts("SELECT detail FROM waybill.audit() WHERE NOT ok"));
  }

  /** It is in no table when the server comes back, and then it is. */
  @Test
  void what_commits_after_a_crash_that_it_was_prepared_before_is_counted() throws Exception {
    try (TestPostgres cluster = TestPostgres.own(50, Map.of("max_prepared_transactions", "5"))) {
      database = cluster.newDatabase();
      ServiceProcess process = service().startReady();
      try (Connection connection = database.connect();
          Statement statement = connection.createStatement()) {
        connection.setAutoCommit(false);
        statement.execute("SELECT waybill.enqueue('echo')");
        statement.execute("PREPARE TRANSACTION 'half'");
      }
      cluster.stopImmediately();
      Awaitility.await("not ready").atMost(PATIENCE).until(() -> !process.isReady());
      cluster.startAgain();
      process.awaitReady();
      TimeUnit.SECONDS.sleep(12); // The folder comes by every ten.
      assertFalse(database.truth(WHOLE));
      database.execute("COMMIT PREPARED 'half'");
      countedAgain();
      assertEquals(
          1, database.number("SELECT sum(n) FROM waybill.counts WHERE what = 'recounted'"));
    }
  }

  @Test
  void terminated_backends_cost_nothing_acknowledged() throws Exception {
    var log = new EnqueueLog();
    ServiceProcess process = service().startReady();
    try (var _ = new Load(log, "echo", "").bySql(database, 1).byRest(() -> process, 5)) {
      for (int kill = 0; kill < 30; kill++) {
        int before = log.size();
        Awaitility.await("load").atMost(PATIENCE).until(() -> log.size() > before + 20);
        database.execute(
            """
            SELECT pg_terminate_backend(pid) FROM (
              SELECT pid FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = 'waybill' ORDER BY random() LIMIT 2) victim
            """);
      }
    }
    Invariants.check(database, log);
    assertEquals(0, database.number("SELECT count(*) FROM waybill.jobs_dead"));
    Awaitility.await("ready").atMost(PATIENCE).until(process::isReady);
  }

  @Test
  void a_settle_whose_answer_is_lost_counts_once() throws Exception {
    ServiceProcess process =
        drainWhileCutting(sql -> sql.equals("COMMIT"), Moment.AFTER_IT_WAS_DONE);
    assertEquals(
        List.of(),
        database.texts("SELECT id FROM waybill.all_jobs WHERE attempt <> 1 OR crashes <> 0"),
        "a settle that arrived needs no second run");
    assertEquals(0, process.rest().metric("waybill_lease_lost_total"), "and is no lost lease");
  }

  @Test
  void a_settle_that_never_arrived_is_sent_again() throws Exception {
    var _ = drainWhileCutting(sql -> sql.equals("COMMIT"), Moment.BEFORE_IT_ARRIVES);
    assertEquals(
        List.of(),
        database.texts("SELECT id FROM waybill.all_jobs WHERE attempt <> 1 OR crashes <> 0"),
        "the outcome was kept while the lease lasted");
  }

  @Test
  void a_claim_whose_answer_is_lost_is_a_crash_and_its_jobs_run_again() throws Exception {
    var _ =
        drainWhileCutting(sql -> sql.contains("SET state = 'running'"), Moment.AFTER_IT_WAS_DONE);
    assertEquals(
        List.of(), database.texts("SELECT id FROM waybill.all_jobs WHERE attempt <> 1 + crashes"));
    assertTrue(database.number("SELECT sum(crashes) FROM waybill.all_jobs") > 0);
  }

  /** Every third of these statements ends its connection, five times. */
  private ServiceProcess drainWhileCutting(
      java.util.function.Predicate<String> statement, Moment moment) throws Exception {
    database.policy("echo", "lease_ms = 5000");
    try (var proxy = new CuttingProxy(TestPostgres.shared().port())) {
      ServiceProcess process = ServiceProcess.on(database.through(proxy.port())).startReady();
      var log = new EnqueueLog();
      proxy.cut(statement, moment, 3);
      try (var _ = new Load(log, "echo", "").bySql(database, 3)) {
        Awaitility.await("cuts").atMost(PATIENCE).until(() -> proxy.cuts() >= 5);
        proxy.cutNoMore();
        int before = log.size();
        Awaitility.await("load").atMost(PATIENCE).until(() -> log.size() > before + 50);
      }
      Invariants.check(database, log);
      Awaitility.await("ready").atMost(PATIENCE).until(process::isReady);
      return process;
    }
  }
}
