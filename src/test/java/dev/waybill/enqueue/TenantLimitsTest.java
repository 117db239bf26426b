package dev.waybill.enqueue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

class TenantLimitsTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Queue queue = new Queue(DB.dataSource());

  @AfterEach
  void takeAway() throws SQLException {
    DB.auditIsClean();
    for (String tenant : DB.column("SELECT tenant FROM waybill.tenant_limits")) {
      assertTrue(DB.is("SELECT waybill.unlimit_tenant(?)", tenant));
    }
    assertFalse(DB.is("SELECT waybill.tenants_limited()"), "nobody pays for it any more");
    DB.execute("UPDATE waybill.spent_sequences SET at = at - interval '2 hours'");
    long _ = drop();
  }

  /** Asks for more than there are. */
  private static long drop() throws SQLException {
    return DB.number(
        "SELECT count(*) FILTER (WHERE waybill.drop_spent_sequence()) FROM generate_series(1, 20)");
  }

  private static void limit(
      String tenant, @Nullable Double rate, @Nullable Long burst, @Nullable Long backlog)
      throws SQLException {
    DB.execute(
        "SELECT waybill.limit_tenant(?, ?::double precision, ?::bigint, ?::bigint)",
        tenant,
        rate,
        burst,
        backlog);
  }

  private static long enqueue(String tenant) throws SQLException {
    return DB.number("SELECT waybill.enqueue('k', tenant => ?)", tenant);
  }

  private static long waiting(String tenant) throws SQLException {
    return DB.number("SELECT count(*) FROM waybill.jobs WHERE tenant = ?", tenant);
  }

  private static ServerErrorMessage refused(String state, Callable<?> call) {
    PSQLException failure = assertThrows(PSQLException.class, call::call);
    assertEquals(state, failure.getSQLState(), failure.getMessage());
    ServerErrorMessage said = failure.getServerErrorMessage();
    assertEquals("tenant", said == null ? "" : said.getColumn());
    assertTrue(said != null && said.getHint() != null && said.getDetail() != null);
    return said;
  }

  /** How many of this many tries were let in. */
  private static int tries(String tenant, int tries) throws SQLException {
    int in = 0;
    for (int i = 0; i < tries; i++) {
      try {
        long _ = enqueue(tenant);
        in++;
      } catch (SQLException refused) {
        assertTrue(refused.getSQLState().startsWith("WB"), refused::getMessage);
      }
    }
    return in;
  }

  // ------------------------------------------------------------------------------------------ rate

  @Test
  void a_burst_is_let_in_and_then_as_much_as_the_rate() throws Exception {
    limit("a", 0.001, 5L, null);
    assertEquals(5, tries("a", 20));
    ServerErrorMessage said = refused("WB001", () -> enqueue("a"));
    String detail = String.valueOf(said.getDetail());
    assertTrue(detail.matches("retry after 9[0-9]{5} ms"), detail);
  }

  @Test
  void many_sessions_together_get_the_rate_of_the_tenant() throws Exception {
    limit("a", 200.0, 20L, null);
    long begin = System.nanoTime();
    var last = new AtomicLong(begin);
    var stood = new AtomicLong();
    int in = 0;
    try (var threads = Executors.newFixedThreadPool(8)) {
      var parts = new ArrayList<Future<Integer>>();
      for (int t = 0; t < 8; t++) {
        parts.add(
            threads.submit(() -> {
              int mine = 0;
              while (System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(3)) {
                mine += tries("a", 5);
                long now = System.nanoTime();
                long gap = now - last.getAndUpdate(before -> Math.max(before, now));
                stood.addAndGet(gap > TimeUnit.MILLISECONDS.toNanos(50) ? gap : 0);
              }
              return mine;
            }));
      }
      for (Future<Integer> part : parts) {
        in += part.get();
      }
    }
    double seconds = (System.nanoTime() - begin) / 1e9;
    double allowed = 20 + 200 * seconds;
    assertTrue(in <= allowed * 1.05 + 8, in + " of " + allowed);
    // What comes while nobody asks, because this machine stands still, is lost but for a burst.
    double least = 20 + 200 * (last.get() - begin - stood.get()) / 1e9;
    assertTrue(in >= least * 0.7, in + " of " + least);
    assertEquals(in, waiting("a"));
  }

  @Test
  void a_long_transaction_of_a_limited_tenant_holds_up_nobody() throws Exception {
    limit("a", 1_000_000.0, 1_000_000L, 1_000L);
    limit("b", 1_000_000.0, 1_000_000L, 1_000L);
    try (Connection one = DB.connect();
        Connection other = DB.connect()) {
      one.setAutoCommit(false);
      other.setAutoCommit(false);
      // In opposite order: rows would lock each other out.
      long _ = queue.enqueue(one, NewJob.of("k", "{}").withTenant("a"));
      long _ = queue.enqueue(other, NewJob.of("k", "{}").withTenant("b"));
      try (var statement = one.createStatement();
          var second = other.createStatement()) {
        statement.execute("SET LOCAL lock_timeout = '1s'");
        second.execute("SET LOCAL lock_timeout = '1s'");
      }
      long _ = queue.enqueue(one, NewJob.of("k", "{}").withTenant("b"));
      long _ = queue.enqueue(other, NewJob.of("k", "{}").withTenant("a"));
      assertEquals(10, tries("a", 10), "others of the same tenant");
      one.commit();
      other.commit();
      one.setAutoCommit(true);
      other.setAutoCommit(true);
    }
    assertEquals(12, waiting("a"));
  }

  @Test
  void more_than_a_burst_at_once_needs_a_full_bucket_and_leaves_a_debt() throws Exception {
    limit("a", 0.05, 10L, null);
    assertEquals(
        25,
        DB.column(
                "SELECT waybill.enqueue_many('k', array_fill('{}'::jsonb, ARRAY[25]), tenant => 'a')")
            .size());
    String detail = String.valueOf(refused("WB001", () -> enqueue("a")).getDetail());
    assertTrue(detail.matches("retry after 3[0-9]{5} ms"), detail);
  }

  @Test
  void other_tenants_are_not_limited() throws Exception {
    limit("a", 0.001, 1L, 1L);
    assertEquals(1, tries("a", 10));
    assertEquals(50, tries("b", 50));
    assertEquals(50, tries("", 50));
  }

  // --------------------------------------------------------------------------------------- backlog

  @Test
  void no_more_than_the_backlog_waits_whatever_its_kind_version_and_time() throws Exception {
    limit("a", null, null, 12L);
    for (int i = 0; i < 3; i++) {
      DB.execute("SELECT waybill.enqueue(?, tenant => 'a', payload_version => ?)", "k" + i, i + 1);
      DB.execute(
          "SELECT waybill.enqueue(?, tenant => 'a', run_at => now() + interval '1 hour')", "k" + i);
      DB.execute("SELECT waybill.enqueue(?, tenant => 'b')", "k" + i);
    }
    assertEquals(6, tries("a", 30));
    ServerErrorMessage said = refused("WB002", () -> enqueue("a"));
    assertTrue(String.valueOf(said.getDetail()).matches("retry after [0-9]+ ms"));
    assertEquals(12, waiting("a"));
  }

  @Test
  void there_is_room_again_when_jobs_have_run() throws Exception {
    limit("a", null, null, 10L);
    assertEquals(10, tries("a", 15));
    var claimer = jobs.claimer("k");
    claimer.sweep();
    assertEquals(4, claimer.claim(4).size());
    org.awaitility.Awaitility.await("room").until(() -> tries("a", 1) == 1);
    assertEquals(3, tries("a", 3), "what is known to be free is not counted again");
    assertEquals(0, tries("a", 3));
  }

  /** The estimate only goes up until it is corrected: a fast tenant must not feel it. */
  @Test
  void a_small_backlog_that_moves_fast_lets_all_through() throws Exception {
    limit("a", null, null, 5L);
    var claimer = jobs.claimer("k");
    for (int i = 0; i < 60; i++) {
      assertEquals(1, tries("a", 1), "job " + i);
      claimer.sweep();
      assertEquals(1, claimer.claim(10).size());
    }
  }

  @Test
  void sessions_at_once_pass_the_backlog_by_about_as_many_as_they_are() throws Exception {
    limit("a", null, null, 200L);
    try (var threads = Executors.newFixedThreadPool(8)) {
      var parts = new ArrayList<Future<Integer>>();
      for (int t = 0; t < 8; t++) {
        parts.add(threads.submit(() -> tries("a", 100)));
      }
      int in = 0;
      for (Future<Integer> part : parts) {
        in += part.get();
      }
      int all = in;
      assertTrue(all >= 200 && all <= 216, () -> "let in: " + all);
      assertEquals(in, waiting("a"));
    }
  }

  @Test
  void what_rolled_back_does_not_fill_the_backlog() throws Exception {
    limit("a", null, null, 10L);
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      for (int i = 0; i < 10; i++) {
        long _ = queue.enqueue(connection, NewJob.of("k", "{}").withTenant("a"));
      }
      connection.rollback();
      connection.setAutoCommit(true);
    }
    assertEquals(10, tries("a", 20));
  }

  // ------------------------------------------------------------------------------------- every
  // door

  @Test
  void every_door_is_limited() throws Exception {
    limit("a", null, null, 3L);
    assertEquals(3, tries("a", 3));
    refused("WB002", () -> DB.execute("INSERT INTO waybill.jobs (kind, tenant) VALUES ('k', 'a')"));
    refused(
        "WB002",
        () -> DB.execute("SELECT waybill.enqueue_many('k', ARRAY['{}']::jsonb[], tenant => 'a')"));
    refused("WB002", () -> queue.enqueue(NewJob.of("k", "{}").withTenant("a")));
    try (Connection connection = DB.connect()) {
      refused(
          "WB002",
          () ->
              queue.enqueue(
                  connection, List.of(NewJob.of("k", "{}"), NewJob.of("k", "{}").withTenant("a"))));
      queue.takeRooms(connection, java.util.Map.of("a", 1), true);
    }
    assertEquals(3, DB.number("SELECT count(*) FROM waybill.jobs"), "all or nothing");
  }

  @Test
  void who_asks_for_a_job_that_is_there_needs_no_room() throws Exception {
    limit("a", null, null, 1L);
    String keyed = "SELECT waybill.enqueue('k', tenant => 'a', dedupe_key => 'order-1')";
    long id = DB.number(keyed);
    assertEquals(id, DB.number(keyed));
    refused("WB002", () -> enqueue("a"));
  }

  /** In sessions that have the plans of the function without limits. */
  @Test
  void a_limit_is_heeded_by_sessions_that_were_there_before_and_so_is_its_end() throws Exception {
    try (Connection connection = DB.connect()) {
      for (int i = 0; i < 12; i++) {
        long _ = queue.enqueue(connection, NewJob.of("k", "{}").withTenant("a"));
      }
      limit("a", null, null, 12L);
      refused("WB002", () -> queue.enqueue(connection, NewJob.of("k", "{}").withTenant("a")));
      limit("a", null, null, 13L);
      long _ = queue.enqueue(connection, NewJob.of("k", "{}").withTenant("a"));
      refused("WB002", () -> queue.enqueue(connection, NewJob.of("k", "{}").withTenant("a")));
      assertTrue(DB.is("SELECT waybill.unlimit_tenant('a')"));
      long _ = queue.enqueue(connection, NewJob.of("k", "{}").withTenant("a"));
    }
    assertFalse(DB.is("SELECT waybill.unlimit_tenant('a')"));
  }

  @Test
  void a_limit_that_makes_no_sense_is_refused_with_what_would() {
    for (String[] wrong :
        new String[][] {
          {"'a', 0", "rate_per_second"},
          {"'a', 'NaN'", "rate_per_second"},
          {"'a', 1, 0", "burst"},
          {"'a', NULL, 5", "burst"},
          {"'a', NULL, NULL, 0", "backlog_max"},
          {"'a'", "rate_per_second"},
          {"NULL, 1", "tenant"},
          {"repeat('x', 129), 1", "tenant"}
        }) {
      PSQLException failure =
          assertThrows(
              PSQLException.class,
              () -> DB.execute("SELECT waybill.limit_tenant(" + wrong[0] + ")"));
      ServerErrorMessage said = failure.getServerErrorMessage();
      assertEquals(wrong[1], said == null ? "" : said.getColumn(), wrong[0]);
      assertEquals("22023", failure.getSQLState());
    }
  }

  @Test
  void what_is_left_of_old_limits_is_dropped() throws Exception {
    long before = DB.number("SELECT count(*) FROM pg_class WHERE relkind = 'S'");
    limit("a", 10.0, 5L, 7L);
    limit("a", 20.0, null, null);
    assertTrue(DB.is("SELECT waybill.unlimit_tenant('a')"));
    assertEquals(before + 3, DB.number("SELECT count(*) FROM pg_class WHERE relkind = 'S'"));
    assertEquals(0, drop(), "not yet");
    DB.execute("UPDATE waybill.spent_sequences SET at = at - interval '2 hours'");
    assertEquals(3, drop());
    assertEquals(before, DB.number("SELECT count(*) FROM pg_class WHERE relkind = 'S'"));
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.spent_sequences"));
  }

  @Test
  void a_sequence_that_cannot_be_dropped_keeps_no_other_and_nothing_else_is_dropped()
      throws Exception {
    limit("a", 10.0, 5L, null);
    limit("a", 20.0, 5L, null);
    limit("a", 30.0, 5L, null);
    String held =
        DB.column("SELECT sequence::text FROM waybill.spent_sequences ORDER BY at").getFirst();
    DB.execute("CREATE SEQUENCE public.tenant_rate_1");
    DB.execute(
        """
        INSERT INTO waybill.spent_sequences (sequence)
        VALUES ('public.tenant_rate_1'), ('waybill.jobs'), ('waybill.tenant_limit_ids'), (4000000000::oid::regclass)
        """);
    DB.execute(
        "INSERT INTO waybill.spent_sequences (sequence) SELECT rate_seq FROM waybill.tenant_limits");
    DB.execute("UPDATE waybill.spent_sequences SET at = at - interval '2 hours'");
    try (Connection connection = DB.connect();
        var statement = connection.createStatement()) {
      connection.setAutoCommit(false);
      statement.execute("SELECT nextval('" + held + "')");
      assertEquals(7, drop());
      connection.rollback();
      connection.setAutoCommit(true);
    }
    assertEquals(List.of(held), DB.column("SELECT sequence::text FROM waybill.spent_sequences"));
    assertEquals(0, drop(), "not again at once");
    assertEquals(1, tries("a", 1), "the one in use is there");
    DB.execute("DROP SEQUENCE public.tenant_rate_1");
    DB.execute("SELECT nextval('waybill.tenant_limit_ids')");
  }

  @Test
  void a_count_that_is_cut_short_is_not_made_again_at_once() throws Exception {
    limit("a", null, null, 20_000L);
    DB.execute(
        "SELECT waybill.enqueue_many('k', array_fill('{}'::jsonb, ARRAY[10000]), tenant => 'a')");
    String seq = DB.column("SELECT backlog_seq::text FROM waybill.tenant_limits").getFirst();
    DB.execute("SELECT setval('" + seq + "', 20000)");
    try (Connection connection = DB.connect();
        Connection other = DB.connect();
        var lock = other.createStatement();
        var statement = connection.createStatement()) {
      other.setAutoCommit(false);
      // Whoever counts waits for this, and is cut short.
      lock.execute("LOCK TABLE waybill.jobs");
      statement.execute("SET lock_timeout = 0");
      statement.execute("SET statement_timeout = '2s'");
      PSQLException cut =
          assertThrows(
              PSQLException.class, () -> statement.execute("SELECT waybill.take_room('a', 1)"));
      assertEquals("57014", cut.getSQLState());
      // Two seconds, and a minute more for this test to ask: who counts again waits, and is refused
      // in another way.
      DB.execute("UPDATE waybill.tenant_limits SET since = since + interval '1 minute'");
      statement.execute("SET lock_timeout = '1s'");
      statement.execute("SET statement_timeout = 0");
      String detail =
          String.valueOf(
              refused("WB002", () -> statement.execute("SELECT waybill.take_room('a', 1)"))
                  .getDetail());
      assertTrue(detail.matches("retry after [56][0-9]{4} ms"), detail);
      DB.execute("UPDATE waybill.tenant_limits SET since = since - interval '1 minute'");
      other.rollback();
      other.setAutoCommit(true);
    }
    org.awaitility.Awaitility.await("room").until(() -> tries("a", 1) == 1);
    assertEquals(10_001, DB.number("SELECT pg_sequence_last_value('" + seq + "')"));
  }
}
