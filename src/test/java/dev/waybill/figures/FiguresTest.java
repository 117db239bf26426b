package dev.waybill.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
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
    DB.execute("TRUNCATE waybill.figures_past");
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
        INSERT INTO waybill.jobs (id, admitted, kind, tenant, payload) OVERRIDING SYSTEM VALUE
        SELECT id, true, kind, tenant, payload FROM gone
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
    assertEquals(List.of(), figures.sampled());
    for (int i = 0; i < 20; i++) {
      assertTrue(jobs.settle(jobs.running("k"), Outcome.done()));
    }
    KindFigures.Rates rates = figures.now().getFirst().rates();
    assertNotNull(rates);
    assertTrue(
        rates.done() > 1 && rates.done() <= 2 && rates.claim() == rates.done(), rates::toString);
    assertTrue(figures.sample());
    assertEquals(0, figures.sampled().getFirst().ready());
    assertNotNull(figures.sampled().getFirst().rates());
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
