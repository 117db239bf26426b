package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** What holds over all processes on one database: caps, fairness, and that nothing is passed by. */
@ExtendWith(Processes.class)
final class ManyPodsIT {

  private TestDatabase database = TestPostgres.shared().database("postgres");

  @BeforeEach
  void newDatabase() throws SQLException {
    database = TestPostgres.shared().newDatabase();
  }

  private ServiceProcess.Plan service() {
    return ServiceProcess.on(database);
  }

  /** Looks all the time at what runs, in one snapshot each, and keeps the most that it saw. */
  private static final class Looker implements AutoCloseable {
    private static final String RUNNING =
        """
        SELECT coalesce(sum(n), 0), coalesce(max(n), 0)
        FROM (SELECT count(*) AS n FROM waybill.jobs WHERE state = 'running' GROUP BY tenant) t
        """;

    final AtomicInteger atOnce = new AtomicInteger();
    final AtomicInteger ofOneTenant = new AtomicInteger();
    private final AtomicReference<@Nullable SQLException> failure = new AtomicReference<>();
    private volatile boolean stopping;
    private final Thread thread;

    Looker(TestDatabase database) {
      thread = Thread.ofPlatform().start(() -> look(database));
    }

    private void look(TestDatabase database) {
      try (Connection connection = database.connect();
          PreparedStatement running = connection.prepareStatement(RUNNING)) {
        while (!stopping) {
          try (ResultSet row = running.executeQuery()) {
            row.next();
            atOnce.accumulateAndGet(row.getInt(1), Math::max);
            ofOneTenant.accumulateAndGet(row.getInt(2), Math::max);
          }
        }
      } catch (SQLException broken) {
        failure.set(broken);
      }
    }

    @Override
    public void close() throws SQLException {
      stopping = true;
      try {
        thread.join();
      } catch (InterruptedException interrupted) {
        throw new IllegalStateException(interrupted);
      }
      @Nullable SQLException broken = failure.get();
      if (broken != null) {
        throw broken;
      }
    }
  }

  @Test
  void caps_hold_over_all_processes_and_heal_when_one_is_killed() throws Exception {
    database.policy("sleep", "tenant_cap = 3, kind_cap = 10, lease_ms = 1500");
    List<Long> ids = new ArrayList<>();
    for (int tenant = 0; tenant < 6; tenant++) {
      ids.addAll(
          database.ids(
              "SELECT waybill.enqueue_many('sleep', array_fill('{\"ms\": 25}'::jsonb, ARRAY[100]), tenant => ?)",
              "t" + tenant));
    }
    var looker = new Looker(database);
    try (looker) {
      List<ServiceProcess> three = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        three.add(service().start());
      }
      three.forEach(ServiceProcess::awaitReady);
      Awaitility.await("some are done")
          .atMost(ServiceProcess.PATIENCE)
          .until(() -> database.number("SELECT count(*) FROM waybill.jobs_done") > 30);
      three.getFirst().kill9();
      Invariants.check(database, EnqueueLog.of(ids));
    }
    assertTrue(looker.ofOneTenant.get() <= 3, "of one tenant at once: " + looker.ofOneTenant);
    assertTrue(looker.atOnce.get() <= 10, "at once: " + looker.atOnce);
    assertTrue(looker.atOnce.get() >= 7, "the caps are made use of, at once: " + looker.atOnce);
  }

  @Test
  void a_rate_holds_over_all_processes() throws Exception {
    database.policy("echo", "rate_per_second = 20");
    List<ServiceProcess> two = List.of(service().start(), service().start());
    two.forEach(ServiceProcess::awaitReady);
    List<Long> ids = database.enqueueMany("echo", "{}", 120);
    Invariants.check(database, EnqueueLog.of(ids));
    long most =
        database.number(
            """
            SELECT max(n) FROM (
              SELECT count(*) OVER (ORDER BY started_at RANGE BETWEEN CURRENT ROW AND '1 second' FOLLOWING) AS n
              FROM waybill.jobs_done) t
            """);
    // What is begun by a claim that was held up counts from when that began: a bucket more now and
    // then. Each process by itself would begin 20, which makes 40.
    assertTrue(most <= 20 * 1.05 + 7, "begun in some second: " + most);
  }

  /** A slow handler and few slots, so that the flood takes far longer than the test. */
  @Test
  void a_flood_of_one_tenant_does_not_delay_another() throws Exception {
    database.execute(
        """
        INSERT INTO waybill.jobs (plain, kind, tenant, payload, run_at)
        SELECT false, 'sleep', 'flood', '{"ms": 50}', now() - interval '1 hour' FROM generate_series(1, 300000)
        """);
    database.execute("INSERT INTO waybill.tally VALUES ('sleep', 'enqueued', 300000)");
    List<ServiceProcess> two = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      two.add(service().with("WAYBILL_POOLS", "default=*:8").start());
    }
    two.forEach(ServiceProcess::awaitReady);
    Awaitility.await("the flood is worked on")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> database.number("SELECT count(*) FROM waybill.jobs_done") > 20);
    List<Long> ids =
        database.ids(
            "SELECT waybill.enqueue_many('sleep', array_fill('{\"ms\": 1}'::jsonb, ARRAY[50]), tenant => 'other')");
    Awaitility.await("the other tenant's jobs are done")
        .atMost(Duration.ofSeconds(30))
        .until(() ->
            database.number("SELECT count(*) FROM waybill.jobs_done WHERE tenant = 'other'")
                == ids.size());
    assertTrue(
        database.number("SELECT count(*) FROM waybill.jobs WHERE tenant = 'flood'") > 290_000,
        "the flood still stands");
  }

  /**
   * Its run_at lies before what was claimed meanwhile: a claim that only looks forward would pass
   * it by for ever.
   */
  @Test
  void a_job_that_commits_late_is_found_behind_those_claimed_meanwhile() throws Exception {
    List<ServiceProcess> two = List.of(service().start(), service().start());
    two.forEach(ServiceProcess::awaitReady);
    var log = new EnqueueLog();
    long late;
    try (var _ = new Load(log, "echo", "").bySql(database, 1);
        Connection slow = database.connect();
        Statement statement = slow.createStatement()) {
      slow.setAutoCommit(false);
      try (ResultSet row = statement.executeQuery("SELECT waybill.enqueue('echo', '{}')")) {
        row.next();
        late = row.getLong(1);
      }
      Awaitility.await("many later ones are done")
          .atMost(ServiceProcess.PATIENCE)
          .until(() ->
              database.number("SELECT count(*) FROM waybill.jobs_done WHERE id > ?", late) > 500);
      slow.commit();
      Awaitility.await("the late one is done, while the load goes on")
          .atMost(Duration.ofSeconds(20))
          .pollInterval(Duration.ofMillis(20))
          .until(() -> database.state(late).equals("done"));
    }
    Invariants.awaitDrained(database);
    assertFalse(log.acknowledged().isEmpty());
  }
}
