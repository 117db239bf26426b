package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code waybill doctor}: each defect put in is the one that it names. */
@ExtendWith(Processes.class)
final class DoctorIT {

  /** Set up as a production server is; the other tests' is not durable, and the doctor says so. */
  private static final TestPostgres POSTGRES =
      TestPostgres.own(
          100,
          Map.of(
              "fsync", "on",
              "full_page_writes", "on",
              "max_prepared_transactions", "4",
              "idle_in_transaction_session_timeout", "10min"));

  private static final ObjectMapper JSON = new ObjectMapper();

  /** What it said, and how it ended. */
  private record Visit(int exitCode, JsonNode report, String output) {

    List<JsonNode> not(String verdict) {
      var found = new ArrayList<JsonNode>();
      report.get("findings").forEach(found::add);
      found.removeIf(finding -> finding.get("verdict").asText().equals(verdict));
      return found;
    }

    /** The only thing that is wrong. */
    JsonNode onlyWrong() {
      List<JsonNode> wrong =
          not("ok").stream().filter(f -> f.get("verdict").asText().equals("wrong")).toList();
      assertEquals(1, wrong.size(), output);
      assertEquals(1, exitCode, output);
      return wrong.getFirst();
    }

    void isWrong(String about, String says) {
      assertSays(onlyWrong(), about, says);
    }

    void warns(String about, String says) {
      assertEquals(0, exitCode, output);
      JsonNode warning =
          not("ok").stream()
              .filter(finding -> finding.get("about").asText().equals(about))
              .findFirst()
              .orElseThrow(() -> new AssertionError(output));
      assertEquals("warn", warning.get("verdict").asText(), output);
      assertSays(warning, about, says);
    }

    private void assertSays(JsonNode finding, String about, String says) {
      assertEquals(about, finding.get("about").asText(), output);
      assertTrue(finding.get("says").asText().contains(says), output);
      assertFalse(finding.get("mend").asText().isEmpty(), output);
    }
  }

  private static Visit visit(TestDatabase database, String... options) throws IOException {
    return visit(ServiceProcess.on(database), options);
  }

  private static Visit visit(ServiceProcess.Plan plan, String... options) throws IOException {
    var words = new ArrayList<>(List.of("doctor", "--json"));
    words.addAll(List.of(options));
    ServiceProcess doctor = plan.arguments(words.toArray(String[]::new)).start();
    int code = doctor.exitCode();
    String out = Files.readString(doctor.out());
    return new Visit(code, JSON.readTree(out), doctor.output());
  }

  @Test
  void a_queue_that_is_well_has_nothing_but_ok() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    ServiceProcess service = ServiceProcess.on(database).startReady();
    Invariants.check(database, EnqueueLog.of(database.enqueueMany("echo", "{}", 50)));
    Visit visit = visit(database, "--strict");
    assertEquals(List.of(), visit.not("ok"), visit.output());
    assertEquals(0, visit.exitCode());

