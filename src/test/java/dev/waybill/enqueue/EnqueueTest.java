package dev.waybill.enqueue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class EnqueueTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Queue queue = new Queue(DB.dataSource());

  @AfterEach
  void audit() throws SQLException {
    DB.auditIsClean();
  }

  @Test
  void a_plain_row_of_a_stranger_works() throws SQLException {
    DB.execute("INSERT INTO waybill.jobs (kind, payload) VALUES ('k', '{\"a\": 1}')");
    Claimed job = jobs.claimOne("k");
    assertEquals("{\"a\": 1}", job.payload());
  }

  @Test
  void the_java_door_carries_everything() throws SQLException {
    long id =
        queue.enqueue(
            NewJob.of("k", "{\"a\": [1]}")
                .withTenant("acme")
                .withPriority(-7)
                .withRunAt(OffsetDateTime.parse("2001-02-03T04:05:06Z"))
                .withDedupeKey("order-1")
                .withMaxAttempts(4)
                .withTags(List.of("x", "y"))
                .withPayloadVersion(3));
    assertTrue(
        DB.is(
            """
            SELECT payload = '{"a": [1]}' AND tenant = 'acme' AND priority = -7 AND run_at = '2001-02-03T04:05:06Z' AND state = 'ready'
              AND dedupe_key = 'order-1' AND max_attempts = 4 AND tags = '{x,y}' AND payload_version = 3
            FROM waybill.all_jobs WHERE id = ?
            """,
            id));
  }

  @Test
  void a_delay_counts_from_the_databases_now() throws SQLException {
    long id = queue.enqueue(NewJob.of("k", "{}").withDelay(Duration.ofMinutes(10)));
    assertEquals("scheduled", DB.state(id));
    assertTrue(
        DB.is("SELECT run_at - created_at = interval '10 min' FROM waybill.jobs WHERE id = ?", id));
  }

  @Test
  void enqueued_in_a_transaction_that_rolls_back_it_never_was() throws SQLException {
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      queue.enqueue(connection, NewJob.of("k", "{}"));
      TestDatabase.column(
          connection, "SELECT waybill.enqueue_many('k', ARRAY['{}', '{}']::jsonb[])");
      connection.rollback();
      connection.setAutoCommit(true);
    }
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.all_jobs"));
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.counts"));
  }

  @Test
  void enqueued_in_a_transaction_nobody_sees_it_before_the_commit() throws SQLException {
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      queue.enqueue(connection, NewJob.of("k", "{}"));
      assertEquals(List.of(), jobs.claim("k", 1));
      connection.commit();
      connection.setAutoCommit(true);
    }
    assertEquals(1, jobs.claim("k", 1).size());
  }

  @Test
  void one_dedupe_key_is_one_job_from_sixteen_sessions_at_once() throws Exception {
    for (int round = 0; round < 10; round++) {
      var job = NewJob.of("k", "{}").withDedupeKey("key-" + round);
      try (var sessions = Executors.newFixedThreadPool(16)) {
        var ids = new HashSet<Long>();
        var calls =
            IntStream.range(0, 16)
                .mapToObj(_ -> (Callable<Long>) () -> queue.enqueue(job))
                .toList();
        for (var call : sessions.invokeAll(calls)) {
          ids.add(call.get());
        }
        assertEquals(1, ids.size(), ids.toString());
      }
    }
    assertEquals(10, DB.number("SELECT count(*) FROM waybill.jobs"));
    assertEquals(10, DB.number("SELECT sum(n) FROM waybill.counts"));
  }

  @Test
  void a_dedupe_key_is_taken_while_its_job_lives_and_free_after() throws SQLException {
    var keyed = NewJob.of("k", "{}").withDedupeKey("d");
    long first = queue.enqueue(keyed);
    assertEquals(first, queue.enqueue(keyed));
    assertNotEquals(first, queue.enqueue(NewJob.of("other", "{}").withDedupeKey("d")));
    Claimed job = jobs.claimOne("k");
    assertEquals(first, queue.enqueue(keyed), "while it runs");
    assertTrue(jobs.settle(job, Outcome.retry("x")));
    assertEquals(first, queue.enqueue(keyed), "while it waits for a retry");
    jobs.due(first);
    assertTrue(jobs.settle(jobs.claimOne("k"), Outcome.done()));
    assertNotEquals(first, queue.enqueue(keyed), "after it was done");
  }

  @Test
  void a_plain_insert_of_a_taken_key_is_refused_by_the_index() throws SQLException {
    queue.enqueue(NewJob.of("k", "{}").withDedupeKey("d"));
    var refused =
        assertThrows(
            SQLException.class,
            () -> DB.execute("INSERT INTO waybill.jobs (kind, dedupe_key) VALUES ('k', 'd')"));
    assertEquals("23505", refused.getSQLState());
  }

  @Test
  void a_plain_row_that_comes_to_nothing_is_not_counted() throws Exception {
    String unlessTaken =
        "INSERT INTO waybill.jobs (kind, dedupe_key) VALUES ('k', 'd') ON CONFLICT DO NOTHING";
    try (Connection first = DB.connect();
        var sessions = Executors.newVirtualThreadPerTaskExecutor()) {
      first.setAutoCommit(false);
      TestDatabase.execute(first, unlessTaken);
      var second = sessions.submit(() -> DB.execute(unlessTaken));
      // It passed the trigger and waits at the index for the end of the first.
      Awaitility.await()
          .until(() -> DB.is("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"));
      first.commit();
      first.setAutoCommit(true);
      assertEquals(0, second.get());
    }
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, dedupe_key, priority) VALUES ('k', 'd', 3)
        ON CONFLICT (kind, tenant, dedupe_key) WHERE dedupe_key IS NOT NULL DO UPDATE SET priority = excluded.priority
        """);
    assertEquals(1, DB.number("SELECT count(*) FROM waybill.jobs WHERE priority = 3"));
    assertEquals(1, DB.number("SELECT sum(n) FROM waybill.counts"));
    assertTrue(DB.is("SELECT NOT EXISTS (SELECT FROM waybill.plain_keyed)"));
  }

  @Test
  void plain_rows_are_counted_with_a_key_and_without_now_and_for_later() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, dedupe_key, run_at)
        VALUES ('k', NULL, now()), ('k', NULL, now() + interval '1 hour'), ('k', 'a', now()), ('k', 'b', now() + interval '1 hour')
        """);
    assertEquals(4, DB.number("SELECT sum(n) FROM waybill.counts WHERE what = 'enqueued'"));
    assertEquals(2, DB.number("SELECT sum(n) FROM waybill.counts WHERE what = 'scheduled'"));
  }

  @Test
  void plain_rows_are_counted_where_all_constraints_are_immediate() throws SQLException {
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      TestDatabase.execute(connection, "SET CONSTRAINTS ALL IMMEDIATE");
      TestDatabase.execute(
          connection,
          "INSERT INTO waybill.jobs (kind, dedupe_key, run_at) VALUES ('k', 'a', now()), ('k', 'b', now() + interval '1 hour')");
      TestDatabase.execute(connection, "SET CONSTRAINTS ALL IMMEDIATE");
      connection.commit();
      connection.setAutoCommit(true);
    }
    assertEquals(2, DB.number("SELECT sum(n) FROM waybill.counts WHERE what = 'enqueued'"));
    assertEquals(1, DB.number("SELECT sum(n) FROM waybill.counts WHERE what = 'scheduled'"));
  }

  /** It would lock each day of it, and run by the owner's right what its own owner hangs on it. */
  @Test
  void counting_a_plain_row_with_a_key_does_not_touch_the_history() throws SQLException {
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      TestDatabase.execute(
          connection, "INSERT INTO waybill.jobs (kind, dedupe_key) VALUES ('k', 'a')");
      TestDatabase.execute(connection, "SET CONSTRAINTS ALL IMMEDIATE");
      assertEquals(
          List.of("arrivals", "jobs", "plain_keyed"),
          TestDatabase.column(
              connection,
              """
              SELECT DISTINCT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
              WHERE l.pid = pg_backend_pid() AND c.relkind IN ('r', 'p') AND c.relnamespace = 'waybill'::regnamespace
                AND (c.relname IN ('jobs', 'plain_keyed', 'arrivals') OR c.relname LIKE 'jobs\\_%') ORDER BY 1
              """));
      connection.commit();
      connection.setAutoCommit(true);
    }
  }

  @Test
  void a_plain_row_that_is_cancelled_by_its_own_statement_came_and_went() throws SQLException {
    for (String row : List.of("NULL, now()", "'d', now()", "'e', now() + interval '1 hour'")) {
      DB.execute(
          "WITH came AS (INSERT INTO waybill.jobs (kind, dedupe_key, run_at) VALUES ('k', "
              + row
              + ") RETURNING id) SELECT waybill.cancel(id) FROM came");
    }
    assertEquals(3, DB.number("SELECT count(*) FROM waybill.jobs_done WHERE state = 'cancelled'"));
    assertEquals(3, DB.number("SELECT sum(n) FROM waybill.counts WHERE what = 'enqueued'"));
    assertEquals(0, DB.number("SELECT sum(n) FROM waybill.counts WHERE what = 'scheduled'"));
    assertTrue(DB.is("SELECT NOT EXISTS (SELECT FROM waybill.plain_keyed)"));
  }

  @Test
  void plain_rows_of_what_is_rolled_back_are_not_counted() throws SQLException {
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      for (String key : List.of("NULL", "'d'")) {
        var savepoint = connection.setSavepoint();
        String insert = "INSERT INTO waybill.jobs (kind, dedupe_key) VALUES ('k', " + key + ")";
        TestDatabase.execute(connection, insert);
        connection.rollback(savepoint);
        TestDatabase.execute(connection, insert);
      }
      connection.commit();
      connection.setAutoCommit(true);
    }
    assertEquals(2, DB.number("SELECT count(*) FROM waybill.jobs"));
    assertEquals(2, DB.number("SELECT sum(n) FROM waybill.counts"));
  }

  @Test
  void many_at_once_answer_their_ids_in_the_order_of_the_payloads() throws SQLException {
    var ids =
        DB.column(
            """
            SELECT waybill.enqueue_many('k', (SELECT array_agg(to_jsonb(n) ORDER BY n) FROM generate_series(1, 5000) n), tenant => 'acme')
            """);
    assertEquals(5_000, ids.size());
    for (int i = 0; i < ids.size(); i += 499) {
      assertEquals(
          i + 1,
          DB.number(
              "SELECT payload #>> '{}' FROM waybill.jobs WHERE tenant = 'acme' AND id = ?",
              Long.valueOf(String.valueOf(ids.get(i)))));
    }
    assertEquals(1, DB.number("SELECT count(*) FROM waybill.counts"));
  }

  @Test
  void none_at_once_is_none() throws SQLException {
    assertEquals(List.of(), DB.column("SELECT waybill.enqueue_many('k', '{}'::jsonb[])"));
    assertEquals(List.of(), DB.column("SELECT waybill.enqueue_many('k', NULL)"));
  }

  @Test
  void cancelling_works_once_and_for_jobs_that_live() throws SQLException {
    long id = DB.enqueue("k");
    assertTrue(DB.is("SELECT waybill.cancel(?)", id));
    assertEquals("cancelled", DB.state(id));
    assertTrue(DB.is("SELECT NOT waybill.cancel(?)", id));
    assertTrue(DB.is("SELECT NOT waybill.cancel(?)", 9_000_000_000_000_000_000L));
    assertEquals(List.of(), jobs.claim("k", 1));
  }

  @Test
  void a_cancelled_running_job_keeps_its_attempt_in_its_history() throws SQLException {
    Claimed job = jobs.running("k");
    assertTrue(DB.is("SELECT waybill.cancel(?)", job.id()));
    assertEquals("cancelled", DB.text("SELECT attempts -> 0 ->> 'outcome' FROM waybill.jobs_done"));
  }

  @Test
  void producers_may_call_the_functions_and_nothing_else() throws SQLException {
    try (Connection producer = DB.connect()) {
      producer.setAutoCommit(false);
      TestDatabase.execute(producer, "SET LOCAL ROLE waybill_producer");
      assertEquals(
          1, TestDatabase.column(producer, "SELECT waybill.enqueue('k', tenant => 'a')").size());
      TestDatabase.column(producer, "SELECT waybill.enqueue_many('k', ARRAY['{}']::jsonb[])");
      TestDatabase.column(producer, "SELECT waybill.cancel(1)");
      producer.commit();
      for (String forbidden :
          List.of(
              "SELECT * FROM waybill.jobs",
              "INSERT INTO waybill.jobs (kind) VALUES ('k')",
              "UPDATE waybill.jobs SET priority = 1",
              "DELETE FROM waybill.jobs",
              "SELECT * FROM waybill.all_jobs",
              "SELECT * FROM waybill.jobs_done",
              "SELECT * FROM waybill.jobs_dead",
              "SELECT * FROM waybill.audit()",
              "SELECT waybill.make_partitions()",
              "UPDATE waybill.limits SET payload_bytes_max = 1")) {
        TestDatabase.execute(producer, "SET LOCAL ROLE waybill_producer");
        var refused =
            assertThrows(
                SQLException.class, () -> TestDatabase.execute(producer, forbidden), forbidden);
        assertEquals("42501", refused.getSQLState(), forbidden);
        producer.rollback();
      }
      producer.setAutoCommit(true);
    }
  }

  /** Or producers would run what they like by the owner's right. */
  @Test
  void what_a_producer_puts_before_the_names_of_postgresql_is_not_called() throws SQLException {
    DB.execute("CREATE SCHEMA before");
    DB.execute(
        """
        CREATE FUNCTION before.caught(text, text) RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'called by the right of %', current_user; END $$
        """);
    for (String operator : List.of("=", "<>", "~", "!~", "~~", "!~~", "||")) {
      DB.execute(
          "CREATE OPERATOR before."
              + operator
              + " (FUNCTION = before.caught, LEFTARG = text, RIGHTARG = text)");
    }
    for (String function :
        List.of(
            "octet_length(text)",
            "length(text)",
            "hashtext(text)",
            "pg_sequence_last_value(regclass)",
            "pg_column_size(jsonb)",
            "jsonb_out(jsonb)",
            "int8(integer)")) {
      DB.execute(
          "CREATE FUNCTION before."
              + function
              + " RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called by the right of %', current_user; END $$");
    }
    DB.execute("GRANT USAGE ON SCHEMA before TO waybill_producer");
    DB.execute("SELECT waybill.arm('{k}')");
    for (String door :
        List.of(
            "enqueue('k', tenant => 'a')",
            "enqueue('k', tenant => repeat('a', 100))",
            "enqueue('k', dedupe_key => 'a')",
            "enqueue_many('k', ARRAY['{}']::jsonb[])",
            "cancel(1)")) {
      assertEquals(1, behindThatSchema("SELECT waybill." + door), door);
    }
    assertThrows(SQLException.class, () -> behindThatSchema("SELECT 'a'::text ~ 'a'::text"));
    DB.execute("DROP SCHEMA before CASCADE");
    assertEquals(4, DB.number("SELECT count(*) FROM waybill.jobs"));
  }

  /** It has no search_path of its own: see there. */
  @Test
  void the_usual_way_names_the_schema_of_all_it_uses() throws SQLException {
    String body =
        String.valueOf(
                DB.text(
                    "SELECT prosrc FROM pg_proc WHERE oid = 'waybill.enqueue_usual'::regproc AND proconfig IS NULL"))
            .replaceAll("(?m)--.*$|^#.*$", "")
            .replaceAll("'[^']*'", "''")
            .replaceAll("OPERATOR\\(pg_catalog\\.=\\)", "");
    assertTrue(body.contains("INSERT INTO waybill.jobs"), body);
    assertFalse(Pattern.compile("[-+*/<>=~!@#%^&|`?]|::").matcher(body).find(), body);
    // A call without a schema. After a word of SQL itself there is a space before the parenthesis.
    assertFalse(Pattern.compile("(?<![.\\w])\\w+\\(").matcher(body).find(), body);
  }

  private static int behindThatSchema(String sql) throws SQLException {
    try (Connection producer = DB.connect()) {
      producer.setAutoCommit(false);
      try {
        TestDatabase.execute(producer, "SET LOCAL ROLE waybill_producer");
        TestDatabase.execute(producer, "SET LOCAL search_path = before, pg_catalog");
        int rows = TestDatabase.column(producer, sql).size();
        producer.commit();
        return rows;
      } finally {
        producer.rollback();
        producer.setAutoCommit(true);
      }
    }
  }

  @Test
  void a_kind_that_is_refused_leaves_nothing() throws SQLException {
    for (String kind :
        List.of("K", "-a", "a b", "1", "\u00fc", "", "x".repeat(65), "x".repeat(400))) {
      var refused =
          assertThrows(
              SQLException.class, () -> DB.text("SELECT waybill.enqueue(?)", kind), () -> kind);
      assertEquals("22023", refused.getSQLState(), kind);
      assertTrue(refused.toString().contains("kind is missing or not valid"), kind);
    }
    assertTrue(
        DB.is(
            "SELECT NOT EXISTS (SELECT FROM waybill.jobs) AND NOT EXISTS (SELECT FROM waybill.counts)"));
  }

  @Test
  void a_tenant_is_refused_for_its_own_sake_however_long_its_kind_is() throws SQLException {
    for (String kind : List.of("k", "k".repeat(64))) {
      for (String tenant : List.of("a\tb", "\u0085", "x".repeat(129), "\u00fc".repeat(129))) {
        var refused =
            assertThrows(
                SQLException.class,
                () -> DB.text("SELECT waybill.enqueue(?, tenant => ?)", kind, tenant));
        assertEquals("22023", refused.getSQLState());
        assertTrue(refused.toString().contains("tenant is not valid"));
      }
      for (String tenant : List.of("", "a b", "K", "x".repeat(128), "\u00fc".repeat(128))) {
        String id = DB.text("SELECT waybill.enqueue(?, tenant => ?)", kind, tenant);
        assertTrue(
            DB.is(
                "SELECT kind = ? AND tenant = ? FROM waybill.jobs WHERE id = ?::bigint",
                kind,
                tenant,
                id));
      }
    }
    assertTrue(DB.is("SELECT NOT EXISTS (SELECT FROM waybill.jobs WHERE kind = '')"));
    assertThrows(SQLException.class, () -> DB.text("SELECT waybill.enqueue('', tenant => 'a')"));
  }

  @Test
  void a_null_is_a_default_in_each_argument_but_the_kind() throws SQLException {
    DB.text("SELECT waybill.enqueue('k', NULL)");
    DB.text("SELECT waybill.enqueue('k', tenant => NULL)");
    DB.text("SELECT waybill.enqueue('k', priority => NULL)");
    DB.text("SELECT waybill.enqueue('k', payload_version => NULL)");
    assertEquals(
        "4",
        DB.text(
            "SELECT count(*) FROM waybill.jobs WHERE payload = '{}' AND tenant = '' AND priority = 0 AND payload_version = 1"));
  }

  @Test
  void arguments_that_must_be_computed_once_are_computed_once() throws SQLException {
    DB.execute("CREATE SEQUENCE once");
    DB.text("SELECT waybill.enqueue('k', jsonb_build_object('n', nextval('once')))");
    DB.text("SELECT waybill.enqueue('k', priority => nextval('once')::integer)");
    DB.text("SELECT waybill.enqueue('k', tenant => (SELECT 't' || nextval('once')))");
    assertEquals("3", DB.text("SELECT last_value FROM once"));
    DB.execute("DROP SEQUENCE once");
  }
}
