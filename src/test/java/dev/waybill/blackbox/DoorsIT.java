package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;

/** What comes in through the doors, good and bad, and what becomes of it. */
@ExtendWith(Processes.class)
final class DoorsIT {

  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final int PAYLOAD_BYTES_MAX = 262_144;

  private static TestDatabase database;
  private static Rest rest;

  @BeforeAll
  static void start() throws SQLException {
    database = TestPostgres.shared().newDatabase();
    database.policy("fail", "backoff_base_ms = 20, backoff_jitter = false, max_attempts = 3");
    rest =
        ServiceProcess.on(database)
            .with("WAYBILL_POOLS", "default=*:16;one=sleep:1;ghosts=ghost:4")
            .startReady()
            .rest();
  }

  private static void awaitState(long id, String state) {
    Awaitility.await("job " + id)
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(20))
        .untilAsserted(() -> assertEquals(state, database.state(id)));
  }

  private static long enqueueByRest(String body) throws IOException {
    Rest.Answer answer = rest.post("/v1/jobs", body);
    assertEquals(201, answer.status(), answer.body());
    return answer.json().get("id").asLong();
  }

  /** The queue goes on: a job that comes after whatever happened is done. */
  private static void assertGoesOn() throws SQLException {
    awaitState(database.enqueue("echo", "{\"after\": true}"), "done");
  }

  @Test
  void a_job_enqueued_over_rest_is_done_and_its_result_is_its_payload() throws Exception {
    Rest.Answer answer =
        rest.post(
            "/v1/jobs",
            """
            {"kind": "echo", "payload": {"text": "Grüße \\uD83D\\uDE00", "n": [1, 2.5, null]}, "tenant": "acme",
             "priority": 3, "tags": ["a", "b"], "maxAttempts": 4}
            """);
    assertEquals(201, answer.status(), answer.body());
    long id = answer.json().get("id").asLong();
    assertEquals("/v1/jobs/" + id, answer.location().replaceFirst("^https?://[^/]+", ""));
    awaitState(id, "done");

    JsonNode job = rest.job(id);
    assertEquals(job.get("payload"), job.get("result"), job::toString);
    assertEquals("Grüße \uD83D\uDE00", job.at("/result/text").asText());
    assertEquals("acme", job.get("tenant").asText());
    assertEquals(3, job.get("priority").asInt());
    assertEquals(4, job.get("maxAttempts").asInt());
    assertEquals(1, job.get("attempt").asInt());
    assertEquals("[\"a\",\"b\"]", job.get("tags").toString());
    assertEquals(1, job.get("attempts").size(), job::toString);
    assertEquals("done", job.at("/attempts/0/outcome").asText());
    assertTrue(job.hasNonNull("finishedAt") && job.hasNonNull("worker"), job::toString);
  }

  @Test
  void a_job_enqueued_by_the_sql_function_is_seen_only_after_the_callers_commit() throws Exception {
    long id;
    try (Connection connection = database.connect();
        Statement statement = connection.createStatement()) {
      connection.setAutoCommit(false);
      var row = statement.executeQuery("SELECT waybill.enqueue('echo', '{\"by\": \"sql\"}')");
      row.next();
      id = row.getLong(1);
      assertEquals(404, rest.get("/v1/jobs/" + id).status());
      assertGoesOn();
      connection.commit();
    }
    awaitState(id, "done");
    assertEquals("sql", rest.job(id).at("/result/by").asText());
  }

  @Test
  void a_job_whose_transaction_rolls_back_never_was() throws Exception {
    long id;
    try (Connection connection = database.connect();
        Statement statement = connection.createStatement()) {
      connection.setAutoCommit(false);
      var row = statement.executeQuery("SELECT waybill.enqueue('echo')");
      row.next();
      id = row.getLong(1);
      connection.rollback();
    }
    assertGoesOn();
    assertEquals("nothing", database.state(id));
  }

  @Test
  void a_plain_row_is_a_job() throws Exception {
    long id =
        database.number(
            "INSERT INTO waybill.jobs (kind, payload) VALUES ('echo', '{\"by\": \"row\"}') RETURNING id");
    awaitState(id, "done");
    assertEquals("row", rest.job(id).at("/result/by").asText());
  }

  @Test
  void many_at_once_are_all_done() throws Exception {
    List<Long> ids = database.enqueueMany("echo", "{\"many\": 1}", 2_000);
    assertEquals(2_000, ids.stream().distinct().count());
    Awaitility.await("all done")
        .atMost(PATIENCE)
        .until(() ->
            database.number(
                    "SELECT count(*) FROM waybill.jobs_done WHERE jsonb_exists(payload, 'many')")
                == 2_000);
  }

  @Test
  void a_failing_job_is_tried_again_until_it_succeeds() throws Exception {
    long id =
        enqueueByRest(
            "{\"kind\": \"fail\", \"payload\": {\"message\": \"not yet\", \"times\": 2}}");
    awaitState(id, "done");
    JsonNode job = rest.job(id);
    assertEquals(3, job.get("attempt").asInt());
    assertEquals(0, job.get("crashes").asInt());
    assertEquals(3, job.get("attempts").size(), job::toString);
    assertEquals("retry", job.at("/attempts/0/outcome").asText());
    assertTrue(job.at("/attempts/1/error").asText().contains("not yet"), job::toString);
    assertEquals("done", job.at("/attempts/2/outcome").asText());
  }

  @Test
  void a_job_that_fails_on_its_last_attempt_is_a_dead_letter_with_its_reasons() throws Exception {
    long first = database.enqueue("fail", "{\"message\": \"order 4711 is broken\"}");
    long second = database.enqueue("fail", "{\"message\": \"order 42 is broken\"}");
    long third =
        database.number(
            "SELECT waybill.enqueue('fail', '{\"message\": \"something else\"}', max_attempts => 1)");
    awaitState(first, "dead");
    awaitState(second, "dead");
    awaitState(third, "dead");
    JsonNode job = rest.job(first);
    assertEquals(3, job.get("attempt").asInt());
    assertEquals(3, job.get("attempts").size(), job::toString);
    assertEquals("dead", job.at("/attempts/2/outcome").asText());
    assertTrue(job.get("lastError").asText().contains("order 4711 is broken"), job::toString);
    assertEquals(1, rest.job(third).get("attempts").size());
    assertEquals(fingerprint(first), fingerprint(second));
    assertNotEquals(fingerprint(first), fingerprint(third));
  }

  private static String fingerprint(long id) throws SQLException {
    return database.text("SELECT fingerprint FROM waybill.jobs_dead WHERE id = ?", id);
  }

  @Test
  void a_payload_that_the_handler_cannot_read_is_a_dead_letter_at_once_and_is_not_quoted()
      throws Exception {
    long id = database.enqueue("sleep", "{\"ms\": \"secret words\"}");
    awaitState(id, "dead");
    JsonNode job = rest.job(id);
    assertEquals(1, job.get("attempt").asInt());
    assertTrue(job.get("lastError").asText().contains("ms"), job::toString);
    assertTrue(!job.get("lastError").asText().contains("secret"), job::toString);
  }

  @Test
  void cancelling_a_running_job_interrupts_its_handler() throws Exception {
    double lostBefore = rest.metric("waybill_lease_lost_total");
    long id = database.enqueue("sleep", "{\"ms\": 600000}");
    awaitState(id, "running");
    assertTrue(database.truth("SELECT waybill.cancel(?)", id));
    awaitState(id, "cancelled");
    assertTrue(!database.truth("SELECT waybill.cancel(?)", id), "it is over");
    // The pool has one slot: that this one runs shows that the handler let it go.
    awaitState(database.enqueue("sleep", "{\"ms\": 1}"), "done");
    assertEquals(lostBefore, rest.metric("waybill_lease_lost_total"), "it is no lost lease");
    assertEquals("cancelled", database.state(id));
  }

  @Test
  void cancelling_a_waiting_job_keeps_it_from_running() throws Exception {
    long id =
        database.number("SELECT waybill.enqueue('echo', run_at => now() + interval '1 hour')");
    assertTrue(database.truth("SELECT waybill.cancel(?)", id));
    assertEquals("cancelled", rest.job(id).get("state").asText());
    assertEquals(0, rest.job(id).get("attempt").asInt());
  }

  @Test
  void one_live_job_has_a_dedupe_key_by_whatever_door() throws Exception {
    String sql =
        "SELECT waybill.enqueue('echo', dedupe_key => 'order-7', run_at => now() + interval '1 hour')";
    long first = database.number(sql);
    assertEquals(first, database.number(sql));
    assertEquals(first, enqueueByRest("{\"kind\": \"echo\", \"dedupeKey\": \"order-7\"}"));
    assertThrows(
        SQLException.class,
        () ->
            database.execute(
                "INSERT INTO waybill.jobs (kind, dedupe_key) VALUES ('echo', 'order-7')"));
    assertTrue(database.truth("SELECT waybill.cancel(?)", first));
    long next = enqueueByRest("{\"kind\": \"echo\", \"dedupeKey\": \"order-7\"}");
    assertNotEquals(first, next);
    awaitState(next, "done");
  }

  @Test
  void no_attempt_starts_before_its_time() throws Exception {
    long bySql =
        database.number("SELECT waybill.enqueue('echo', run_at => now() + interval '6 s')");
    long byRest = enqueueByRest("{\"kind\": \"echo\", \"delay\": \"PT6S\"}");
    assertEquals("scheduled", database.state(bySql));
    assertGoesOn();
    for (long id : List.of(bySql, byRest)) {
      awaitState(id, "done");
      assertTrue(
          database.truth("SELECT started_at >= run_at FROM waybill.all_jobs WHERE id = ?", id));
      assertTrue(
          database.truth(
              "SELECT started_at < run_at + interval '15 s' FROM waybill.all_jobs WHERE id = ?",
              id));
    }
  }

  @Test
  void smaller_priorities_go_first() throws Exception {
    long blocker = database.enqueue("sleep", "{\"ms\": 700}");
    awaitState(blocker, "running");
    database.execute(
        "SELECT waybill.enqueue('sleep', '{\"ms\": 0}', priority => p, tags => '{prio}') FROM unnest(ARRAY[5, -1, 3]) p");
    Awaitility.await("all done")
        .atMost(PATIENCE)
        .until(() ->
            database.number("SELECT count(*) FROM waybill.jobs_done WHERE tags = '{prio}'") == 3);
    assertEquals(
        List.of("-1", "3", "5"),
        database.texts(
            "SELECT priority FROM waybill.jobs_done WHERE tags = '{prio}' ORDER BY started_at"));
  }

  @Test
  void a_kind_that_this_build_does_not_know_is_left_alone() throws Exception {
    long id = database.enqueue("ghost", "{}");
    assertGoesOn();
    assertGoesOn();
    assertEquals("ready", database.state(id));
    assertEquals(0, rest.job(id).get("attempt").asInt());
    assertTrue(database.truth("SELECT waybill.cancel(?)", id));
  }

  @Test
  void a_payload_newer_than_the_handler_is_left_for_a_newer_build() throws Exception {
    long id = database.number("SELECT waybill.enqueue('echo', payload_version => 2)");
    // In the same lane, behind it.
    List<Long> behind = database.enqueueMany("echo", "{}", 50);
    awaitState(behind.getLast(), "done");
    assertGoesOn();
    assertEquals("ready", database.state(id));
    assertEquals(0, rest.job(id).get("attempt").asInt());
    assertTrue(database.truth("SELECT waybill.cancel(?)", id));
  }

  @Test
  void a_paused_kind_waits_until_it_is_resumed_and_others_do_not() throws Exception {
    database.policy("fail", "paused = true");
    try {
      Awaitility.await("the pause is heeded")
          .atMost(PATIENCE)
          .until(() -> {
            long probe = database.enqueue("fail", "{\"times\": 0}");
            assertGoesOn();
            assertGoesOn();
            return database.state(probe).equals("ready");
          });
    } finally {
      database.policy("fail", "paused = false");
    }
    Awaitility.await("it goes on")
        .atMost(PATIENCE)
        .until(() -> database.number("SELECT count(*) FROM waybill.jobs WHERE kind = 'fail'") == 0);
  }

  @Test
  void ids_above_two_to_the_31_are_ids_like_others() throws Exception {
    database.execute("ALTER TABLE waybill.jobs ALTER COLUMN id RESTART WITH 3000000000");
    long id = enqueueByRest("{\"kind\": \"fail\", \"payload\": {\"times\": 1}}");
    assertTrue(id >= 3_000_000_000L, "id " + id);
    awaitState(id, "done");
    assertEquals(2, rest.job(id).get("attempt").asInt());
    long running = database.enqueue("sleep", "{\"ms\": 60000}");
    awaitState(running, "running");
    assertTrue(database.truth("SELECT waybill.cancel(?)", running));
    assertEquals("cancelled", rest.job(running).get("state").asText());
  }

  @Test
  void what_is_not_there_is_a_404_and_what_is_no_id_a_400() throws Exception {
    assertProblem(rest.get("/v1/jobs/999999999999"), 404, "");
    assertProblem(rest.get("/v1/jobs/abc"), 400, "id");
    assertProblem(rest.get("/v1/jobs/9223372036854775808"), 400, "id");
    assertProblem(rest.get("/v1/nothing-here"), 404, "");
  }

  @Test
  void health_metrics_and_openapi_answer() throws Exception {
    assertGoesOn();
    for (String path : List.of("/q/health/live", "/q/health/ready", "/q/health/started")) {
      assertEquals("UP", rest.get(path).json().get("status").asText(), path);
    }
    Awaitility.await("the figures are sampled, and shown")
        .atMost(PATIENCE)
        .until(() -> {
          String now = rest.get("/q/metrics").body();
          return now.contains("waybill_dead_tuples{") && now.contains("waybill_jobs{kind=\"echo\"");
        });
    String metrics = rest.get("/q/metrics").body();
    for (String name :
        List.of(
            "waybill_claims_total{pool=\"default\"",
            "waybill_claim_seconds_bucket{pool=\"default\"",
            "waybill_settled_total{kind=\"echo\",outcome=\"done\"",
            "waybill_job_seconds_bucket{kind=\"echo\"",
            "waybill_pickup_seconds_bucket{kind=\"echo\"",
            "waybill_jobs{kind=\"echo\",state=\"ready\"",
            "waybill_oldest_ready_seconds{kind=\"echo\"",
            "waybill_dead{kind=\"echo\"",
            "waybill_dead_growth_24h{kind=\"echo\"",
            "waybill_dead_tuples{table=\"jobs\"",
            "waybill_seconds_since_autovacuum{table=\"jobs\"",
            "waybill_oldest_snapshot_seconds",
            "waybill_partitions{table=\"jobs_done\"",
            "waybill_slots_in_use{pool=\"default\"")) {
      assertTrue(metrics.contains(name), name);
    }
    assertFalse(metrics.contains("jvm_threads_states"), "its scrape crashes the JVM");
    assertTrue(rest.get("/q/openapi").body().contains("/v1/jobs"));
  }

  // ------------------------------------------------------------------------------- bad input

  /** A body, and the field that the refusal has to name; "" when there is none to name. */
  private record Bad(String body, String field) {}

  private static Bad field(String name, String value) {
    return new Bad("{\"kind\": \"echo\", \"" + name + "\": " + value + "}", name);
  }

  private static String nested(int depth) {
    return "[".repeat(depth) + "]".repeat(depth);
  }

  /** PostgreSQL prints a space after the colon. */
  private static String payloadOf(int bytes) {
    return "{\"a\": \"" + "x".repeat(bytes - "{\"a\": \"\"}".length()) + "\"}";
  }

  private static Stream<Bad> badBodies() {
    return Stream.of(
        field("payload", "{\"a\": \"\\u0000\"}"),
        field("payload", "{\"\\u0000\": 1}"),
        field("payload", "\"\\ud800\""),
        field("payload", "{\"a\": \"\\udc00\\ud800\"}"),
        field("payload", "[1e400]"),
        field("payload", "[-1e400]"),
        field("payload", "[1e131073]"),
        field("payload", "[1e-20000]"),
        field("payload", "[1e999999999]"),
        field("payload", "[" + "9".repeat(900) + "]"),
        field("payload", "[" + "9".repeat(1100) + "]"),
        field("payload", nested(66)),
        field("payload", nested(10_000)),
        field("payload", payloadOf(PAYLOAD_BYTES_MAX + 1)),
        field("payload", "{\"a\": 1, \"a\": 2}"),
        new Bad("{\"kind\": \"echo\", \"kind\": \"echo\"}", "kind"),
        field("runAt", "\"infinity\""),
        field("runAt", "\"-infinity\""),
        field("runAt", "\"+999999999-12-31T23:59:59Z\""),
        field("runAt", "\"1960-01-01T00:00:00Z\""),
        field("runAt", "\"2999-01-01T00:00:00Z\""),
        field("runAt", "\"2026-01-01\""),
        field("runAt", "1700000000"),
        field("runAt", "\"\""),
        field("delay", "-1"),
        field("delay", "\"soon\""),
        field("delay", "1e30"),
        field("delay", "9223372036854775807"),
        field("delay", "true"),
        field("prioritty", "1"),
        field("priority", "\"5\""),
        field("priority", "1.5"),
        field("priority", "40000"),
        field("priority", "3000000000"),
        field("tags", "\"a\""),
        field("tags", "[1]"),
        field("tags", "[null]"),
        field("tags", "[\"\"]"),
        field("tags", "[\"\\u0000\"]"),
        field("tags", "[" + "\"t\",".repeat(16) + "\"t\"]"),
        field("maxAttempts", "0"),
        field("maxAttempts", "1001"),
        field("maxAttempts", "40000"),
        field("payloadVersion", "0"),
        field("payloadVersion", "\"1\""),
        field("tenant", "\"\\n\""),
        field("tenant", "\"" + "t".repeat(129) + "\""),
        field("tenant", "7"),
        field("tenant", "\"\\ud800\""),
        field("dedupeKey", "\"\""),
        field("dedupeKey", "\"" + "k".repeat(257) + "\""),
        field("dedupeKey", "\"\\u0000\""),
        new Bad("{\"kind\": \"Bad Kind\"}", "kind"),
        new Bad("{\"kind\": \"\"}", "kind"),
        new Bad("{\"kind\": \"a\\u0000\"}", "kind"),
        new Bad("{\"kind\": \"" + "k".repeat(65) + "\"}", "kind"),
        new Bad("{\"kind\": 5}", "kind"),
        new Bad("{\"kind\": null}", "kind"),
        new Bad("{\"payload\": {}}", "kind"),
        new Bad("{}", "kind"),
        new Bad("", ""),
        new Bad("null", ""),
        new Bad("[]", ""),
        new Bad("7", ""),
        new Bad("{\"kind\": \"echo\"", ""),
        new Bad("{\"kind\": \"echo\"} {}", ""),
        new Bad("{'kind': 'echo'}", ""));
  }

  @Test
  void bad_bodies_are_refused_by_field_and_the_queue_goes_on() throws Exception {
    long before = database.number("SELECT count(*) FROM waybill.all_jobs");
    assertAll(badBodies().map(bad -> () -> assertProblem(post(bad), 400, bad.field())));
    assertProblem(
        rest.post("/v1/jobs", "{\"kind\": \"ä\"}".getBytes(StandardCharsets.ISO_8859_1)),
        400,
        "kind");
    assertEquals(before, database.number("SELECT count(*) FROM waybill.all_jobs"));
    assertGoesOn();
  }

  private static Rest.Answer post(Bad bad) throws IOException {
    Rest.Answer answer = rest.post("/v1/jobs", bad.body());
    String shown = bad.body().length() > 60 ? bad.body().substring(0, 60) + "..." : bad.body();
    return new Rest.Answer(
        answer.status(), answer.type(), answer.location() + " for " + shown, answer.body());
  }

  private static void assertProblem(Rest.Answer answer, int status, String field) {
    assertEquals(status, answer.status(), answer::toString);
    assertTrue(answer.type().startsWith("application/problem+json"), answer::toString);
    assertEquals(status, answer.json().get("status").asInt(), answer::toString);
    assertTrue(answer.json().hasNonNull("title"), answer::toString);
    assertEquals(field, answer.json().path("field").asText(""), answer::toString);
  }

  @Test
  void what_is_just_within_the_limits_is_taken_and_done() throws Exception {
    List<Long> ids =
        List.of(
            enqueueByRest(field("payload", payloadOf(PAYLOAD_BYTES_MAX)).body()),
            enqueueByRest(field("payload", nested(64)).body()),
            enqueueByRest(field("payload", "[1e308, -1.7976931348623157e308, 5e-324]").body()),
            enqueueByRest(field("payload", "\"\\\\u0000 is no NUL\"").body()),
            enqueueByRest(field("payload", "null").body()),
            enqueueByRest(field("runAt", "\"1970-01-01T00:00:00Z\"").body()),
            enqueueByRest(field("tenant", "\"" + "t".repeat(128) + "\"").body()),
            enqueueByRest(field("priority", "-32768").body()),
            enqueueByRest(field("dedupeKey", "\"" + "k".repeat(256) + "\"").body()),
            enqueueByRest(field("tags", "[\"" + "t".repeat(64) + "\"]").body()));
    for (long id : ids) {
      awaitState(id, "done");
      assertEquals(200, rest.get("/v1/jobs/" + id).status());
    }
  }

  private static Executable refusedBySql(String sqlState, String sql) {
    return () -> {
      SQLException refused = assertThrows(SQLException.class, () -> database.execute(sql), sql);
      assertEquals(sqlState, refused.getSQLState(), () -> sql + ": " + refused.getMessage());
    };
  }

  private static Executable refusedPayload(String sqlState, String payload) {
    return () -> {
      for (String sql :
          List.of(
              "SELECT waybill.enqueue('echo', ?::jsonb)",
              "SELECT waybill.enqueue_many('echo', ARRAY['{}', ?]::jsonb[])",
              "INSERT INTO waybill.jobs (kind, payload) VALUES ('echo', ?::jsonb)")) {
        SQLException refused =
            assertThrows(SQLException.class, () -> database.execute(sql, payload), sql);
        assertEquals(sqlState, refused.getSQLState(), () -> sql + ": " + refused.getMessage());
      }
    };
  }

  @Test
  void bad_values_by_sql_are_refused_and_the_queue_goes_on() throws Exception {
    long before = database.number("SELECT count(*) FROM waybill.all_jobs");
    assertAll(
        refusedPayload("22P05", "{\"a\": \"\\u0000\"}"),
        refusedPayload("22P02", "\"\\ud800\""),
        refusedPayload("22023", "[1e400]"),
        refusedPayload("22023", "[" + "9".repeat(400) + "]"),
        refusedPayload("22003", "[1e999999]"),
        refusedPayload("22023", nested(66)),
        refusedPayload("22023", payloadOf(PAYLOAD_BYTES_MAX + 1)),
        refusedBySql("22023", "SELECT waybill.enqueue('Bad Kind')"),
        refusedBySql("22023", "SELECT waybill.enqueue(NULL)"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', tenant => repeat('t', 129))"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', tenant => E'a\\nb')"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', run_at => 'infinity')"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', run_at => '-infinity')"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', run_at => '9999-01-01')"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', run_at => '1900-01-01')"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', priority => 40000)"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', max_attempts => 0)"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', payload_version => 0)"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', dedupe_key => '')"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', tags => '{\"\"}')"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', tags => '{{a,b},{c,d}}')"),
        refusedBySql("22023", "SELECT waybill.enqueue('echo', traceparent => repeat('0', 129))"),
        refusedBySql("22023", "SELECT waybill.enqueue_many('echo', ARRAY[NULL]::jsonb[])"),
        refusedBySql("22023", "SELECT waybill.enqueue_many('Bad Kind', ARRAY['{}']::jsonb[])"),
        refusedBySql("22023", "INSERT INTO waybill.jobs (kind, state) VALUES ('echo', 'running')"),
        refusedBySql("22023", "INSERT INTO waybill.jobs (kind, state) VALUES ('echo', 'odd')"),
        refusedBySql(
            "22023", "INSERT INTO waybill.jobs (kind, token) VALUES ('echo', gen_random_uuid())"),
        refusedBySql(
            "22023", "INSERT INTO waybill.jobs (kind, run_at) VALUES ('echo', 'infinity')"),
        refusedBySql("23502", "INSERT INTO waybill.jobs (kind, payload) VALUES ('echo', NULL)"),
        refusedBySql("428C9", "INSERT INTO waybill.jobs (id, kind) VALUES (1, 'echo')"));
    assertEquals(before, database.number("SELECT count(*) FROM waybill.all_jobs"));
    assertGoesOn();
  }

  @Test
  void a_producer_may_execute_the_functions_and_nothing_else() throws Exception {
    long id;
    try (Connection producer = producer();
        Statement statement = producer.createStatement()) {
      var row =
          statement.executeQuery(
              "SELECT waybill.enqueue('echo', run_at => now() + interval '1 hour', dedupe_key => 'producer')");
      row.next();
      id = row.getLong(1);
      statement.execute("SELECT * FROM waybill.enqueue_many('echo', ARRAY['{}']::jsonb[])");
      row = statement.executeQuery("SELECT waybill.cancel(" + id + ")");
      row.next();
      assertTrue(row.getBoolean(1));
    }
    assertAll(
        Stream.of(
                "SELECT * FROM waybill.jobs",
                "SELECT * FROM waybill.jobs_done",
                "SELECT * FROM waybill.jobs_dead",
                "SELECT * FROM waybill.all_jobs",
                "SELECT * FROM waybill.kinds",
                "SELECT * FROM waybill.limits",
                "SELECT * FROM waybill.tally",
                "SELECT * FROM waybill.arrivals",
                "SELECT * FROM waybill.counts",
                "DELETE FROM waybill.arrivals_whole",
                "SELECT * FROM waybill.schema_history",
                "INSERT INTO waybill.jobs (kind) VALUES ('echo')",
                "UPDATE waybill.jobs SET priority = 0",
                "DELETE FROM waybill.jobs",
                "TRUNCATE waybill.jobs",
                "UPDATE waybill.kinds SET paused = true",
                "SELECT * FROM waybill.audit()",
                "SELECT waybill.make_partitions()",
                "SELECT waybill.fingerprint('x')",
                "CREATE TABLE waybill.mine (n int)",
                "ALTER FUNCTION waybill.cancel(bigint) SET search_path = public")
            .map(DoorsIT::forbiddenToProducer));
  }

  private static Executable forbiddenToProducer(String sql) {
    return () -> {
      try (Connection producer = producer();
          Statement statement = producer.createStatement()) {
        SQLException refused = assertThrows(SQLException.class, () -> statement.execute(sql), sql);
        assertEquals("42501", refused.getSQLState(), () -> sql + ": " + refused.getMessage());
      }
    };
  }

  private static Connection producer() throws SQLException {
    Connection connection = database.connect();
    try (Statement statement = connection.createStatement()) {
      statement.execute("SET ROLE waybill_producer");
    }
    return connection;
  }

  @Test
  void the_books_balance_whatever_came_in() throws Exception {
    assertGoesOn();
    assertEquals(
        List.of(), database.texts("SELECT guarantee || detail FROM waybill.audit() WHERE NOT ok"));
  }
}