    // Beside a service with the same settings: its port is taken, and the doctor needs none.
    ServiceProcess plain =
        ServiceProcess.on(database)
            .with("WAYBILL_HTTP_PORT", String.valueOf(service.port()))
            .arguments("doctor")
            .start();
    assertEquals(0, plain.exitCode(), plain.output());
    assertEquals("", Files.readString(plain.err()));
    List<String> lines = Files.readAllLines(plain.out());
    assertTrue(
        lines.subList(0, lines.size() - 1).stream().allMatch(line -> line.startsWith("ok ")),
        plain.output());
    assertTrue(lines.getLast().endsWith(" ok, 0 warn, 0 wrong"), plain.output());
  }

  @Test
  void a_database_that_is_not_migrated_is_one_clear_line() throws Exception {
    Visit visit = visit(POSTGRES.emptyDatabase());
    visit.isWrong("schema", "not migrated");
    assertTrue(visit.onlyWrong().get("mend").asText().contains("WAYBILL_MIGRATE=only"));
    assertEquals(1, visit.not("ok").size(), visit.output());
  }

  @Test
  void an_older_schema_is_told_by_its_version() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.execute(
        "DELETE FROM waybill.schema_history WHERE version = (SELECT max(version::int)::text FROM waybill.schema_history)");
    visit(database).isWrong("schema", "this build needs");
  }

  @Test
  void an_unreachable_database_is_one_line_without_the_password() throws Exception {
    String url = "postgresql://somebody:hunter2@localhost:" + Ports.free() + "/waybill";
    ServiceProcess doctor =
        ServiceProcess.withoutDatabase().with("WAYBILL_DB_URL", url).arguments("doctor").start();
    assertRefused(doctor, "cannot be reached");
    assertFalse(doctor.output().contains("hunter2"), doctor.output());
  }

  @ParameterizedTest
  @CsvSource({"--jsn, --json", "--lag, 2m", "--snapshot=soon, --snapshot 5m"})
  void a_wrong_option_is_one_line(String option, String right) throws Exception {
    ServiceProcess doctor =
        ServiceProcess.on(POSTGRES.database("postgres")).arguments("doctor", option).start();
    assertRefused(doctor, right);
  }

  private static void assertRefused(ServiceProcess doctor, String says) throws IOException {
    assertEquals(2, doctor.exitCode(), doctor.output());
    assertEquals(1, doctor.lines().size(), doctor.output());
    assertTrue(Files.readString(doctor.err()).startsWith("waybill: "), doctor.output());
    assertTrue(doctor.output().contains(says), doctor.output());
  }

  /** What mends it is run as it stands there, and then it is well. */
  @ParameterizedTest(name = "{1}: {0}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          ALTER TABLE waybill.jobs RESET (autovacuum_vacuum_threshold)                              | storage    | waybill.jobs lost
          ALTER TABLE waybill.tally SET (autovacuum_enabled = off)                                  | storage    | waybill.tally lost
          SELECT waybill_test_drop(0)                                                               | partitions | today
          SELECT waybill_test_drop(1)                                                               | partitions | tomorrow
          DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$ | settings | synchronous_commit = off
          PREPARE TRANSACTION 'left behind'                                                         | prepared   | left behind
          """)
  void what_mends_it_mends_it(String defect, String about, String says) throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.execute(
        """
        CREATE FUNCTION waybill_test_drop(ahead integer) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
          EXECUTE format('DROP TABLE waybill.jobs_done_%s', to_char((now() AT TIME ZONE 'UTC')::date + ahead, 'YYYYMMDD'));
        END $$
        """);
    if (about.equals("prepared")) {
      try (Connection connection = database.connect()) {
        connection.setAutoCommit(false);
        execute(connection, "SELECT pg_current_xact_id()");
        execute(connection, defect);
      }
    } else {
      database.execute(defect);
    }
    // The binary asks within 100. Whoever else has a snapshot for so long is wrong too, until it
    // ends.
    String[] options =
        about.equals("prepared") ? new String[] {"--snapshot", "10ms"} : new String[0];
    Visit sick = awaitWrong(database, about, says, options);
    String mend = sick.onlyWrong().get("mend").asText();
    for (String statement : mend.replaceAll("--.*", "").split(";", -1)) {
      if (!statement.isBlank()) {
        database.execute(statement);
      }
    }
    Awaitility.await("well after " + mend)
        .untilAsserted(() -> assertEquals(0, visit(database, options).exitCode()));
  }

  private static Visit awaitWrong(
      TestDatabase database, String about, String says, String... options) {
    var sick = new AtomicReference<@Nullable Visit>();
    Awaitility.await(about)
        .untilAsserted(() -> {
          Visit visit = visit(database, options);
          visit.isWrong(about, says);
          sick.set(visit);
        });
    return Objects.requireNonNull(sick.get());
  }

  private static void execute(Connection connection, String sql) throws SQLException {
    try (var statement = connection.createStatement()) {
      boolean _ = statement.execute(sql);
    }
  }

  @Test
  void autovacuum_that_is_off_is_wrong() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.execute("ALTER SYSTEM SET autovacuum = off");
    try {
      database.execute("SELECT pg_reload_conf()");
      Awaitility.await().until(() -> database.text("SHOW autovacuum").equals("off"));
      Visit visit = visit(database);
      visit.isWrong("settings", "autovacuum = off");
      assertEquals(
          "ALTER SYSTEM SET autovacuum = 'on'; SELECT pg_reload_conf();",
          visit.onlyWrong().get("mend").asText());
    } finally {
      database.execute("ALTER SYSTEM RESET autovacuum");
      database.execute("SELECT pg_reload_conf()");
    }
  }

  @Test
  void who_holds_a_snapshot_is_named_by_pid_and_application() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    try (Connection forgotten = database.connect()) {
      forgotten.setAutoCommit(false);
      execute(forgotten, "SET application_name = 'nightly report'");
      execute(forgotten, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
      execute(forgotten, "SELECT count(*) FROM waybill.jobs");
      visit(database).warns("processes", "no process");
      Visit visit = visit(database, "--snapshot", "10ms");
      visit.isWrong("snapshots", "'nightly report'");
      assertTrue(visit.onlyWrong().get("says").asText().contains("idle in transaction"));
      String mend = visit.onlyWrong().get("mend").asText();
      assertTrue(mend.matches("SELECT pg_terminate_backend\\(\\d+\\);.*"), mend);
      assertTrue(database.truth(mend.substring(0, mend.indexOf(';'))));
    } catch (SQLException _) {
      // Its connection was terminated.
    }
    Awaitility.await()
        .untilAsserted(() -> assertEquals(0, visit(database, "--snapshot", "10ms").exitCode()));
  }

  @Test
  void a_slot_that_nobody_reads_is_wrong() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.execute("SELECT pg_create_physical_replication_slot('gone_replica', true)");
    try {
      visit(database).isWrong("slots", "gone_replica");
    } finally {
      database.execute("SELECT pg_drop_replication_slot('gone_replica')");
    }
  }

  @Test
  void a_kind_that_waits_is_told_with_what_keeps_it() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.execute("SELECT waybill.enqueue('email', run_at => now() - interval '5 minutes')");
    visit(database).isWrong("lag", "email: 1 ready, the oldest since 5 min, and nobody claims");
    visit(database, "--lag", "1h").warns("lag", "nobody claims this kind");

    ServiceProcess _ = ServiceProcess.on(database).startReady();
    visit(database).isWrong("lag", "nobody claims this kind");
    database.policy("email", "delivery = 'pull'");
    visit(database).isWrong("lag", "workers elsewhere");
    database.policy("email", "paused = true");
    visit(database).warns("lag", "paused");
  }

  @Test
  void slots_that_are_all_taken_are_no_missing_handler() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    ServiceProcess _ =
        ServiceProcess.on(database).with("WAYBILL_POOLS", "one=sleep:1").startReady();
    database.enqueueMany("sleep", "{\"ms\": 60000}", 3);
    Awaitility.await()
        .until(() -> database.truth("SELECT bool_or(state = 'running') FROM waybill.jobs"));
    database.execute(
        "UPDATE waybill.jobs SET run_at = run_at - interval '5 minutes' WHERE state = 'ready'");
    visit(database).isWrong("lag", "sleep: 2 ready, the oldest since 5 min, 1 running");
  }

  @Test
  void leases_that_nobody_takes_back_are_wrong() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.enqueue("email", "{}");
    database.execute(
        "UPDATE waybill.jobs SET state = 'running', attempt = 1, token = gen_random_uuid(), worker = 'gone', started_at = now(), lease_until = now() - interval '3 minutes'");
    database.execute(
        "INSERT INTO waybill.claims SELECT token, ARRAY[id], ARRAY[kind] FROM waybill.jobs");
    visit(database)
        .isWrong("leases", "1 running jobs whose lease is over, the longest since 3 min");
  }

  @Test
  void a_scheduled_job_that_nobody_promotes_is_wrong() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.execute("SELECT waybill.enqueue('email', run_at => now() + interval '1 hour')");
    visit(database).warns("processes", "no process");
    database.execute("UPDATE waybill.jobs SET run_at = now() - interval '1 minute'");
    visit(database, "--lag", "1h").isWrong("lag", "nobody made it ready");
  }

  @Test
  void a_day_that_should_be_gone_and_one_that_is_half_gone_are_wrong() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.enqueue("echo", "{}");
    database.execute(
        "CREATE TABLE waybill.jobs_done_20200101 (LIKE waybill.jobs_done INCLUDING INDEXES)");
    database.execute(
        "ALTER TABLE waybill.jobs_done ATTACH PARTITION waybill.jobs_done_20200101 FOR VALUES FROM ('2020-01-01Z') TO ('2020-01-02Z')");
    visit(database).isWrong("partitions", "the oldest is jobs_done_20200101");

    database.policy("echo", "retention_ms = 315360000000"); // Ten years: it may stay.
    assertEquals(0, visit(database).exitCode());

    try (Connection reader = database.connect();
        Connection detacher = database.connect()) {
      reader.setAutoCommit(false);
      execute(reader, "SELECT count(*) FROM waybill.jobs_done");
      execute(detacher, "SET lock_timeout = '200ms'");
      try {
        execute(
            detacher,
            "ALTER TABLE waybill.jobs_done DETACH PARTITION waybill.jobs_done_20200101 CONCURRENTLY");
      } catch (SQLException refused) {
        assertEquals("55P03", refused.getSQLState());
      }
    }
    Visit visit = visit(database);
    visit.isWrong("partitions", "jobs_done_20200101 is half detached");
    database.execute(visit.onlyWrong().get("mend").asText().replaceAll(";.*", ""));
    assertEquals(0, visit(database).exitCode());
  }

  @Test
  void dead_letters_that_doubled_in_a_day_are_a_warning() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.execute(
        """
        INSERT INTO waybill.jobs_dead (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, kind, tenant, payload,
          last_error, fingerprint)
        SELECT n, now(), now(), now(), 0, 1, 0, 1, 'email', '', '{}', 'no route', 'f' FROM generate_series(1, 25) n
        """);
    visit(database).warns("dead", "email: 25 died in the last 24 hours");
  }

  @Test
  void a_role_without_rights_hears_which() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    database.execute("CREATE ROLE stranger LOGIN");
    visit(as(database, "stranger")).isWrong("schema", "may not");
    database.execute("GRANT USAGE ON SCHEMA waybill TO stranger");
    database.execute("GRANT SELECT ON ALL TABLES IN SCHEMA waybill TO stranger");
    database.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA waybill TO stranger");
    database.execute("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA waybill TO stranger");
    visit(as(database, "stranger")).isWrong("rights", "not the owner of waybill.jobs_done");
    ServiceProcess.Plan worker = as(database, "stranger").with("WAYBILL_ROLES", "api,worker");
    assertEquals(0, visit(worker).exitCode());
    database.execute("REVOKE UPDATE ON waybill.jobs FROM stranger");
    Visit visit = visit(as(database, "stranger").with("WAYBILL_ROLES", "worker"));
    visit.isWrong("rights", "claiming");
    assertEquals(
        "GRANT UPDATE ON waybill.jobs TO stranger;", visit.onlyWrong().get("mend").asText());
  }

  private static ServiceProcess.Plan as(TestDatabase database, String role) {
    return ServiceProcess.on(database).with("WAYBILL_DB_USER", role);
  }

  @Test
  void connections_that_the_server_cannot_grant_are_wrong() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    visit(ServiceProcess.on(database).with("WAYBILL_DB_CONNECTIONS", "200"))
        .isWrong("connections", "the server grants 97");
    visit(ServiceProcess.on(database).with("WAYBILL_DB_CONNECTIONS", "40"))
        .warns("connections", "not enough for one more");
  }

  @Test
  void nobody_who_keeps_house_is_wrong() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    visit(database).warns("processes", "no process");
    ServiceProcess _ = ServiceProcess.on(database).with("WAYBILL_ROLES", "api,worker").startReady();
    visit(database).isWrong("processes", "none has the role maintenance");
  }

  @Test
  void strict_makes_a_warning_an_error() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    assertEquals(0, visit(database).exitCode());
    assertEquals(1, visit(database, "--strict").exitCode());
  }

  @Test
  void how_long_attempts_took_is_known_after_a_restart_and_judged_beside_the_policy()
      throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    ServiceProcess first = ServiceProcess.on(database).startReady();
    Invariants.check(database, EnqueueLog.of(database.enqueueMany("echo", "{}", 1_200)));
    assertFalse(first.rest().get("/v1/kinds/echo").body().contains("measured"), "not written yet");
    first.term();
    int _ = first.exitCode();

    ServiceProcess second = ServiceProcess.on(database).startReady();
    JsonNode measured = JSON.readTree(second.rest().get("/v1/kinds/echo").body()).get("measured");
    assertEquals(1_200, measured.get("attempts").asLong());
    assertEquals("PT30S", measured.get("suggestedLease").asText());
    assertTrue(measured.get("suggestedTimeout").asText().startsWith("PT"), measured::toString);
    assertFalse(second.rest().get("/v1/kinds").body().contains("measured"));
    Visit well = visit(database, "--strict");
    assertEquals(0, well.exitCode(), well.output());
    assertTrue(well.output().contains("echo: 1200 attempts, p50 "), well.output());

    database.policy("echo", "timeout_ms = 1");
    database.execute("UPDATE waybill.durations SET bucket = bucket + 60");
    visit(database).warns("durations", "the time limit of 1 ms cuts attempts off");
    database.policy("echo", "timeout_ms = NULL, lease_ms = 2000");
    visit(database).warns("durations", "a lease of 2 s");
  }
}
