package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How the service starts, refuses to start, and stops. */
@ExtendWith(Processes.class)
final class StartIT {

  private static final TestPostgres POSTGRES = TestPostgres.shared();

  /** What a JVM or a binary says when it ends by SIGTERM in good order. */
  private static final List<Integer> ENDED_BY_TERM = List.of(0, 143);

  @ParameterizedTest(name = "{0}={1}")
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          WAYBILL_POOLS     | fast=email                             | name=kind,kind:slots
          WAYBILL_POOLS     | a=echo:2;b=echo:2                      | two pools
          WAYBILL_POOLS     | a=echo:0                               | 1 to
          WAYBILL_ROLES     | api,cook                               | api,worker,maintenance
          WAYBILL_AUTH      | maybe                                  | none, token, jwt
          WAYBILL_AUTH      | jwt                                    | WAYBILL_JWT_ISSUER
          WAYBILL_HTTP_HOST | 0.0.0.0                                | token or jwt
          WAYBILL_PUSH_SECRETS | mail=hunter2                        | openssl
          WAYBILL_PUSH_ALLOW | http//x                               | hooks.example.com
          WAYBILL_PUSH_ALLOW_PRIVATE | 10.0.0.0/99                   | 10.20.0.0/16
          WAYBILL_PUSH_TIMEOUT | soon                                | 30s
          WAYBILL_FIRST_TOKEN_FILE | /nowhere/at/all                 | just the secret
          WAYBILL_MIGRATE   | perhaps                                | start, only, never
          WAYBILL_MIGRATE   | never                                  | WAYBILL_MIGRATE=only
          WAYBILL_DRAIN     | soon                                   | 25s
          WAYBILL_HTTP_PORT | eighty                                 | 8080
          WAYBILL_DB_URL    | mysql://localhost/waybill              | postgresql://
          WAYBILL_DB_URL    | postgresql://u:p@ss@localhost/waybill  | %40
          WAYBILL_DB_USER   | nobody_of_that_name                    | WAYBILL_DB_USER
          """)
  void a_wrong_setting_ends_the_start_with_one_line(String variable, String value, String says)
      throws Exception {
    TestDatabase database = POSTGRES.emptyDatabase();
    ServiceProcess process = ServiceProcess.on(database).with(variable, value).start();
    assertRefused(process, variable);
    assertTrue(Files.readString(process.err()).contains(says), process.output());
    assertEquals(
        0,
        database.number("SELECT count(*) FROM pg_namespace WHERE nspname = 'waybill'"),
        "nothing was touched");
  }

  @Test
  void tokens_without_an_operator_who_could_come_in_end_the_start() throws Exception {
    ServiceProcess process =
        ServiceProcess.on(POSTGRES.newDatabase()).with("WAYBILL_AUTH", "token").start();
    assertRefused(process, "WAYBILL_FIRST_TOKEN");
  }

  @Test
  void none_at_every_address_must_be_said_twice() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    ServiceProcess once =
        ServiceProcess.on(database)
            .with("WAYBILL_HTTP_HOST", "0.0.0.0")
            .with("WAYBILL_AUTH", "none")
            .start();
    assertRefused(once, "WAYBILL_AUTH_NONE_ANYWHERE");
    ServiceProcess twice =
        ServiceProcess.on(database)
            .with("WAYBILL_HTTP_HOST", "0.0.0.0")
            .with("WAYBILL_AUTH", "none")
            .with("WAYBILL_AUTH_NONE_ANYWHERE", "true")
            .startReady();
    assertEquals(404, twice.rest().get("/v1/jobs/1").status());
  }

  @Test
  void without_the_role_api_jobs_are_not_served_and_no_credential_is_asked_for() throws Exception {
    ServiceProcess worker =
        ServiceProcess.on(POSTGRES.newDatabase())
            .with("WAYBILL_HTTP_HOST", "0.0.0.0")
            .with("WAYBILL_ROLES", "worker")
            .startReady();
    Rest.Answer answer = worker.rest().get("/v1/jobs/1");
    assertEquals(404, answer.status());
    assertTrue(answer.body().contains("/problems/not-served"), answer.body());
  }

  @Test
  void secrets_come_from_files(@TempDir Path directory) throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    Path url = Files.writeString(directory.resolve("url"), database.url() + "\n");
    String secret = "from-a-file-0123456789-0123456789-abc";
    Path token = Files.writeString(directory.resolve("token"), secret + "\n");
    ServiceProcess process =
        ServiceProcess.withoutDatabase()
            .with("WAYBILL_DB_USER", TestDatabase.USER)
            .with("WAYBILL_DB_URL_FILE", url.toAbsolutePath().toString())
            .with("WAYBILL_AUTH", "token")
            .with("WAYBILL_FIRST_TOKEN_FILE", token.toAbsolutePath().toString())
            .startReady();
    assertEquals(401, process.rest().get("/v1/tokens").status());
    assertEquals(1, database.number("SELECT count(*) FROM waybill.tokens"));
    assertFalse(process.output().contains(secret), "it is in a log");
  }

  @Test
  void a_database_that_is_not_there_ends_the_start_with_one_line() {
    ServiceProcess process =
        ServiceProcess.on(POSTGRES.database("no_database_of_that_name")).start();
    assertRefused(process, "WAYBILL_DB_URL");
  }

  @Test
  void a_taken_port_ends_the_start_with_one_line() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    try (var taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      String port = String.valueOf(taken.getLocalPort());
      ServiceProcess process = ServiceProcess.on(database).with("WAYBILL_HTTP_PORT", port).start();
      assertRefused(process, "WAYBILL_HTTP_PORT");
      assertTrue(process.output().contains(port), process.output());
    }
  }

  private static void assertRefused(ServiceProcess process, String names) {
    assertEquals(2, process.exitCode(), process.output());
    List<String> said = process.lines();
    assertEquals(1, said.size(), () -> "one line: " + process.output());
    assertTrue(said.getFirst().startsWith("waybill: "), process.output());
    assertTrue(said.getFirst().contains(names), process.output());
  }

  @Test
  void an_unreachable_database_is_waited_for() throws Exception {
    TestDatabase database = POSTGRES.newDatabase();
    int port = Ports.free();
    ServiceProcess process = ServiceProcess.on(database.through(port)).start();
    Awaitility.await("it says that it waits")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> process.output().contains("waiting for the database"));
    assertTrue(process.isAlive(), process.output());
    assertFalse(process.isReady());
    try (var _ = new CuttingProxy(POSTGRES.port(), port)) {
      process.awaitReady();
    }
  }

  @Test
  void migrate_only_migrates_and_ends() throws Exception {
    TestDatabase database = POSTGRES.emptyDatabase();
    for (int time = 1; time <= 2; time++) {
      ServiceProcess process = ServiceProcess.on(database).with("WAYBILL_MIGRATE", "only").start();
      assertEquals(0, process.exitCode(), process.output());
      assertQuiet(process);
    }
    assertEquals(0, database.number("SELECT count(*) FROM waybill.jobs"));

    ServiceProcess next = ServiceProcess.on(database).with("WAYBILL_MIGRATE", "never").startReady();
    next.term();
    assertTrue(ENDED_BY_TERM.contains(next.exitCode()), next.output());
  }

  @Test
  void processes_that_start_at_once_on_an_empty_database_all_become_ready() throws Exception {
    TestDatabase database = POSTGRES.emptyDatabase();
    List<ServiceProcess> all =
        Stream.generate(() -> ServiceProcess.on(database).start()).limit(4).toList();
    all.forEach(ServiceProcess::awaitReady);
    var log = EnqueueLog.of(database.enqueueMany("echo", "{}", 100));
    Invariants.check(database, log);
    all.forEach(StartIT::assertQuiet);
  }

  @Test
  void jobs_survive_a_stop_and_the_log_of_start_and_stop_is_quiet() throws Exception {
    TestDatabase database = POSTGRES.emptyDatabase();
    ServiceProcess first = ServiceProcess.on(database).startReady();
    long done = database.enqueue("echo", "{\"n\": 1}");
    Awaitility.await("it runs").until(() -> database.state(done).equals("done"));
    long later =
        database.number(
            "SELECT waybill.enqueue('echo', run_at => now() + interval '1 hour', dedupe_key => 'later')");
    first.term();
    assertTrue(ENDED_BY_TERM.contains(first.exitCode()), first.output());
    assertQuiet(first);

    long meanwhile = database.enqueue("echo", "{\"n\": 2}");
    ServiceProcess second = ServiceProcess.on(database).startReady();
    Awaitility.await("it is found").until(() -> database.state(meanwhile).equals("done"));
    assertEquals("done", second.rest().job(done).get("state").asText());
    assertEquals("scheduled", second.rest().job(later).get("state").asText());
    second.term();
    assertTrue(ENDED_BY_TERM.contains(second.exitCode()), second.output());
    assertQuiet(second);
  }

  /** One that was a virtual thread stopped for good in the binary: requests waited for nothing. */
  @Test
  void in_the_binary_threads_of_the_platform_poll_sockets() throws Exception {
    ServiceProcess process = ServiceProcess.on(TestPostgres.shared().newDatabase()).startReady();
    for (int i = 0; i < 20; i++) {
      assertEquals(404, process.rest().get("/v1/jobs/" + (1_000_000 + i)).status());
    }
    List<String> threads = process.threads();
    assertEquals(ServiceProcess.isNative(), threads.contains("Read-Poller"), threads.toString());
    assertEquals(!ServiceProcess.isNative(), threads.contains("MasterPoller"), threads.toString());
  }

  @Test
  void without_a_database_the_jar_brings_its_own_and_the_binary_says_what_to_set(
      @TempDir Path temporary) throws Exception {
    if (ServiceProcess.isNative()) {
      assertRefused(ServiceProcess.withoutDatabase().start(), "WAYBILL_DB_URL");
    } else {
      theJarKeepsItsJobs(temporary);
    }
  }

  private static void theJarKeepsItsJobs(Path temporary) throws Exception {
    Path data = temporary.resolve("data");
    ServiceProcess first = embedded(data).startReady();
    Rest.Answer answer =
        first.rest().post("/v1/jobs", "{\"kind\": \"echo\", \"payload\": {\"hello\": 1}}");
    assertEquals(201, answer.status(), answer.body());
    long id = answer.json().get("id").asLong();
    Awaitility.await("it runs")
        .atMost(Duration.ofSeconds(30))
        .until(() -> first.rest().job(id).get("state").asText().equals("done"));

    ServiceProcess beside = embedded(data).start();
    assertRefused(beside, "data");

    first.term();
    assertTrue(ENDED_BY_TERM.contains(first.exitCode()), first.output());
    assertQuiet(first);
    ServiceProcess second = embedded(data).startReady();
    assertEquals("done", second.rest().job(id).get("state").asText());
    second.term();
    assertTrue(ENDED_BY_TERM.contains(second.exitCode()), second.output());
    assertQuiet(second);
  }

  private static ServiceProcess.Plan embedded(Path data) {
    return ServiceProcess.withoutDatabase().with("WAYBILL_DATA", data.toString());
  }

  /** Nothing that a newcomer would have to wonder about. */
  private static void assertQuiet(ServiceProcess process) {
    List<String> loud =
        process.lines().stream()
            .filter(line ->
                line.contains("WARN")
                    || line.contains("ERROR")
                    || line.contains("FATAL")
                    || line.contains("Exception")
                    || line.startsWith("\tat "))
            .toList();
    assertEquals(List.of(), loud, process::output);
    try {
      assertEquals("", Files.readString(process.err()), "stderr");
    } catch (IOException failure) {
      throw new java.io.UncheckedIOException(failure);
    }
  }
}
