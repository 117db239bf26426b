package dev.waybill.retain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class RetainTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Partitions partitions = new Partitions(DB.database());
  private final TallyFolder tally = new TallyFolder(DB.database());

  @AfterEach
  void partitionsAreThere() throws SQLException {
    partitions.makeAhead();
  }

  // ------------------------------------------------------------------------------------ partitions

  private static List<String> days() throws SQLException {
    return DB
        .column(
            """
            SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'waybill.jobs_done'::regclass ORDER BY 1
            """)
        .stream()
        .map(String::valueOf)
        .toList();
  }

  private static void dropAll() throws SQLException {
    for (String day : days()) {
      DB.execute("DROP TABLE " + day);
    }
  }

  @Test
  void partitions_are_there_from_yesterday_to_two_weeks_ahead() throws SQLException {
    assertEquals(16, days().size());
    assertEquals(List.of(), partitions.makeAhead(), "nothing to do twice");
  }

  @Test
  void several_pods_make_partitions_at_once_and_each_is_made_by_one() throws Exception {
    dropAll();
    var pods =
        IntStream.range(0, 6).mapToObj(_ -> CompletableFuture.supplyAsync(this::make)).toList();
    int made = pods.stream().mapToInt(pod -> pod.join().size()).sum();
    assertEquals(16, made);
    assertEquals(16, days().size());
  }

  private List<String> make() {
    try {
      return partitions.makeAhead();
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void behind_a_long_reader_partitions_are_made_and_settles_go_on() throws Exception {
    for (String day : days().subList(5, 16)) {
      DB.execute("DROP TABLE " + day);
    }
    Claimed job = jobs.running("k");
    try (Connection reader = DB.connect()) {
      reader.setAutoCommit(false);
      TestDatabase.column(reader, "SELECT count(*) FROM waybill.jobs_done");
      try (Connection maker = DB.connect()) {
        maker.setAutoCommit(false);
        TestDatabase.execute(maker, "SET LOCAL lock_timeout = '2s'");
        assertEquals(11, TestDatabase.column(maker, "SELECT waybill.make_partitions()").size());
        // Made, and not yet committed: a settle does not wait for it either.
        try (Connection holder = DB.connect()) {
          holder.setAutoCommit(false);
          TestDatabase.execute(holder, "SET LOCAL lock_timeout = '2s'");
          assertTrue(jobs.settleIn(holder, job, Outcome.done()));
          holder.commit();
          holder.setAutoCommit(true);
        }
        maker.commit();
        maker.setAutoCommit(true);
      }
      reader.commit();
      reader.setAutoCommit(true);
    }
    assertEquals("done", DB.state(job.id()));
  }

  // ----------------------------------------------------------------------------------------- tally

  private static long enqueued() throws SQLException {
    return DB.number("SELECT coalesce(sum(n), 0) FROM waybill.counts WHERE what = 'enqueued'");
  }

  @Test
  void folding_makes_one_row_of_many() throws SQLException {
    for (int i = 0; i < 20; i++) {
      DB.enqueue(i % 2 == 0 ? "a" : "b");
    }
    tally.fold();
    assertEquals(20, enqueued());
    assertEquals(2, DB.number("SELECT count(*) FROM waybill.counts"));
    DB.auditIsClean();
  }

  @Test
  void folding_while_jobs_come_keeps_the_sum_exact() throws Exception {
    int producers = 4;
    int each = 300;
    var coming =
        IntStream.range(0, producers)
            .mapToObj(_ -> CompletableFuture.runAsync(() -> produce(each)))
            .toList();
    var folding =
        IntStream.range(0, 2)
            .mapToObj(_ ->
                CompletableFuture.runAsync(() -> {
                  while (!coming.stream().allMatch(CompletableFuture::isDone)) {
                    fold();
                  }
                }))
            .toList();
    coming.forEach(CompletableFuture::join);
    folding.forEach(CompletableFuture::join);
    assertEquals((long) producers * each, enqueued());
    fold();
    assertEquals((long) producers * each, enqueued());
    assertEquals(1, DB.number("SELECT count(*) FROM waybill.counts"));
    DB.auditIsClean();
  }

  private static void produce(int n) {
    try (Connection connection = DB.connect()) {
      for (int i = 0; i < n; i++) {
        TestDatabase.column(connection, "SELECT waybill.enqueue('k')");
      }
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  private void fold() {
    try {
      tally.fold();
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  // ----------------------------------------------------------------------------------------- audit

  private static List<String> findings() throws SQLException {
    return DB.column("SELECT guarantee FROM waybill.audit() WHERE NOT ok").stream()
        .map(finding -> String.valueOf(finding).substring(0, 1))
        .distinct()
        .toList();
  }

  @Test
  void the_audit_finds_nothing_after_every_way_out() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, retention_ms) VALUES ('brief', 0)");
    jobs.policies().refresh();
    assertTrue(jobs.settle(jobs.running("k"), Outcome.done()));
    assertTrue(jobs.settle(jobs.running("brief"), Outcome.done()));
    assertTrue(jobs.settle(jobs.running("k"), Outcome.dead("x")));
    assertTrue(DB.is("SELECT waybill.cancel(?)", DB.enqueue("k")));
    assertTrue(DB.is("SELECT waybill.cancel(?)", jobs.running("k").id()));
    jobs.running("k");
    DB.enqueue("k");
    assertEquals(List.of(), findings());
  }

  @Test
  void the_audit_finds_a_move_that_nobody_counted() throws SQLException {
    DB.execute("SELECT waybill.enqueue('k', run_at => now() + interval '1 hour')");
    DB.execute("UPDATE waybill.jobs SET state = 'ready', due = true");
    assertEquals(
        List.of("2: figures as counted, kind k"),
        DB.column("SELECT guarantee FROM waybill.audit() WHERE NOT ok"));
  }

  @Test
  void the_audit_finds_a_word_that_is_none_of_the_tally() throws SQLException {
    DB.execute("INSERT INTO waybill.tally VALUES ('k', 'vanished', 1)");
    assertEquals(List.of("2"), findings());
  }

  @Test
  void a_fold_keeps_when_jobs_died_for_a_day() throws SQLException {
    assertTrue(jobs.settle(jobs.running("k"), Outcome.dead("x")));
    assertTrue(jobs.settle(jobs.running("k"), Outcome.dead("x")));
    new TallyFolder(DB.database()).fold();
    String died = "SELECT sum(n) FROM waybill.tally WHERE what = 'died' AND slot ";
    assertEquals(2, DB.number(died + "IS NOT NULL"));
    DB.execute("UPDATE waybill.tally SET slot = slot - interval '26 hours' WHERE what = 'died'");
    new TallyFolder(DB.database()).fold();
    assertEquals(2, DB.number(died + "IS NULL"));
    DB.auditIsClean();
  }

  @Test
  void the_audit_finds_a_job_that_vanished() throws SQLException {
    DB.enqueue("k", 3);
    DB.execute("DELETE FROM waybill.jobs WHERE id = (SELECT min(id) FROM waybill.jobs)");
    assertEquals(List.of("2"), findings());
  }

  @Test
  void the_audit_finds_a_job_that_nobody_enqueued() throws SQLException {
    DB.enqueue("k");
    DB.execute("DELETE FROM waybill.arrivals");
    assertEquals(List.of("2"), findings());
  }

  @Test
  void the_audit_finds_a_job_in_two_places() throws SQLException {
    Claimed job = jobs.running("k");
    assertTrue(jobs.settle(job, Outcome.done()));
    DB.execute(
        "INSERT INTO waybill.jobs (id, kind) OVERRIDING SYSTEM VALUE VALUES (?, 'k')", job.id());
    assertEquals(List.of("6"), findings());
  }

  @Test
  void the_audit_finds_a_job_in_two_partitions() throws SQLException {
    assertTrue(jobs.settle(jobs.running("k"), Outcome.done()));
    DB.execute(
        """
        INSERT INTO waybill.jobs_done (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, state, kind,
          tenant, payload)
        SELECT id, run_at, created_at, finished_at + interval '1 day', priority, attempt, crashes, payload_version, state, kind,
          tenant, payload FROM waybill.jobs_done
        """);
    DB.execute("INSERT INTO waybill.tally VALUES ('k', 'enqueued', 1), ('k', 'done', 1)");
    assertEquals(List.of("6"), findings());
  }

  @Test
  void the_audit_finds_too_many_attempts_and_tokens_out_of_place() throws SQLException {
    DB.number("SELECT waybill.enqueue('k', max_attempts => 2)");
    DB.execute("UPDATE waybill.jobs SET attempt = 3");
    assertEquals(List.of("4"), findings());
    DB.execute("UPDATE waybill.jobs SET attempt = 1, state = 'running'");
    assertEquals(List.of("5"), findings());
    DB.execute(
        """
        UPDATE waybill.jobs SET state = 'ready', token = gen_random_uuid(), worker = 'w', lease_until = now()
        """);
    assertEquals(List.of("5"), new HashSet<>(findings()).stream().toList());
  }

  @Test
  void the_audit_finds_a_running_job_that_no_claim_names_and_a_state_that_due_denies()
      throws SQLException {
    Claimed job = jobs.running("k");
    DB.execute("DELETE FROM waybill.claims");
    assertEquals(List.of("5"), findings());
    DB.noteClaims();
    assertEquals(List.of(), findings());
    assertTrue(jobs.settle(job, Outcome.done()));
    DB.enqueue("k");
    DB.execute("UPDATE waybill.jobs SET due = false");
    assertEquals(List.of("2"), findings());
  }
}
