package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A database that is there and does not answer, or has no room, or cannot clean up. How long:
 * {@code -Dwaybill.test.outage.seconds=120}.
 */
@ExtendWith(Processes.class)
final class OutageIT {

  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Duration OUTAGE =
      Duration.ofSeconds(Integer.getInteger("waybill.test.outage.seconds", 20));
  private static final int SLOTS = 16;

  /** Looks at liveness all the time, from a thread of its own. */
  private static final class Pulse implements AutoCloseable {
    private final AtomicBoolean over = new AtomicBoolean();
    private final List<String> dead = new ArrayList<>();
    private final Thread thread;

    Pulse(ServiceProcess process) {
      long start = System.nanoTime();
      thread =
          Thread.ofPlatform()
              .start(() -> {
                while (!over.get()) {
                  if (!process.isLive()) {
                    dead.add("after " + (System.nanoTime() - start) / 1_000_000 + " ms");
                  }
                  pause();
                }
              });
    }

    private static void pause() {
      try {
        TimeUnit.MILLISECONDS.sleep(200);
      } catch (InterruptedException _) {
        Thread.currentThread().interrupt();
      }
    }

    @Override
    public void close() {
      over.set(true);
      try {
        thread.join();
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
      assertEquals(List.of(), dead, "liveness failed");
    }
  }

  private static void awaitReadyWithin(ServiceProcess process, Duration limit) {
    long start = System.nanoTime();
    Awaitility.await("ready again").atMost(limit).until(process::isReady);
    System.out.printf(
        "OutageIT: ready again %d ms after the end of %s%n",
        (System.nanoTime() - start) / 1_000_000, OUTAGE);
  }

  private static void outage(ServiceProcess process) throws Exception {
    long end = System.nanoTime() + OUTAGE.toNanos();
    Awaitility.await("not ready").atMost(Duration.ofSeconds(15)).until(() -> !process.isReady());
    while (System.nanoTime() < end) {
      assertTrue(!process.isReady() && process.isAlive());
      TimeUnit.MILLISECONDS.sleep(200);
    }
  }

  private static void awaitRunning(TestDatabase database, int jobs) {
    Awaitility.await(jobs + " running")
        .atMost(PATIENCE)
        .until(() ->
            database.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running'") >= jobs);
  }

  /**
   * Jobs of every length run when the packets begin to vanish; producers go on meanwhile. What ran
   * may run once more when its lease was over; nothing else may, and no attempt is used twice.
   */
  @Test
  void a_black_holed_database_costs_nothing_but_time() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    database.policy("sleep", "lease_ms = 5000");
    database.policy("echo", "lease_ms = 5000");
    try (var proxy = new CuttingProxy(TestPostgres.shared().port())) {
      ServiceProcess process =
          ServiceProcess.on(database.through(proxy.port()))
              .with("WAYBILL_POOLS", "default=*:" + SLOTS)
              .startReady();
      var log = new EnqueueLog();
      List<Long> sleepers = new ArrayList<>();
      try (var _ = new Load(log, "echo", "").bySql(database, 10)) {
        for (int ms : new int[] {1_000, 4_000, 9_000, 15_000}) {
          sleepers.addAll(database.enqueueMany("sleep", "{\"ms\": " + ms + "}", 3));
        }
        awaitRunning(database, 12);
        try (var _ = new Pulse(process)) {
          proxy.swallow();
          outage(process);
          proxy.swallowNoMore();
          awaitReadyWithin(process, Duration.ofSeconds(30));
        }
        int before = log.size();
        Awaitility.await("load").atMost(PATIENCE).until(() -> log.size() > before + 100);
      }
      sleepers.forEach(id -> log.acknowledged(id, -1));
      Invariants.check(database, log);
      assertEquals(0, database.number("SELECT count(*) FROM waybill.jobs_dead"));
      long again = database.number("SELECT count(*) FROM waybill.jobs_done WHERE attempt > 1");
      System.out.printf(
          "OutageIT: %d jobs, %d of them needed another attempt%n", log.size(), again);
      assertTrue(again <= SLOTS, again + " jobs needed another attempt, more than there are slots");
      assertEquals(0, database.number("SELECT count(*) FROM waybill.jobs_done WHERE attempt > 2"));
    }
  }

