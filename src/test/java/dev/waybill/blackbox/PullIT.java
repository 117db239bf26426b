package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Workers in other languages: what they ask, what they get, and what becomes of their jobs when
 * they vanish.
 */
@ExtendWith(Processes.class)
final class PullIT {

  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final String WAIT_LONG = "{\"kinds\": [\"mail\"], \"wait\": 15}";

  private TestDatabase database;

  @BeforeEach
  void empty() throws SQLException {
    database = TestPostgres.shared().newDatabase();
  }

  private ServiceProcess start() {
    return ServiceProcess.on(database).startReady();
  }

  private static JsonNode ok(Rest.Answer answer) {
    assertEquals(200, answer.status(), answer.body());
    return answer.json();
  }

  private static CompletableFuture<Rest.Answer> later(Rest rest, String body) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return rest.post("/v1/leases", body);
          } catch (IOException failure) {
            throw new UncheckedIOException(failure);
          }
        },
        task -> Thread.ofVirtual().start(task));
  }

  private void auditIsClean() throws SQLException {
    assertEquals(
        List.of(),
        database.texts("SELECT guarantee || ': ' || detail FROM waybill.audit() WHERE NOT ok"));
  }

  private static String item(JsonNode job, String more) {
    return "{\"id\": " + job.get("id") + ", \"token\": " + job.get("token") + more + "}";
  }

  @Test
  void a_job_goes_to_who_waits_and_ends_as_the_worker_says() throws Exception {
    Rest rest = start().rest();
    CompletableFuture<Rest.Answer> waiting = later(rest, WAIT_LONG);
    long id = database.enqueue("mail", "{\"to\": \"a@b.c\"}");
    JsonNode job = ok(waiting.get(20, TimeUnit.SECONDS)).at("/jobs/0");
    assertEquals(id, job.get("id").asLong());
    assertEquals("{\"to\":\"a@b.c\"}", job.get("payload").toString());
    JsonNode extended =
        ok(
            rest.post(
                "/v1/leases/extend", "{\"leases\": [" + item(job, "") + "], \"lease\": \"PT2M\"}"));
    assertEquals("extended", extended.at("/results/0/status").asText());
    String done =
        "{\"outcomes\": ["
            + item(job, ", \"outcome\": \"done\", \"result\": {\"sent\": true}")
            + "]}";
    assertEquals(
        "settled", ok(rest.post("/v1/leases/settle", done)).at("/results/0/status").asText());
    assertEquals("lost", ok(rest.post("/v1/leases/settle", done)).at("/results/0/status").asText());
    assertEquals("{\"sent\":true}", rest.job(id).get("result").toString());
    assertTrue(rest.metric("waybill_settled_total") >= 1);
    auditIsClean();
  }

  /** As a client that is killed: the connection just ends. */
  private static Socket poll(int port, String body) throws IOException {
    var socket = new Socket(InetAddress.getLoopbackAddress(), port);
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    socket
        .getOutputStream()
        .write(
            ("POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                    + bytes.length
                    + "\r\n\r\n")
                .getBytes(StandardCharsets.US_ASCII));
    socket.getOutputStream().write(bytes);
    socket.getOutputStream().flush();
    return socket;
  }

  @Test
  void a_client_that_hung_up_while_it_waited_takes_no_job() throws Exception {
    ServiceProcess service =
        ServiceProcess.on(database).with("WAYBILL_PULL_POLLS_MAX", "1").startReady();
    try (Socket gone = poll(service.port(), WAIT_LONG)) {
      Awaitility.await("it waits")
          .atMost(PATIENCE)
          .until(() ->
              database.number("SELECT count(*) FROM waybill.waiting WHERE kind = 'mail' AND armed")
                  == 1);
      gone.shutdownOutput();
    }
    Awaitility.await("its place is free, long before its wait would have been over")
        .atMost(Duration.ofSeconds(10))
        .until(() ->
            service.rest().post("/v1/leases", "{\"kinds\": [\"mail\"], \"wait\": 0}").status()
                == 200);
    List<Long> ids = database.enqueueMany("mail", "{}", 1);
    JsonNode job =
        ok(service.rest().post("/v1/leases", "{\"kinds\": [\"mail\"], \"wait\": 15}"))
            .at("/jobs/0");
    assertEquals(ids.getFirst(), job.get("id").asLong());
    assertEquals(1, job.get("attempt").asInt());
  }

  /**
   * The policy that its request has to read is locked, so it is held before it waits at the desk,
   * where nobody listens for the end of its connection yet.
   */
  @Test
  void a_client_that_hung_up_before_it_waited_takes_no_job() throws Exception {
    database.policy(
        "mail", "delivery = 'http', push_url = 'http://127.0.0.1:1', lease_ms = 3600000");
    ServiceProcess service = ServiceProcess.on(database).with("WAYBILL_ROLES", "api").startReady();
    try (Connection operator = database.connect();
        Statement statement = operator.createStatement()) {
      operator.setAutoCommit(false);
      statement.execute("LOCK TABLE waybill.kinds IN ACCESS EXCLUSIVE MODE");
      statement.execute("UPDATE waybill.kinds SET delivery = 'pull' WHERE kind = 'mail'");
      // The service's own look comes every two seconds and gives up after one: then there is time.
      heldAtThePolicies(1);
      heldAtThePolicies(0);
      try (Socket gone = poll(service.port(), WAIT_LONG)) {
        heldAtThePolicies(1);
        gone.shutdownOutput();
        assertEquals(-1, gone.getInputStream().read(), "the service has heard that it is gone");
      }
      operator.commit();
    }
    heldAtThePolicies(0);
    var _ = ok(service.rest().post("/v1/leases", "{\"kinds\": [\"mail\"]}"));
    for (int i = 0; i < 20; i++) { // Who waits longest gets the first.
      CompletableFuture<Rest.Answer> waiting = later(service.rest(), WAIT_LONG);
      long id = database.enqueue("mail", "{}");
      JsonNode job = ok(waiting.get(20, TimeUnit.SECONDS)).at("/jobs/0");
      assertEquals(id, job.path("id").asLong(), () -> "given to one who is gone: " + id);
      assertEquals(1, job.get("attempt").asInt());
    }
    auditIsClean();
  }

  @Test
  void what_was_claimed_for_clients_that_hang_up_at_any_moment_goes_back() throws Exception {
    database.policy("mail", "lease_ms = 3600000, timeout_ms = 7200000");
    ServiceProcess service = start();
    int n = 200;
    var clients = new ArrayList<Thread>();
    for (int c = 0; c < 8; c++) {
      int number = c;
      clients.add(
          Thread.ofVirtual()
              .start(() -> {
                for (int round = 0; round < 25; round++) {
                  try (Socket socket =
                      poll(service.port(), "{\"kinds\": [\"mail\"], \"max\": 3, \"wait\": 10}")) {
                    TimeUnit.MICROSECONDS.sleep((number * 977L + round * 3_001L) % 20_000);
                    socket.setSoLinger(true, 0);
                  } catch (IOException | InterruptedException failure) {
                    throw new IllegalStateException(failure);
                  }
                }
              }));
    }
    for (int i = 0; i < n / 10; i++) {
      database.enqueueMany("mail", "{}", 10);
    }
    for (Thread client : clients) {
      client.join();
    }
    // An answer that was written before the connection broke cannot be taken back: its lease has to
    // run out. All others are there again at once. What a client left behind may be read late, and
    // takes jobs as well: all is over when one that waits gets nothing any more.
    var seen = new ArrayList<Long>();
    Awaitility.await("the rest can be leased")
        .atMost(PATIENCE)
        .untilAsserted(() -> {
          JsonNode jobs =
              ok(service
                      .rest()
                      .post("/v1/leases", "{\"kinds\": [\"mail\"], \"max\": 500, \"wait\": 2}"))
                  .get("jobs");
          jobs.forEach(job -> {
            assertEquals(1, job.get("attempt").asInt(), "the attempt was given back");
            seen.add(job.get("id").asLong());
          });
          assertEquals(0, jobs.size());
          assertEquals(
              0, database.number("SELECT count(*) FROM waybill.jobs WHERE state = 'ready'"));
          assertEquals(n, seen.size() + written(service, seen.size()), seen.size() + " came back");
        });
    assertEquals(seen.size(), seen.stream().distinct().count());
    auditIsClean();
  }

  private void heldAtThePolicies(int requests) {
    Awaitility.await(requests + " wait for the lock")
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(5))
        .until(() ->
            database.number(
                    """
                    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                      AND wait_event_type = 'Lock' AND query LIKE '%FROM waybill.kinds%'
                    """)
                == requests);
  }

  /** Given to clients and not given back; the others are ours. */
  private static long written(ServiceProcess service, int ours) throws IOException {
    return (long) service.rest().metric("waybill_pickup_seconds_count")
        - (long) service.rest().metric("waybill_settled_total")
        - ours;
  }

  @Test
  void a_vanished_workers_job_runs_again_when_its_lease_is_over() throws Exception {
    Rest rest = start().rest();
    database.enqueue("mail", "{}");
    JsonNode late =
        ok(rest.post("/v1/leases", "{\"kinds\": [\"mail\"], \"lease\": 1, \"wait\": 10}"))
            .at("/jobs/0");
    JsonNode next = ok(rest.post("/v1/leases", WAIT_LONG)).at("/jobs/0");
    assertEquals(late.get("id"), next.get("id"));
    assertEquals(2, next.get("attempt").asInt());
    JsonNode answers =
        ok(
            rest.post(
                "/v1/leases/settle",
                "{\"outcomes\": ["
                    + item(late, ", \"outcome\": \"dead\", \"error\": \"late\"")
                    + "]}"));
    assertEquals("lost", answers.at("/results/0/status").asText());
    assertEquals("running", rest.job(late.get("id").asLong()).get("state").asText());
    auditIsClean();
  }

  @Test
  void a_kind_changes_hands_with_its_policy() throws Exception {
    Rest rest = start().rest();
    assertEquals(
        "kinds", rest.post("/v1/leases", "{\"kinds\": [\"echo\"]}").json().get("field").asText());
    database.policy("echo", "delivery = 'pull'");
    Awaitility.await("the policy is heeded by the pools")
        .atMost(PATIENCE)
        .until(() -> {
          long id = database.enqueue("echo", "{}");
          JsonNode jobs =
              ok(rest.post("/v1/leases", "{\"kinds\": [\"echo\"], \"wait\": 5}")).get("jobs");
          return jobs.size() == 1 && jobs.at("/0/id").asLong() == id;
        });
    database.policy("echo", "delivery = NULL");
    long id = database.enqueue("echo", "{}");
    Awaitility.await("the handler has it")
        .atMost(PATIENCE)
        .until(() -> database.state(id).equals("done"));
  }

  @Test
  void a_drain_answers_who_waits() throws Exception {
    ServiceProcess service = start();
    CompletableFuture<Rest.Answer> waiting =
        later(service.rest(), "{\"kinds\": [\"mail\"], \"wait\": 19}");
    Awaitility.await("it waits")
        .atMost(PATIENCE)
        .until(() ->
            database.number("SELECT count(*) FROM waybill.waiting WHERE kind = 'mail' AND armed")
                == 1);
    long began = System.nanoTime();
    service.term();
    assertEquals(0, ok(waiting.get(15, TimeUnit.SECONDS)).get("jobs").size());
    assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(10));
    assertEquals(143, service.exitCode() == 0 ? 143 : service.exitCode());
  }

  @Test
  void so_many_polls_wait_and_no_more() throws Exception {
    ServiceProcess service =
        ServiceProcess.on(database).with("WAYBILL_PULL_POLLS_MAX", "2").startReady();
    try (Socket one = poll(service.port(), WAIT_LONG);
        Socket two = poll(service.port(), WAIT_LONG)) {
      Awaitility.await("both wait")
          .atMost(PATIENCE)
          .until(
              () -> service.rest().post("/v1/leases", "{\"kinds\": [\"mail\"]}").status() == 429);
      assertTrue(one.isConnected() && two.isConnected());
    }
    Awaitility.await("they hung up")
        .atMost(PATIENCE)
        .until(() -> service.rest().post("/v1/leases", "{\"kinds\": [\"mail\"]}").status() == 200);
  }

  @Test
  void what_is_wrong_is_named() throws Exception {
    Rest rest = start().rest();
    String token = "\"6f9619ff-8b86-4011-b42d-00c04fc964ff\"";
    String[][] wrong = {
      {"", "{}", "kinds"},
      {"", "{\"kinds\": []}", "kinds"},
      {"", "{\"kinds\": [null]}", "kinds"},
      {"", "{\"kinds\": [\"NO\"]}", "kinds"},
      {"", "{\"kinds\": \"mail\"}", "kinds"},
      {"", "{\"kinds\": [\"mail\"], \"max\": 0}", "max"},
      {"", "{\"kinds\": [\"mail\"], \"max\": 501}", "max"},
      {"", "{\"kinds\": [\"mail\"], \"wait\": 61}", "wait"},
      {"", "{\"kinds\": [\"mail\"], \"wait\": -1}", "wait"},
      {"", "{\"kinds\": [\"mail\"], \"wait\": \"soon\"}", "wait"},
      {"", "{\"kinds\": [\"mail\"], \"lease\": 0}", "lease"},
      {"", "{\"kinds\": [\"mail\"], \"lease\": \"PT2H\"}", "lease"},
      {"", "{\"kinds\": [\"mail\"], \"worker\": \"\"}", "worker"},
      {"", "{\"kinds\": [\"mail\"], \"worker\": \"a\\u0000\"}", "worker"},
      {"", "{\"kinds\": [\"mail\"], \"timeout\": 1}", "timeout"},
      {"/extend", "{}", "leases"},
      {"/extend", "{\"leases\": [null]}", "leases[0]"},
      {"/extend", "{\"leases\": [{\"id\": 1}]}", "leases[0].token"},
      {"/extend", "{\"leases\": [{\"token\": " + token + "}]}", "leases[0].id"},
      {"/extend", "{\"leases\": [{\"id\": \"1\", \"token\": " + token + "}]}", "leases[0].id"},
      {"/settle", "{\"outcomes\": []}", "outcomes"},
      {"/settle", outcome(token, ", \"outcomes\": \"done\""), "outcomes[0].outcomes"},
      {"/settle", outcome(token, ""), "outcomes[0].outcome"},
      {"/settle", outcome(token, ", \"outcome\": \"won\""), "outcomes[0].outcome"},
      {"/settle", outcome("\"x\"", ", \"outcome\": \"done\""), "outcomes[0].token"},
      {"/settle", outcome(token, ", \"outcome\": \"snooze\""), "outcomes[0].delay"},
      {"/settle", outcome(token, ", \"outcome\": \"dead\", \"result\": 1"), "outcomes[0].result"},
      {"/settle", outcome(token, ", \"outcome\": \"done\", \"error\": \"x\""), "outcomes[0].error"},
      {"/settle", outcome(token, ", \"outcome\": \"done\", \"delay\": 1"), "outcomes[0].delay"},
      {
        "/settle",
        outcome(token, ", \"outcome\": \"done\", \"result\": 1e400"),
        "outcomes[0].result"
      },
      {
        "/settle",
        outcome(token, ", \"outcome\": \"done\", \"result\": \"\\u0000\""),
        "outcomes[0].result"
      },
    };
    for (String[] one : wrong) {
      Rest.Answer answer = rest.post("/v1/leases" + one[0], one[1]);
      String said = String.join(" ", one) + ": " + answer.status() + " " + answer.body();
      assertEquals(400, answer.status(), said);
      assertEquals(one[2], answer.json().path("field").asText(), said);
    }
    assertEquals(
        "lost",
        ok(rest.post("/v1/leases/settle", outcome(token, ", \"outcome\": \"done\"")))
            .at("/results/0/status")
            .asText());
  }

  private static String outcome(String token, String more) {
    return "{\"outcomes\": [{\"id\": 1, \"token\": " + token + more + "}]}";
  }

  @Test
  void the_example_worker_in_python_works_and_stops_when_told() throws Exception {
    example("python3", Path.of("examples/pull-python/worker.py"));
  }

  @Test
  void the_example_worker_in_node_works_and_stops_when_told() throws Exception {
    example("node", Path.of("examples/pull-node/worker.mjs"));
  }

  private void example(String language, Path script) throws Exception {
    if (!isThere(language)) {
      System.out.println("not run: there is no " + language + " here for " + script);
      return;
    }
    database.policy(
        "greet", "backoff_base_ms = 10, backoff_jitter = false, max_attempts = 3, lease_ms = 5000");
    ServiceProcess service = start();
    long good = database.enqueue("greet", "{\"name\": \"Ada\"}");
    long bad = database.enqueue("greet", "{}");
    long slow = database.enqueue("greet", "{\"name\": \"Bob\", \"seconds\": 8}");
    Path log = Path.of("target", "blackbox", "example-" + language + ".log");
    Files.createDirectories(log.getParent());
    var builder =
        new ProcessBuilder(language, script.toString())
            .redirectErrorStream(true)
            .redirectOutput(log.toFile());
    builder.environment().put("WAYBILL_URL", "http://127.0.0.1:" + service.port());
    Process worker = builder.start();
    try {
      Awaitility.await("the jobs are worked")
          .atMost(PATIENCE)
          .untilAsserted(() -> {
            String said = Files.readString(log);
            assertEquals("done", database.state(good), said);
            assertEquals("dead", database.state(bad), said);
            assertEquals("done", database.state(slow), said);
          });
      assertEquals("\"Hello, Ada!\"", service.rest().job(good).at("/result/greeting").toString());
      assertEquals(
          1, service.rest().job(slow).get("attempt").asInt(), "its lease was kept while it ran");
      long last = database.enqueue("greet", "{\"name\": \"Eve\", \"seconds\": 4}");
      Awaitility.await("it works the last one")
          .atMost(PATIENCE)
          .until(() -> database.state(last).equals("running"));
      worker.destroy();
      assertTrue(worker.waitFor(30, TimeUnit.SECONDS), () -> "does not stop");
      assertEquals(0, worker.exitValue(), Files.readString(log));
      assertEquals(
          "done", database.state(last), "a worker that is told to stop ends what it began");
    } finally {
      worker.destroyForcibly();
    }
    auditIsClean();
  }

  private static boolean isThere(String language) {
    try {
      return new ProcessBuilder(language, "--version")
          .redirectOutput(ProcessBuilder.Redirect.DISCARD)
          .start()
          .waitFor(10, TimeUnit.SECONDS);
    } catch (IOException | InterruptedException _) {
      return false;
    }
  }
}
