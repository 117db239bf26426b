package dev.waybill.retain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Outcome;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What a crash of the server leaves of the unlogged tables: nothing. */
class RecountTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final TallyFolder tally = new TallyFolder(DB.database());

  private static void crash() throws SQLException {
    DB.execute("TRUNCATE waybill.arrivals, waybill.arrivals_whole");
  }

  private static boolean whole() throws SQLException {
    return DB.is("SELECT EXISTS (SELECT FROM waybill.arrivals_whole)");
  }

  private static long enqueued(String kind) throws SQLException {
    return DB.number(
        "SELECT coalesce(sum(n), 0) FROM waybill.counts WHERE what IN ('enqueued', 'recounted') AND kind = ?",
        kind);
  }

  private static List<?> findings() throws SQLException {
    return DB.column("SELECT guarantee FROM waybill.audit() WHERE NOT ok ORDER BY guarantee");
  }

  @Test
  void what_came_is_counted_again() throws SQLException {
    DB.enqueue("a", 3);
    tally.fold();
    DB.enqueue("a", 2);
    DB.enqueue("b");
    assertTrue(jobs.settle(jobs.running("gone"), Outcome.done()));
    assertTrue(jobs.settle(jobs.running("dead"), Outcome.dead("x")));
    DB.execute("SELECT waybill.enqueue('later', run_at => now() + interval '1 hour')");
    crash();
    DB.auditIsClean();
    assertEquals(3, enqueued("a"));
    tally.fold();
    assertTrue(whole());
    for (String kind : List.of("b", "gone", "dead", "later")) {
      assertEquals(1, enqueued(kind), kind);
    }
    assertEquals(5, enqueued("a"));
    DB.auditIsClean();
    tally.fold();
    assertEquals(5, enqueued("a"));
  }

  @Test
  void it_counts_by_pages() throws SQLException {
    for (int i = 0; i < 70; i++) {
      DB.enqueue(i % 7 == 0 ? "a" : "b");
    }
    crash();
    new Recount(DB.database(), 1).run();
    assertTrue(DB.number("SELECT pg_relation_size('waybill.jobs')") > 8192);
    assertEquals(10, enqueued("a"));
    assertEquals(60, enqueued("b"));
    DB.auditIsClean();
  }

  /** Before and after the count. */
  @Test
  void a_job_that_vanished_does_not_go_unseen() throws SQLException {
    DB.enqueue("k", 3);
    tally.fold();
    DB.execute("DELETE FROM waybill.jobs WHERE id = (SELECT min(id) FROM waybill.jobs)");
    crash();
    var findings = findings();
    assertFalse(findings.isEmpty());
    tally.fold();
    assertEquals(findings, findings());
  }

  /** This much a crash may hide, and it leaves a trace. */
  @Test
  void what_was_counted_again_is_told() throws SQLException {
    DB.enqueue("k", 3);
    tally.fold();
    DB.enqueue("k", 2);
    crash();
    tally.fold();
    assertEquals(
        List.of("enqueued 5 (2 of them counted again after a crash), present 5, purged 0"),
        DB.column("SELECT detail FROM waybill.audit() WHERE guarantee LIKE '2: enqueued%'"));
  }

  @Test
  void only_one_counts() throws Exception {
    DB.enqueue("k", 5);
    crash();
    try (Connection other = DB.connect()) {
      other.setAutoCommit(false);
      TestDatabase.execute(other, "LOCK TABLE waybill.arrivals_whole IN SHARE ROW EXCLUSIVE MODE");
      new Recount(DB.database()).run();
      assertFalse(whole());
      other.rollback();
      other.setAutoCommit(true);
    }
    new Recount(DB.database()).run();
    new Recount(DB.database()).run();
    assertEquals(5, enqueued("k"));
    assertEquals(1, DB.number("SELECT count(*) FROM waybill.arrivals_whole"));
  }

  @Test
  void two_that_count_at_once_add_it_once() throws Exception {
    DB.enqueue("k", 2_000);
    tally.fold();
    for (int round = 1; round <= 20; round++) {
      DB.enqueue("k");
      crash();
      var together = new CyclicBarrier(2);
      Callable<Void> one =
          () -> {
            together.await();
            new Recount(DB.database(), 1).run();
            return null;
          };
      try (var threads = Executors.newFixedThreadPool(2)) {
        for (var counted : threads.invokeAll(List.of(one, one))) {
          counted.get();
        }
      }
      assertEquals(2_000 + round, enqueued("k"));
    }
  }

  @Test
  void jobs_come_and_go_meanwhile() throws Exception {
    DB.enqueue("k", 500);
    var coming =
        CompletableFuture.runAsync(() -> {
          try {
            for (int i = 0; i < 400; i++) {
              DB.enqueue("k");
              if (i % 4 == 0) {
                assertTrue(jobs.settle(jobs.claimOne("k"), Outcome.done()));
              }
            }
          } catch (SQLException e) {
            throw new IllegalStateException(e);
          }
        });
    do {
      crash();
      new Recount(DB.database(), 1).run();
      tally.fold();
    } while (!coming.isDone());
    coming.join();
    assertEquals(900, enqueued("k"));
    DB.auditIsClean();
  }
}