  @Test
  void a_database_stopped_in_mid_air_leaves_the_service_alive() throws Exception {
    try (TestPostgres cluster = TestPostgres.own()) {
      TestDatabase database = cluster.newDatabase();
      ServiceProcess process = ServiceProcess.on(database).startReady();
      List<Long> ids = new ArrayList<>(database.enqueueMany("sleep", "{\"ms\": 2000}", 5));
      awaitRunning(database, 5);
      try (var _ = new Pulse(process)) {
        cluster.freeze();
        try {
          outage(process);
        } finally {
          cluster.thaw();
        }
        awaitReadyWithin(process, Duration.ofSeconds(30));
      }
      ids.add(database.enqueue("echo", "{}"));
      Invariants.check(database, EnqueueLog.of(ids));
      assertEquals(0, database.number("SELECT count(*) FROM waybill.jobs_dead"));
    }
  }

  /**
   * Somebody takes every connection that the server has, and the engine's own are ended as well:
   * only the heartbeat's is left, and it is enough to keep the leases.
   */
  @Test
  void leases_outlive_a_server_without_connections() throws Exception {
    try (TestPostgres cluster = TestPostgres.own(40)) {
      TestDatabase database = cluster.newDatabase();
      database.policy("sleep", "lease_ms = 5000");
      ServiceProcess process = ServiceProcess.on(database).startReady();
      List<Long> ids = new ArrayList<>(database.enqueueMany("sleep", "{\"ms\": 25000}", 5));
      awaitRunning(database, 5);
      var taken = new ArrayList<Connection>();
      try (var _ = new Pulse(process)) {
        takeAll(database, taken);
        for (int round = 0; round < 9; round++) { // Longer than a lease.
          endEngine(taken.getFirst());
          takeAll(database, taken);
          TimeUnit.SECONDS.sleep(1);
        }
        Awaitility.await("not ready").atMost(PATIENCE).until(() -> !process.isReady());
        assertTrue(
            database(taken.getFirst(), "SELECT bool_and(lease_until > now()) FROM waybill.jobs")
                .equals("t"),
            "leases are kept");
        for (Connection connection : taken) {
          connection.close();
        }
        awaitReadyWithin(process, Duration.ofSeconds(30));
      }
      ids.add(database.enqueue("echo", "{}"));
      Invariants.check(database, EnqueueLog.of(ids));
      assertEquals(
          0,
          database.number(
              "SELECT count(*) FROM waybill.jobs_done WHERE attempt <> 1 OR crashes <> 0"));
      assertEquals(0, process.rest().metric("waybill_lease_lost_total"));
    }
  }

  private static void takeAll(TestDatabase database, List<Connection> taken) {
    while (true) {
      try {
        taken.add(database.connect());
      } catch (SQLException full) {
        assertEquals("53300", full.getSQLState());
        return;
      }
    }
  }

  private static void endEngine(Connection connection) throws SQLException {
    var _ =
        database(
            connection,
            """
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name IN ('waybill', 'waybill engine', 'waybill listener')
            """);
  }

  private static String database(Connection connection, String sql) throws SQLException {
    try (var statement = connection.createStatement();
        var rows = statement.executeQuery(sql)) {
      rows.next();
      return String.valueOf(rows.getString(1));
    }
  }

  /** A forgotten transaction keeps every dead row and every dead index entry alive. */
  @Test
  void a_held_snapshot_does_not_slow_claims_down() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    ServiceProcess process = ServiceProcess.on(database).startReady();
    List<Long> ids = new ArrayList<>(database.enqueueMany("echo", "{}", 5_000));
    Invariants.awaitDrained(database);
    try (Connection forgotten = database.connect()) {
      forgotten.setAutoCommit(false);
      forgotten.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      assertEquals("t", database(forgotten, "SELECT count(*) >= 0 FROM waybill.jobs"));
      var claims = new ArrayList<Double>();
      for (int round = 0; round < 6; round++) {
        double seconds = process.rest().metric("waybill_claim_seconds_sum");
        double n = process.rest().metric("waybill_claim_seconds_count");
        ids.addAll(database.enqueueMany("echo", "{}", 10_000));
        Invariants.awaitDrained(database);
        claims.add(
            1_000
                * (process.rest().metric("waybill_claim_seconds_sum") - seconds)
                / (process.rest().metric("waybill_claim_seconds_count") - n));
      }
      System.out.printf(
          "OutageIT: mean claim under a held snapshot, ms by 10,000 jobs: %s%n", claims);
      // Of two each, in one of which this machine may have stood still.
      double first = Math.min(claims.get(0), claims.get(1));
      double last = Math.min(claims.get(4), claims.get(5));
      assertTrue(last < 3 * first + 5, claims::toString);
      forgotten.rollback();
    }
    Invariants.check(database, EnqueueLog.of(ids));
  }
}
