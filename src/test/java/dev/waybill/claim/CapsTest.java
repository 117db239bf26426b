package dev.waybill.claim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.retain.Reaper;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class CapsTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);

  private void policy(String set) throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind) VALUES ('k') ON CONFLICT DO NOTHING");
    DB.execute("UPDATE waybill.kinds SET " + set + " WHERE kind = 'k'");
    jobs.policies().refresh();
  }

  private static void enqueue(String tenant, int n) throws SQLException {
    DB.execute(
        "INSERT INTO waybill.jobs (kind, tenant) SELECT 'k', ? FROM generate_series(1, ?)",
        tenant,
        n);
  }

  /** All that this claimer gets until it gets nothing, in claims of so many. */
  private List<Claimed> all(Claimer claimer, int max) throws SQLException {
    var all = new ArrayList<Claimed>();
    claimer.sweep();
    for (int empty = 0; empty < 3; ) {
      List<Claimed> some = claimer.claim(max);
      all.addAll(some);
      empty = some.isEmpty() ? empty + 1 : 0;
    }
    return all;
  }

  private static long of(String tenant, List<Claimed> jobs) {
    return jobs.stream().filter(job -> job.tenant().equals(tenant)).count();
  }

  @Test
  void a_tenants_cap_holds_and_leaves_the_others_alone() throws SQLException {
    policy("tenant_cap = 3");
    enqueue("a", 50);
    enqueue("b", 50);
    enqueue("c", 2);
    Claimer claimer = jobs.claimer("k");
    List<Claimed> took = all(claimer, 100);
    assertEquals(List.of(3L, 3L, 2L), List.of(of("a", took), of("b", took), of("c", took)));
    assertTrue(claimer.heldMillis() > 0, "there is more, once there is room");
  }

  @Test
  void one_claim_of_several_kinds_counts_for_each() throws SQLException {
    policy("kind_cap = 3");
    enqueue("a", 10);
    DB.enqueue("other", 5);
    Claimer both = jobs.claimer("k", "other");
    both.sweep();
    assertEquals(8, both.claim(20).size());
    assertEquals(1, DB.number("SELECT count(*) FROM waybill.claims"));
    assertEquals(List.of(), all(jobs.claimer("k"), 20));
    DB.auditIsClean();
  }

  /** Or a claim would cost the more, the more others have running. */
  @Test
  void only_claims_that_asked_for_the_kind_are_looked_at() throws SQLException {
    policy("kind_cap = 3");
    enqueue("a", 10);
    assertEquals(3, all(jobs.claimer("k"), 20).size());
    assertEquals(0, all(jobs.claimer("k"), 20).size());
    DB.execute("UPDATE waybill.claims SET kinds = '{other}'"); // Which is not so.
    assertEquals(3, all(jobs.claimer("k"), 20).size());
  }

  @Test
  void a_kinds_cap_holds_over_all_tenants() throws SQLException {
    policy("kind_cap = 7");
    for (int t = 0; t < 20; t++) {
      enqueue("t" + t, 3);
    }
    assertEquals(7, all(jobs.claimer("k"), 100).size());
    assertEquals(0, all(jobs.claimer("k"), 100).size(), "for another pod as well");
  }

  @Test
  void a_kind_without_caps_in_the_same_pool_is_not_held_up() throws SQLException {
    policy("kind_cap = 1");
    enqueue("a", 5);
    DB.enqueue("free", 40);
    List<Claimed> took = all(jobs.claimer("k", "free"), 100);
    assertEquals(40, took.stream().filter(job -> job.kind().equals("free")).count());
    assertEquals(41, took.size());
  }

  @Test
  void a_place_is_free_again_when_its_job_ended() throws Exception {
    policy("tenant_cap = 1");
    enqueue("a", 3);
    Claimer claimer = jobs.claimer("k");
    for (int i = 0; i < 3; i++) {
      List<Claimed> took = all(claimer, 10);
      assertEquals(1, took.size());
      jobs.settle(took.getFirst(), Outcome.done());
    }
  }

  /** Its place is counted from its row, so it is free when the reaper has taken the row back. */
  @Test
  void the_place_of_a_vanished_holder_heals() throws SQLException {
    policy("kind_cap = 2");
    enqueue("a", 4);
    List<Claimed> lost = all(jobs.claimer("k"), 10);
    assertEquals(2, lost.size());
    assertEquals(0, all(jobs.claimer("k"), 10).size());
    for (Claimed job : lost) {
      jobs.leaseOver(job.id());
    }
    new Reaper(DB.database()).reap();
    assertEquals(2, all(jobs.claimer("k"), 10).size());
  }

  @Test
  void a_raised_cap_is_heeded_and_a_lowered_one_waits_for_jobs_to_end() throws SQLException {
    policy("kind_cap = 2");
    enqueue("a", 10);
    assertEquals(2, all(jobs.claimer("k"), 10).size());
    policy("kind_cap = 5");
    assertEquals(3, all(jobs.claimer("k"), 10).size());
    policy("kind_cap = 1");
    assertEquals(0, all(jobs.claimer("k"), 10).size());
  }

  @Test
  void a_rate_bounds_what_is_begun() throws Exception {
    policy("rate_per_second = 20");
    enqueue("a", 200);
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    long start = System.nanoTime();
    int begun = 0;
    double seconds = 0;
    while (begun < 30) {
      begun += claimer.claim(100).size();
      seconds = (System.nanoTime() - start) / 1e9;
      assertTrue(
          begun <= 20 * seconds + 1.25 + 20 * 0.05,
          begun + " attempts began within " + seconds + " s");
      TimeUnit.MILLISECONDS.sleep(Math.max(1, claimer.heldMillis()));
    }
    assertTrue(seconds < 15, "30 jobs at 20 a second took " + seconds + " s");
  }

  /** It would otherwise be kept from all jobs for as long as the clock was set back. */
  @Test
  void a_rate_does_not_wait_for_a_clock_that_was_set_back() throws SQLException {
    policy("rate_per_second = 20");
    enqueue("a", 10);
    DB.execute(
        "INSERT INTO waybill.rates (kind, left_over, at) VALUES ('k', 0, now() + interval '1 hour')");
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    assertEquals(2, claimer.claim(100).size());
    assertTrue(DB.is("SELECT at <= now() FROM waybill.rates WHERE kind = 'k'"));
  }

  /** The claimers, the settles and a reaper all at once; what runs is looked at all the time. */
  @Test
  void caps_are_never_overrun_by_claimers_at_work_at_once() throws Exception {
    policy("tenant_cap = 4, kind_cap = 10");
    for (int t = 0; t < 8; t++) {
      enqueue("t" + t, 60);
    }
    var over = new AtomicBoolean();
    var ended = new AtomicInteger();
    var seenAtOnce = new AtomicInteger();
    try (var threads = Executors.newVirtualThreadPerTaskExecutor()) {
      var work = new ArrayList<Future<?>>();
      for (int i = 0; i < 8; i++) {
        work.add(
            threads.submit(() -> {
              Claimer claimer = jobs.claimer("k");
              long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
              while (ended.get() < 480 && System.nanoTime() < end) {
                claimer.sweep();
                List<Claimed> took = claimer.claim(5);
                TimeUnit.MILLISECONDS.sleep(ThreadLocalRandom.current().nextInt(4));
                for (Claimed job : took) {
                  if (ThreadLocalRandom.current().nextInt(20) == 0) {
                    jobs.leaseOver(job.id()); // Its holder vanishes.
                  } else {
                    jobs.settle(job, Outcome.done());
                    ended.incrementAndGet();
                  }
                }
              }
              return null;
            }));
      }
      Future<?> looker =
          threads.submit(() -> {
            while (!over.get()) {
              seenAtOnce.accumulateAndGet(
                  Integer.parseInt(
                      DB.column("SELECT count(*) FROM waybill.jobs WHERE state = 'running'")
                          .getFirst()),
                  Math::max);
              int most =
                  Integer.parseInt(
                      DB.column(
                              """
                              SELECT coalesce(max(n), 0) FROM (
                                SELECT count(*) AS n FROM waybill.jobs WHERE state = 'running' GROUP BY tenant) t
                              """)
                          .getFirst());
              assertTrue(most <= 4, "a tenant has " + most + " running");
              assertTrue(seenAtOnce.get() <= 10, "running at once: " + seenAtOnce);
              new Reaper(DB.database()).reap();
            }
            return null;
          });
      for (Future<?> one : work) {
        one.get();
      }
      over.set(true);
      looker.get();
    }
    assertEquals(480, ended.get(), "no place was lost: everything was worked off");
    assertTrue(seenAtOnce.get() >= 5, "the caps were made use of: " + seenAtOnce);
  }
}
