package dev.waybill.enqueue;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.db.SqlState;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.postgresql.ds.PGSimpleDataSource;
import org.postgresql.util.PSQLException;

/** Who writes at once and who waits is made certain by a lock that holds up all who write. */
class GatheringTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final int WRITERS = 4;
  private static final String BLOCKED =
      """
      SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'gathering'
        AND wait_event_type = 'Lock'
      """;
  private static final String TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM waybill.jobs";

  private final PGSimpleDataSource dataSource = unhurried();
  private final Queue queue = new Queue(dataSource);
  private final Gathering gathering = new Gathering(dataSource, queue);

  /** Unlike the engine's its sessions wait for a lock as long as it takes. */
  private static PGSimpleDataSource unhurried() {
    var source = new PGSimpleDataSource();
    source.setUrl(DB.url());
    source.setUser("postgres");
    source.setPassword("postgres");
    source.setApplicationName("gathering");
    return source;
  }

  @AfterEach
  void close() throws SQLException {
    DB.auditIsClean();
  }

  private static Connection hold() throws SQLException {
    Connection connection = DB.connect();
    connection.setAutoCommit(false);
    TestDatabase.execute(connection, "LOCK TABLE waybill.jobs IN SHARE MODE");
    return connection;
  }

  private static void release(Connection connection) throws SQLException {
    connection.rollback();
    connection.setAutoCommit(true);
    connection.close();
  }

  private static void awaitBlocked(int writers) {
    await().until(() -> DB.number(BLOCKED) == writers);
  }

  private static Future<Queue.Told> post(Gathering to, NewJob job) {
    return to.enqueue(job, Runnable::run).toCompletableFuture();
  }

  private Queue.Told enqueue(NewJob job) throws Exception {
    return post(gathering, job).get();
  }

  /** As many as may write, one after the other, since each before it is held up. */
  private List<Future<Queue.Told>> occupy(Gathering which) {
    var first = new ArrayList<Future<Queue.Told>>();
    while (first.size() < WRITERS) {
      first.add(post(which, NewJob.of("k", "{\"first\": " + first.size() + "}")));
      awaitBlocked(first.size());
    }
    return first;
  }

  /** In this order behind those who write. */
  private List<Future<Queue.Told>> line(NewJob... jobs) {
    var posts = new ArrayList<Future<Queue.Told>>();
    for (NewJob job : jobs) {
      posts.add(post(gathering, job));
      await().until(() -> gathering.waiting() == posts.size());
    }
    return posts;
  }

  private static SQLException refused(Future<Queue.Told> post) {
    var failure = assertThrows(ExecutionException.class, post::get);
    return assertInstanceOf(SQLException.class, failure.getCause());
  }

  private static String column(Future<Queue.Told> post) {
    var said = assertInstanceOf(PSQLException.class, refused(post)).getServerErrorMessage();
    return String.valueOf(said == null ? null : said.getColumn());
  }

  @Test
  void one_after_the_other_each_has_its_own_transaction_at_once() throws Exception {
    for (int i = 0; i < 5; i++) {
      Queue.Told told = enqueue(NewJob.of("k", "{}"));
      assertEquals("ready", DB.state(told.id()));
    }
    assertEquals(5, DB.number(TRANSACTIONS));
  }

  @Test
  void those_who_wait_share_a_transaction_and_each_gets_its_own_answer() throws Exception {
    Connection lock = hold();
    var first = occupy(gathering);
    var soon = OffsetDateTime.now(ZoneOffset.UTC).plusHours(1);
    var posts =
        line(
            NewJob.of("k", "{\"n\": 0}").withTags(List.of("a", "b\"c")).withTenant("acme"),
            NewJob.of("other", "{\"n\": 1}").withPriority(-3).withMaxAttempts(7),
            NewJob.of("k", "{\"n\": 2}").withRunAt(soon),
            NewJob.of("k", "{\"n\": 3}").withDelay(Duration.ofMinutes(5)).withPayloadVersion(2),
            NewJob.of("k", "{\"n\": 4}").withTraceparent("00-1-2-01"));
    release(lock);
    for (var post : first) {
      assertEquals("ready", DB.state(post.get().id()));
    }
    for (int n = 0; n < posts.size(); n++) {
      Queue.Told told = posts.get(n).get();
      assertTrue(
          DB.is(
              """
              SELECT payload = jsonb_build_object('n', ?) AND created_at = ?::timestamptz AND run_at = ?::timestamptz
              FROM waybill.all_jobs WHERE id = ?
              """,
              n,
              told.createdAt(),
              told.runAt(),
              told.id()),
          "job " + n);
    }
    assertTrue(
        DB.is(
            """
            SELECT bool_and(CASE (payload ->> 'n')::integer
              WHEN 0 THEN tags = ARRAY['a', 'b"c'] AND tenant = 'acme' AND state = 'ready'
              WHEN 1 THEN kind = 'other' AND priority = -3 AND max_attempts = 7
              WHEN 2 THEN state = 'scheduled'
              WHEN 3 THEN run_at - created_at = interval '5 min' AND payload_version = 2
              ELSE traceparent = '00-1-2-01' AND tags IS NULL END)
            FROM waybill.jobs WHERE jsonb_exists(payload, 'n')
            """));
    assertTrue(
        DB.number(TRANSACTIONS) < WRITERS + posts.size(),
        "each writer hands on to another, so they are one to four batches");
  }

  @Test
  void what_is_wrong_with_one_is_told_to_that_one_alone() throws Exception {
    Connection lock = hold();
    occupy(gathering);
    var posts =
        line(
            NewJob.of("k", "{}"),
            NewJob.of("k", "{}").withPriority(1_000_000),
            NewJob.of("k", "{}").withTenant("acme"),
            NewJob.of("k", "{\"s\": \"" + "x".repeat(300_000) + "\"}"),
            NewJob.of("No Kind", "{}"),
            NewJob.of("k", "no json"),
            NewJob.of("k", "{}").withTags(List.of("t")));
    release(lock);
    assertEquals("priority", column(posts.get(1)));
    assertEquals("payload", column(posts.get(3)));
    assertEquals("kind", column(posts.get(4)));
    assertEquals("22P02", refused(posts.get(5)).getSQLState());
    for (int good : List.of(0, 2, 6)) {
      assertEquals("ready", DB.state(posts.get(good).get().id()));
    }
    assertEquals(WRITERS + 3, DB.number("SELECT count(*) FROM waybill.jobs"));
  }

  @Test
  void the_limit_of_one_tenant_refuses_its_jobs_and_no_others_and_takes_no_room_twice()
      throws Exception {
    DB.execute("SELECT waybill.limit_tenant('small', 0.001, 2, NULL)");
    try {
      Connection lock = hold();
      occupy(gathering);
      var small = NewJob.of("k", "{}").withTenant("small");
      var posts = line(small, NewJob.of("k", "{}"), small, NewJob.of("k", "{}"), small);
      release(lock);
      assertEquals("ready", DB.state(posts.get(1).get().id()));
      assertEquals("ready", DB.state(posts.get(3).get().id()));
      var limited = new ArrayList<String>();
      for (int n : List.of(0, 2, 4)) {
        try {
          posts.get(n).get();
        } catch (ExecutionException refused) {
          limited.add(assertInstanceOf(SQLException.class, refused.getCause()).getSQLState());
        }
      }
      // Two at once, as its burst says; those who ask at the same moment may both have the last.
      assertTrue(List.of(List.of("WB001"), List.of()).contains(limited), limited.toString());
      assertEquals(
          3 - limited.size(),
          DB.number("SELECT count(*) FROM waybill.jobs WHERE tenant = 'small'"));
      assertEquals("WB001", refused(post(gathering, small)).getSQLState());
    } finally {
      DB.execute("SELECT waybill.unlimit_tenant('small')");
    }
  }

  @Test
  void when_the_connection_breaks_all_who_were_written_hear_it_and_nobody_is_tried_again()
      throws Exception {
    Connection lock = hold();
    var first = occupy(gathering);
    var posts =
        line(IntStream.range(0, 10).mapToObj(_ -> NewJob.of("k", "{}")).toArray(NewJob[]::new));
    String kill = BLOCKED.replace("count(*)", "count(pg_terminate_backend(pid))");
    assertEquals(WRITERS, DB.number(kill));
    for (var post : first) {
      assertEquals(SqlState.UNREACHABLE, SqlState.of(refused(post)));
    }
    await().until(() -> gathering.waiting() == 0 && DB.number(kill) > 0);
    // Each of the writers may have led some of them.
    await()
        .until(() -> {
          DB.number(kill);
          return posts.stream().allMatch(Future::isDone);
        });
    for (var post : posts) {
      assertEquals(SqlState.UNREACHABLE, SqlState.of(refused(post)));
    }
    release(lock);
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.jobs"));
    assertEquals("ready", DB.state(enqueue(NewJob.of("k", "{}")).id()));
  }

  @Test
  void who_finds_no_place_or_gets_no_turn_is_refused_and_its_job_never_was() throws Exception {
    var narrow = new Gathering(dataSource, queue, 2, Duration.ofMinutes(5));
    Connection lock = hold();
    var told = occupy(narrow);
    told.add(post(narrow, NewJob.of("k", "{}")));
    told.add(post(narrow, NewJob.of("k", "{}")));
    await().until(() -> narrow.waiting() == 2);
    SQLException full = refused(post(narrow, NewJob.of("k", "{}")));
    assertEquals(SqlState.TRY_AGAIN, SqlState.of(full));
    release(lock);
    for (var post : told) {
      assertEquals("ready", DB.state(post.get().id()));
    }
    assertEquals(WRITERS + 2, DB.number("SELECT count(*) FROM waybill.jobs"));

    var hurried = new Gathering(dataSource, queue, 2, Duration.ofSeconds(1));
    lock = hold();
    var first = occupy(hurried);
    for (int i = 0; i < 2; i++) {
      assertEquals(SqlState.TIMED_OUT, SqlState.of(refused(post(hurried, NewJob.of("k", "{}")))));
    }
    release(lock);
    for (var post : first) {
      assertEquals("ready", DB.state(post.get().id()));
    }
    assertEquals(2 * WRITERS + 2, DB.number("SELECT count(*) FROM waybill.jobs"));
  }

  @Test
  void who_goes_away_while_it_waits_keeps_nobody_else_from_its_answer() throws Exception {
    Connection lock = hold();
    occupy(gathering);
    var posts = line(NewJob.of("k", "{}"), NewJob.of("gone", "{}"), NewJob.of("k", "{}"));
    assertTrue(posts.get(1).cancel(true));
    release(lock);
    assertEquals("ready", DB.state(posts.get(0).get().id()));
    assertEquals("ready", DB.state(posts.get(2).get().id()));
  }

  @Test
  void answers_are_handed_back_and_an_executor_that_is_gone_takes_nobody_elses() throws Exception {
    Connection lock = hold();
    var first = occupy(gathering);
    var handedBack = new AtomicInteger();
    var gone = gathering.enqueue(NewJob.of("k", "{}"), GatheringTest::refuses);
    var handed =
        gathering.enqueue(
            NewJob.of("k", "{}"),
            tells -> {
              handedBack.incrementAndGet();
              tells.run();
            });
    var last = post(gathering, NewJob.of("k", "{}"));
    release(lock);
    for (var post :
        List.of(gone.toCompletableFuture(), handed.toCompletableFuture(), last, first.getFirst())) {
      assertEquals("ready", DB.state(post.get().id()));
    }
    assertEquals(1, handedBack.get());
  }

  private static void refuses(Runnable task) {
    throw new RejectedExecutionException(task.toString());
  }

  @Test
  void a_writer_that_meets_an_error_tells_it_and_the_next_is_written() throws Exception {
    var broken = new AtomicReference<@Nullable Error>(new OutOfMemoryError("of the test"));
    var source =
        new PGSimpleDataSource() {
          private static final long serialVersionUID = 1L;

          @Override
          public Connection getConnection() throws SQLException {
            @Nullable Error error = broken.getAndSet(null);
            if (error != null) {
              throw error;
            }
            return dataSource.getConnection();
          }
        };
    var unlucky = new Gathering(source, queue);
    var failure = assertThrows(ExecutionException.class, post(unlucky, NewJob.of("k", "{}"))::get);
    assertInstanceOf(OutOfMemoryError.class, failure.getCause());
    assertEquals("ready", DB.state(post(unlucky, NewJob.of("k", "{}")).get().id()));
    assertEquals(1, DB.number("SELECT count(*) FROM waybill.jobs"));
  }

  @Test
  void many_at_once_have_each_their_own_id_and_are_all_there() throws Exception {
    var ids = new HashSet<Long>();
    List<Future<List<Long>>> posts;
    try (var callers = Executors.newVirtualThreadPerTaskExecutor()) {
      posts = IntStream.range(0, 32).mapToObj(n -> callers.submit(() -> sixty(n))).toList();
    }
    for (int n = 0; n < 32; n++) {
      List<Long> mine = posts.get(n).get();
      ids.addAll(mine);
      assertEquals(
          60,
          DB.number(
              "SELECT count(*) FROM waybill.jobs WHERE id = ANY (?::bigint[]) AND (payload ->> 'n')::integer / 60 = ?",
              mine.toString().replace('[', '{').replace(']', '}'),
              n));
    }
    assertEquals(32 * 60, ids.size());
    assertTrue(DB.number(TRANSACTIONS) < 32 * 60, "some shared a commit");
  }

  private List<Long> sixty(int n) throws Exception {
    var told = new ArrayList<Long>();
    for (int i = 0; i < 60; i++) {
      told.add(enqueue(NewJob.of("k", "{\"n\": " + (n * 60 + i) + "}")).id());
    }
    return told;
  }

  @Test
  void a_job_with_a_dedupe_key_is_not_for_here() {
    assertThrows(
        IllegalArgumentException.class,
        () -> post(gathering, NewJob.of("k", "{}").withDedupeKey("x")));
  }
}
