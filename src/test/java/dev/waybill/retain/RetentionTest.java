package dev.waybill.retain;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.Stalls;
import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class RetentionTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  /** The common pool has one thread on two cores, where nothing would happen at the same time. */
  private static final Executor AT_ONCE = Thread::startVirtualThread;

  private final TestJobs jobs = new TestJobs(DB);
  private final PastDays past = new PastDays(DB);
  private final Partitions partitions = new Partitions(DB.database());
  private final Map<String, Long> purged = new TreeMap<>();

  private final RetainEvents events =
      new RetainEvents() {
        @Override
        public void reaped(String kind, long n) {}

        @Override
        public void purged(String kind, long n) {
          synchronized (purged) {
            purged.merge(kind, n, Long::sum);
          }
        }
      };

  private Retention retention() {
    return retention(DB.database());
  }

  private Retention retention(Database database) {
    var archive = new Archive(database, Optional::empty);
    return new Retention(
        new Turn(database),
        archive,
        new Expiry(database, events),
        new Dropper(database, archive, events),
        new Leftovers(database));
  }

  private void retain() throws SQLException {
    retention().turn(() -> true);
  }

  @AfterEach
  void tidyUp() throws SQLException {
    past.tidyUp();
    partitions.makeAhead();
  }

  private static long present(String kind) throws SQLException {
    return DB.number("SELECT count(*) FROM waybill.all_jobs WHERE kind = ?", kind);
  }

  // ---------------------------------------------------------------------------------- what goes

  @Test
  void a_day_past_retention_is_dropped_and_counted() throws SQLException {
    past.done(9, "a", 30);
    past.done(9, "b", 12);
    past.done(6, "a", 5);
    past.make(11);
    retain();
    assertEquals(1, past.attached().size());
    assertEquals(5, present("a"));
    assertEquals(Map.of("a", 30L, "b", 12L), purged);
    assertEquals(
        30, DB.number("SELECT sum(n) FROM waybill.tally WHERE what = 'purged' AND kind = 'a'"));
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.leaving"));
    DB.auditIsClean();
  }

  @Test
  void a_day_stays_while_one_of_the_kinds_is_kept_longer() throws SQLException {
    DB.execute(
        "INSERT INTO waybill.kinds (kind, retention_ms) VALUES ('long', 30 * 86400000::bigint)");
    past.done(20, "long", 3);
    past.done(20, "usual", 4);
    past.done(33, "long", 5);
    retain();
    assertEquals(1, past.attached().size());
    assertEquals(3, present("long"));
    assertEquals(0, present("usual"), "deleted from a day that stays");
    assertEquals(Map.of("long", 5L, "usual", 4L), purged);
    DB.auditIsClean();
  }

  @Test
  void kinds_kept_for_less_than_a_day_go_within_the_day() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, retention_ms) VALUES ('brief', 60000)");
    assertTrue(jobs.settle(jobs.running("brief"), Outcome.done()));
    assertTrue(jobs.settle(jobs.running("usual"), Outcome.done()));
    assertTrue(jobs.settle(jobs.running("brief"), Outcome.done()));
    DB.execute(
        """
        UPDATE waybill.jobs_done SET finished_at = finished_at - interval '2 minutes'
        WHERE id = (SELECT min(id) FROM waybill.jobs_done)
        """);
    retain();
    assertEquals(1, present("brief"));
    assertEquals(1, present("usual"));
    assertEquals(Map.of("brief", 1L), purged);
    DB.auditIsClean();
  }

  @Test
  void a_swept_day_is_not_read_again() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, retention_ms) VALUES ('brief', 86400000)");
    past.done(4, "usual", 1);
    past.done(4, "brief", 2_000);
    retain();
    assertEquals(Map.of("brief", 2_000L), purged);
    assertEquals(
        1,
        DB.number(
            "SELECT count(*) FROM waybill.swept WHERE kind = 'brief'"
                + " AND partition = (SELECT oid FROM pg_class WHERE relname = ?)",
            past.attached().getFirst()));
    DB.auditIsClean();
  }

  @Test
  void large_days_are_purged_page_by_page() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, retention_ms) VALUES ('brief', 86400000)");
    past.done(4, "usual", 10);
    past.done(4, "brief", 60_000);
    assertTrue(
        DB.number("SELECT pg_relation_size('waybill.' || ?) / 8192", past.attached().getFirst())
            > Day.PAGE_BLOCKS);
    retain();
    assertEquals(0, present("brief"));
    assertEquals(10, present("usual"));
    assertEquals(60_000L, purged.get("brief"));
    DB.auditIsClean();
  }

  @Test
  void dead_letters_go_by_their_own_retention() throws SQLException {
    DB.execute(
        "INSERT INTO waybill.kinds (kind, dead_retention_ms) VALUES ('brief', 86400000), ('long', 86400000 * 90::bigint)");
    for (String kind : List.of("brief", "long", "usual")) {
      for (int days : new int[] {0, 2, 40, 100}) {
        assertTrue(jobs.settle(jobs.running(kind), Outcome.dead("x")));
        DB.execute(
            """
            UPDATE waybill.jobs_dead SET finished_at = now() - ? * interval '1 day'
            WHERE id = (SELECT max(id) FROM waybill.jobs_dead)
            """,
            days);
      }
    }
    retain();
    assertEquals(1, present("brief"));
    assertEquals(2, present("usual"));
    assertEquals(3, present("long"));
    assertEquals(Map.of("brief", 3L, "long", 1L, "usual", 2L), purged);
    DB.auditIsClean();
  }

  @Test
  void many_dead_letters_go_in_pages_and_one_that_is_being_retried_is_left_alone()
      throws Exception {
    DB.enqueue("k", 2_500);
    DB.execute(
        """
        WITH gone AS (DELETE FROM waybill.jobs RETURNING *)
        INSERT INTO waybill.jobs_dead (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, kind, tenant, payload,
          last_error, fingerprint)
        SELECT id, run_at, created_at, now() - interval '31 days', priority, 1, 0, 1, kind, tenant, payload, 'x', 'f' FROM gone
        """);
    try (Connection retrying = DB.connect()) {
      retrying.setAutoCommit(false);
      TestDatabase.column(
          retrying, "SELECT id FROM waybill.jobs_dead ORDER BY id LIMIT 1 FOR UPDATE");
      retain();
      assertEquals(1, present("k"));
      retrying.rollback();
      retrying.setAutoCommit(true);
    }
    retain();
    assertEquals(0, present("k"));
    DB.auditIsClean();
  }

  @Test
  void a_month_without_maintenance_is_caught_up_with() throws SQLException {
    for (int day = 8; day < 48; day++) {
      past.done(day, "k", 3);
    }
    for (String ahead :
        DB.column("SELECT name FROM waybill.done_partitions() WHERE begins > now()").stream()
            .map(String::valueOf)
            .toList()) {
      DB.execute("DROP TABLE waybill." + ahead);
    }
    retain();
    // The youngest of them is within the hour after its seventh day at times: not dropped then.
    assertTrue(past.attached().size() <= 1, past.attached()::toString);
    assertTrue(partitions.makeAhead().size() >= 14);
    assertTrue(jobs.settle(jobs.running("k"), Outcome.done()));
    DB.auditIsClean();
  }

  // ----------------------------------------------------------------------------- behind long
  // readers

  @Test
  void behind_a_long_reader_a_day_waits_and_nobody_else_does() throws Exception {
    String _ = counted(9);
    try (Connection reader = DB.connect()) {
      reader.setAutoCommit(false);
      TestDatabase.column(reader, "SELECT count(*) FROM waybill.jobs_done");
      var stop = new AtomicBoolean();
      var slowest = new AtomicInteger();
      var done = new AtomicInteger();
      var load = CompletableFuture.runAsync(() -> load(stop, slowest, done), AT_ONCE);
      warm.await();
      retain();
      assertTrue(DB.is("SELECT bool_or(detaching) FROM waybill.done_partitions()"), "begun");
      retain();
      assertEquals(List.of(), partitions.makeAhead());
      await().until(() -> done.get() > 20 || load.isDone());
      stop.set(true);
      load.join();
      assertTrue(slowest.get() < GAP_MILLIS, () -> "a job waited " + slowest + " ms");
      reader.commit();
      reader.setAutoCommit(true);
    }
    DB.auditIsClean();
    retain();
    assertEquals(List.of(), past.attached());
    assertEquals(Map.of("old", 20L), purged);
    DB.auditIsClean();
  }

  /** Who waits behind those who wait for a reader waits as long as that reads, or a second. */
  private static final int GAP_MILLIS = 200;

  /**
   * Claims and settles one job after the other. What the slowest took beyond what this machine
   * stood still meanwhile, and beyond the slowest of a second before anything was dropped: others
   * may use this machine as well.
   */
  private void load(AtomicBoolean stop, AtomicInteger slowest, AtomicInteger done) {
    try (var stalls = new Stalls(DB)) {
      int usual = 0;
      long warmUntil = System.nanoTime() + 1_000_000_000;
      while (System.nanoTime() < warmUntil) {
        usual = Math.max(usual, one(stalls));
      }
      warm.countDown();
      while (!stop.get()) {
        slowest.accumulateAndGet(one(stalls) - Math.min(usual, GAP_MILLIS / 2), Math::max);
        done.incrementAndGet();
      }
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  private final CountDownLatch warm = new CountDownLatch(1);

  private int one(Stalls stalls) throws SQLException {
    long begin = System.nanoTime();
    assertTrue(jobs.settle(jobs.running("live"), Outcome.done()));
    long end = System.nanoTime();
    return (int) ((end - begin) / 1_000_000 - stalls.millisWithin(begin, end));
  }

  @Test
  void an_old_snapshot_finds_its_audit_clean_at_every_step() throws Exception {
    past.done(9, "old", 20);
    try (Connection old = DB.connect()) {
      old.setAutoCommit(false);
      TestDatabase.execute(old, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
      TestDatabase.column(old, "SELECT 1"); // Its snapshot is taken; no table of ours is locked.
      retain();
      assertEquals(1, past.attached().size(), "waits for those who do not know the figures");
      assertEquals(List.of(), TestDatabase.column(old, NOT_CLEAN));
      old.commit();
      TestDatabase.execute(old, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
      TestDatabase.column(old, "SELECT 1");
      retain();
      assertEquals(List.of(), past.attached(), "this one knew them");
      assertEquals(
          List.of(), TestDatabase.column(old, NOT_CLEAN), "what it saw is gone, and counted");
      old.commit();
      old.setAutoCommit(true);
    }
    DB.auditIsClean();
  }

  private static final String NOT_CLEAN =
      "SELECT guarantee || ': ' || detail FROM waybill.audit() WHERE NOT ok";

  // --------------------------------------------------------------------------------- interruptions

  private String frozen(int daysAgo) throws SQLException {
    past.done(daysAgo, "old", 20);
    String name = past.attached().getFirst();
    DB.execute("SELECT waybill.freeze_partition(('waybill.' || ?)::regclass)", name);
    return name;
  }

  private String counted(int daysAgo) throws SQLException {
    String name = frozen(daysAgo);
    DB.execute(
        "UPDATE waybill.leaving SET jobs = '{\"old\": 20}', counted_by = pg_current_xact_id()");
    return name;
  }

  private void finishedByTheNext() throws SQLException {
    DB.auditIsClean();
    retain();
    assertEquals(List.of(), past.attached());
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.leaving"));
    assertEquals(Map.of("old", 20L), purged);
    assertEquals(
        0,
        DB.number(
            "SELECT count(*) FROM pg_class WHERE relname LIKE 'jobs_done_2%' AND relkind = 'r'"
                + " AND NOT relispartition"));
    DB.auditIsClean();
  }

  @Test
  void killed_after_freezing() throws SQLException {
    String _ = frozen(9);
    finishedByTheNext();
  }

  @Test
  void killed_after_counting() throws SQLException {
    String _ = counted(9);
    finishedByTheNext();
  }

  @Test
  void killed_in_the_middle_of_the_detach() throws Exception {
    String name = counted(9);
    try (Connection reader = DB.connect();
        Connection victim = DB.connect()) {
      reader.setAutoCommit(false);
      TestDatabase.column(reader, "SELECT count(*) FROM waybill.jobs_done");
      String pid =
          String.valueOf(TestDatabase.column(victim, "SELECT pg_backend_pid()").getFirst());
      var detach =
          CompletableFuture.supplyAsync(() ->
              assertThrows(
                  SQLException.class,
                  () -> {
                    TestDatabase.execute(victim, "SET lock_timeout = 0");
                    TestDatabase.execute(
                        victim,
                        "ALTER TABLE waybill.jobs_done DETACH PARTITION waybill."
                            + name
                            + " CONCURRENTLY");
                  }));
      await().until(() -> DB.is("SELECT bool_or(detaching) FROM waybill.done_partitions()"));
      DB.execute("SELECT pg_terminate_backend(?::int)", pid);
      assertEquals(SqlState.UNREACHABLE, SqlState.of(detach.join()));
      DB.auditIsClean();
      reader.commit();
      reader.setAutoCommit(true);
    }
    finishedByTheNext();
  }

  @Test
  void killed_between_detach_and_drop() throws SQLException {
    String name = counted(9);
    DB.execute("ALTER TABLE waybill.jobs_done DETACH PARTITION waybill." + name + " CONCURRENTLY");
    assertEquals(0, present("old"));
    finishedByTheNext();
  }

  @Test
  void an_operator_dropped_it_by_hand_meanwhile() throws SQLException {
    String name = counted(9);
    DB.execute("DROP TABLE waybill." + name);
    finishedByTheNext();
  }

  /** Somebody built a view on it: PostgreSQL refuses to drop it for as long as that is there. */
  @Test
  void a_day_that_cannot_be_dropped_keeps_nothing_else_from_going() throws SQLException {
    past.done(10, "old", 20);
    past.done(9, "old", 10);
    Claimed dead = jobs.running("k");
    assertTrue(jobs.settle(dead, Outcome.dead("no")));
    DB.execute("UPDATE waybill.jobs_dead SET finished_at = now() - interval '31 days'");
    DB.execute(
        "CREATE VIEW public.on_a_day AS SELECT id FROM waybill." + past.attached().getFirst());
    Retention retention = retention();
    try {
      for (int i = 0; i < 2; i++) {
        SQLException refused = assertThrows(SQLException.class, () -> retention.turn(() -> true));
        assertEquals("2BP01", refused.getSQLState());
        assertEquals(List.of(), past.attached());
        assertEquals(1, DB.number("SELECT count(*) FROM waybill.leaving"), "waits");
        assertEquals(Map.of("k", 1L, "old", 10L), purged);
        DB.auditIsClean();
      }
    } finally {
      DB.execute("DROP VIEW public.on_a_day");
    }
    retention.turn(() -> true);
    assertEquals(Map.of("k", 1L, "old", 30L), purged);
    DB.auditIsClean();
  }

  // --------------------------------------------------------------------------- several processes

  @Test
  void several_processes_take_turns() throws Exception {
    for (int day = 9; day < 15; day++) {
      past.done(day, "old", 10);
    }
    everywhere(() -> retention().turn(() -> true));
    retain();
    assertEquals(List.of(), past.attached());
    assertEquals(Map.of("old", 60L), purged);
    DB.auditIsClean();
  }

  /** As when one was frozen past its turn and wakes. */
  @Test
  void even_at_the_same_time_each_job_is_counted_once() throws Exception {
    for (int day = 9; day < 15; day++) {
      past.done(day, "old", 10);
    }
    var archive = new Archive(DB.database(), Optional::empty);
    everywhere(() -> {
      for (int i = 0; i < 6; i++) {
        new Dropper(DB.database(), archive, events).drop(() -> true);
      }
    });
    retain();
    assertEquals(List.of(), past.attached());
    assertEquals(60, DB.number("SELECT sum(n) FROM waybill.tally WHERE what = 'purged'"));
    DB.auditIsClean();
  }

  private interface Work {
    void run() throws SQLException;
  }

  private static void everywhere(Work work) {
    IntStream.range(0, 4)
        .mapToObj(_ ->
            CompletableFuture.runAsync(
                () -> {
                  try {
                    work.run();
                  } catch (SQLException e) {
                    throw new IllegalStateException(e);
                  }
                },
                AT_ONCE))
        .toList()
        .forEach(CompletableFuture::join);
  }

  @Test
  void a_turn_goes_to_the_next_when_its_holder_vanished() throws SQLException {
    var first = new Turn(DB.database());
    var second = new Turn(DB.database());
    assertTrue(first.mine("x"));
    assertTrue(first.mine("x"), "kept");
    assertFalse(second.mine("x"));
    assertTrue(second.mine("y"), "another matter");
    DB.execute("UPDATE waybill.turns SET until = now() - interval '1 second' WHERE name = 'x'");
    assertTrue(second.mine("x"));
    assertFalse(first.mine("x"));
    first.over("x");
    assertFalse(first.mine("x"), "not its own to give back");
    second.over("x");
    assertTrue(first.mine("x"));
  }

  // --------------------------------------------------------------------------------- late comers

  @Test
  void a_closed_day_refuses_late_jobs_like_a_day_that_is_not_there() throws SQLException {
    String name = frozen(9);
    SQLException late =
        assertThrows(
            SQLException.class,
            () ->
                DB.execute(
                    "INSERT INTO waybill.jobs_done SELECT * FROM waybill." + name + " LIMIT 1"));
    assertEquals(SqlState.NO_PARTITION, SqlState.of(late));
    assertThrows(SQLException.class, () -> DB.execute("DELETE FROM waybill." + name));
    assertEquals(20, present("old"));
  }

  @Test
  void a_done_job_that_is_to_be_archived_is_not_deleted_at_once() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, retention_ms, archive) VALUES ('brief', 0, true)");
    jobs.policies().refresh();
    Claimed job = jobs.running("brief");
    assertTrue(jobs.settle(job, Outcome.done()));
    assertEquals("done", DB.state(job.id()));
  }

  // -------------------------------------------------------------------------- all of it at once

  /**
   * Days come and go while jobs come and go, behind readers, and an audit is made all the while.
   */
  @Test
  void the_audit_holds_throughout() throws Exception {
    var stop = new AtomicBoolean();
    var slowest = new AtomicInteger();
    var done = new AtomicInteger();
    var findings = new ArrayList<String>();
    var audits = new AtomicInteger();
    var load = CompletableFuture.runAsync(() -> load(stop, slowest, done), AT_ONCE);
    var audit = CompletableFuture.runAsync(() -> audit(stop, findings, audits), AT_ONCE);
    var reader = CompletableFuture.runAsync(() -> read(stop), AT_ONCE);
    warm.await();
    int rounds = 0;
    while (rounds < 6 || (audits.get() < 30 && rounds < 300)) {
      past.done(9 + rounds++, "old", 50);
      retain();
    }
    await()
        .until(() -> {
          retain();
          return past.attached().isEmpty();
        });
    stop.set(true);
    CompletableFuture.allOf(load, audit, reader).join();
    assertEquals(List.of(), findings);
    assertTrue(audits.get() > 10, audits::toString);
    assertEquals(List.of(), past.attached());
    assertEquals(50L * rounds, DB.number("SELECT sum(n) FROM waybill.tally WHERE what = 'purged'"));
    assertTrue(slowest.get() < GAP_MILLIS, () -> "a job waited " + slowest + " ms");
    DB.auditIsClean();
  }

  private static void audit(AtomicBoolean stop, List<String> findings, AtomicInteger audits) {
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      while (!stop.get()) {
        TestDatabase.execute(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
        TestDatabase.column(connection, "SELECT 1");
        TestDatabase.column(connection, "SELECT pg_sleep(0.05)");
        TestDatabase.column(connection, NOT_CLEAN).forEach(f -> findings.add(String.valueOf(f)));
        audits.incrementAndGet();
        connection.commit();
        TestDatabase.column(connection, NOT_CLEAN).forEach(f -> findings.add(String.valueOf(f)));
        connection.commit();
      }
      connection.setAutoCommit(true);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  /** A second each, with a lock on the whole history. */
  private static void read(AtomicBoolean stop) {
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      while (!stop.get()) {
        TestDatabase.column(connection, "SELECT count(*) FROM waybill.jobs_done");
        TestDatabase.column(connection, "SELECT pg_sleep(0.7)");
        connection.commit();
      }
      connection.setAutoCommit(true);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }
}
