package dev.waybill.figures;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Figures follow from what happened to jobs, without a look at the jobs. */
class FiguresTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Figures figures = new Figures(DB.database());

  @BeforeEach
  void noPast() throws SQLException {
    DB.execute("TRUNCATE waybill.figures_past, waybill.gauges");
  }

  private String now() throws SQLException {
    List<KindFigures> all = figures.now();
    if (all.isEmpty()) {
      return "nothing";
    }
    KindFigures f = all.getFirst();
    DB.auditIsClean();
    return "s%d r%d x%d d%d/%d"
        .formatted(f.scheduled(), f.ready(), f.running(), f.dead(), f.deadLast24h());
  }

  @Test
  void every_way_that_a_job_can_go_moves_the_figures() throws SQLException {
    assertEquals("nothing", now());
    DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '1 hour')");
    List<Long> more = DB.enqueue("k", 5);
    assertEquals("s1 r5 x0 d0/0", now());
    List<Claimed> claimed = jobs.claim("k", 4);
    assertEquals("s1 r1 x4 d0/0", now());
    assertTrue(jobs.settle(claimed.get(0), Outcome.done()));
    assertTrue(jobs.settle(claimed.get(1), Outcome.retry("again")));
    assertTrue(jobs.settle(claimed.get(2), new Outcome.Release()));
    assertTrue(jobs.settle(claimed.get(3), Outcome.dead("no")));
    assertEquals("s2 r2 x0 d1/1", now());
    assertTrue(jobs.settle(jobs.claim("k", 1).getFirst(), Outcome.snooze(Duration.ofHours(1))));
    assertEquals("s3 r1 x0 d1/1", now());
    assertTrue(
        DB.is("SELECT waybill.run_now(id) FROM waybill.jobs WHERE state = 'scheduled' LIMIT 1"));
    assertEquals("s2 r2 x0 d1/1", now());
    assertTrue(DB.is("SELECT waybill.cancel(min(id)) FROM waybill.jobs WHERE state = 'scheduled'"));
    assertTrue(DB.is("SELECT waybill.cancel(min(id)) FROM waybill.jobs WHERE state = 'ready'"));
    assertEquals("s1 r1 x0 d1/1", now());
    DB.execute(
        """
        WITH gone AS (DELETE FROM waybill.jobs_dead RETURNING *)
        INSERT INTO waybill.jobs (id, plain, kind, tenant, payload) OVERRIDING SYSTEM VALUE
        SELECT id, false, kind, tenant, payload FROM gone
        """);
    assertEquals("s1 r2 x0 d0/1", now());
    assertFalse(more.isEmpty());
  }

  @Test
  void a_job_whose_time_has_come_is_ready_before_it_is_promoted() throws SQLException {
    DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '1 hour')");
    DB.execute("UPDATE waybill.jobs SET run_at = now() - interval '1 minute'");
    assertEquals("s0 r1 x0 d0/0", now());
    Double oldest = figures.now().getFirst().oldestReadySeconds();
    assertTrue(oldest != null && oldest >= 60);
    assertEquals(1, jobs.promote());
    assertEquals("s0 r1 x0 d0/0", now());
  }

  @Test
  void one_process_samples_for_all_and_rates_are_against_the_past() throws SQLException {
    assertTrue(figures.sample());
    assertFalse(figures.sample());
    DB.execute("UPDATE waybill.figures_past SET at = at - interval '10 seconds'");
    assertFalse(told("jobs{kind=k,state=ready}"));
    for (int i = 0; i < 20; i++) {
      assertTrue(jobs.settle(jobs.running("k"), Outcome.done()));
    }
    DB.enqueue("k", 3);
    KindFigures.Rates rates = figures.now().getFirst().rates();
    assertNotNull(rates);
    assertTrue(
        rates.done() > 1 && rates.done() <= 2 && rates.claim() == rates.done(), rates::toString);
    assertFalse(told("jobs{kind=k,state=ready}"));
    assertTrue(figures.sample());
    assertEquals(3, gauge("jobs{kind=k,state=ready}"));
    assertEquals(0, gauge("jobs{kind=k,state=running}"));
    assertEquals(0, gauge("dead{kind=k}"));
    assertTrue(gauge("oldest_ready_seconds{kind=k}") >= 0);
  }

  private Map<String, Double> gauges() throws SQLException {
    return figures.gauges().stream()
        .collect(Collectors.toMap(FiguresTest::name, SampledGauge::value));
  }

  private static String name(SampledGauge gauge) {
    String state = gauge.state() == null ? "" : ",state=" + gauge.state();
    return gauge.label().isEmpty()
        ? gauge.name()
        : gauge.name() + "{" + gauge.label() + "=" + gauge.of() + state + "}";
  }

  private boolean told(String name) throws SQLException {
    return gauges().containsKey(name);
  }

  private double gauge(String name) throws SQLException {
    Double value = gauges().get(name);
    assertNotNull(value, () -> "not told: " + name);
    return value;
  }

  @Test
  void a_sample_that_nobody_renewed_for_a_minute_is_not_told_but_its_age_is() throws SQLException {
    assertEquals(Double.POSITIVE_INFINITY, gauge("sample_age_seconds"));
    DB.enqueue("k", 3);
    assertTrue(figures.sample());
    assertTrue(gauge("sample_age_seconds") < 60);
    DB.execute("UPDATE waybill.figures_past SET at = at - interval '61 seconds'");
    DB.execute("UPDATE waybill.gauges SET at = at - interval '61 seconds'");
    assertEquals(1, gauges().size());
    assertTrue(gauge("sample_age_seconds") > 60);
  }

  @Test
  void a_clock_that_was_set_back_does_not_end_the_samples() throws SQLException {
    DB.enqueue("k", 3);
    assertTrue(figures.sample());
    DB.execute("UPDATE waybill.figures_past SET at = at + interval '1 hour'");
    DB.execute("UPDATE waybill.gauges SET at = at + interval '1 hour'");
    assertEquals(List.of("sample_age_seconds"), List.copyOf(gauges().keySet()));
    DB.enqueue("k", 2);
    assertTrue(figures.sample());
    assertEquals(5, gauge("jobs{kind=k,state=ready}"));
    assertTrue(gauge("sample_age_seconds") >= 0);
    assertTrue(DB.is("SELECT max(at) <= now() FROM waybill.gauges"));
    assertFalse(figures.sample());
  }

  /** The sampler of the next beat finds what the first measured, and leaves it for a while. */
  @Test
  void tables_are_measured_less_often_than_kinds_are_counted() throws SQLException {
    assertTrue(figures.sample());
    String measured = DB.text("SELECT max(at) FROM waybill.gauges");
    DB.execute("UPDATE waybill.figures_past SET at = at - interval '5 seconds'");
    assertTrue(figures.sample());
    assertEquals(measured, DB.text("SELECT max(at) FROM waybill.gauges"));
    DB.execute("UPDATE waybill.figures_past SET at = at - interval '5 seconds'");
    DB.execute("UPDATE waybill.gauges SET at = at - interval '15 seconds'");
    assertTrue(figures.sample());
    assertTrue(DB.is("SELECT min(at) > now() - interval '5 seconds' FROM waybill.gauges"));
  }

  @Test
  void what_holds_a_snapshot_and_which_days_are_overdue_is_measured() throws Exception {
    DB.execute("INSERT INTO waybill.kinds (kind, paused) VALUES ('k', true)");
    try (Connection forgotten = DB.connect()) {
      forgotten.setAutoCommit(false);
      forgotten.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      assertEquals(
          List.of("0"), TestDatabase.column(forgotten, "SELECT count(*) FROM waybill.jobs"));
      for (int i = 0; i < 5; i++) {
        DB.enqueue("k");
      }
      await()
          .until(() ->
              DB.is(
                  "SELECT bool_or(xact_start < now() - interval '1 second') FROM pg_stat_activity WHERE backend_xmin IS NOT NULL"));
      assertTrue(figures.sample());
      assertTrue(gauge("oldest_snapshot_seconds") >= 1);
      assertTrue(gauge("oldest_snapshot_transactions") >= 5);
      forgotten.rollback();
    }
    assertEquals(1, gauge("kind_paused{kind=k}"));
    assertEquals(0, gauge("partitions_overdue{table=jobs_done}"));
    assertTrue(gauge("partitions{table=jobs_done}") >= 15);
    assertTrue(gauge("partition_days_ahead{table=jobs_done}") > 13);
    assertTrue(gauges().containsKey("dead_tuples{table=jobs}"));
    assertTrue(gauges().containsKey("seconds_since_autovacuum{table=tally}"));
    DB.execute(
        "CREATE TABLE waybill.jobs_done_20200102 (LIKE waybill.jobs_done INCLUDING INDEXES)");
    DB.execute(
        "ALTER TABLE waybill.jobs_done ATTACH PARTITION waybill.jobs_done_20200102 FOR VALUES FROM ('2020-01-02Z') TO ('2020-01-03Z')");
    try {
      again();
      assertEquals(1, gauge("partitions_overdue{table=jobs_done}"));
      DB.execute("UPDATE waybill.kinds SET retention_ms = 315360000000 WHERE kind = 'k'");
      again();
      assertEquals(0, gauge("partitions_overdue{table=jobs_done}"));
    } finally {
      DB.execute("DROP TABLE waybill.jobs_done_20200102");
    }
  }

  /** As the service's role sees a session of an application that has a role of its own. */
  @Test
  void a_snapshot_of_another_role_is_told_in_transactions() throws Exception {
    DB.execute("CREATE ROLE figures_limited");
    try (Connection forgotten = DB.connect();
        Connection limited = DB.connect()) {
      for (String grant :
          List.of(
              "GRANT USAGE ON SCHEMA waybill TO figures_limited",
              "GRANT SELECT ON ALL TABLES IN SCHEMA waybill TO figures_limited",
              "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA waybill TO figures_limited",
              "SET ROLE figures_limited")) {
        TestDatabase.execute(limited, grant);
      }
      forgotten.setAutoCommit(false);
      forgotten.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      assertEquals(
          List.of("0"), TestDatabase.column(forgotten, "SELECT count(*) FROM waybill.jobs"));
      DB.enqueue("k");
      DB.enqueue("k");
      assertEquals(
          List.of("t"),
          TestDatabase.column(
              limited,
              "SELECT value >= 2 FROM waybill.measure(0) WHERE name = 'oldest_snapshot_transactions'"));
      forgotten.rollback();
      TestDatabase.execute(limited, "RESET ROLE");
    } finally {
      DB.execute("DROP OWNED BY figures_limited");
      DB.execute("DROP ROLE figures_limited");
    }
  }

  private void again() throws SQLException {
    DB.execute("TRUNCATE waybill.figures_past, waybill.gauges");
    assertTrue(figures.sample());
  }

  @Test
  void without_a_past_there_is_no_rate() throws SQLException {
    DB.enqueue("k");
    assertNull(figures.now().getFirst().rates());
  }

  @Test
  void deaths_of_yesterday_are_dead_and_not_of_the_last_24_hours() throws SQLException {
    assertTrue(jobs.settle(jobs.running("k"), Outcome.dead("x")));
    DB.execute("UPDATE waybill.tally SET slot = slot - interval '25 hours' WHERE what = 'died'");
    assertEquals("s0 r0 x0 d1/0", now());
  }
}
