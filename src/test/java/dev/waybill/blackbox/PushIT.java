package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.standardwebhooks.Webhook;
import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Kinds that are posted to a URL, from the policy to the end of the job. */
@ExtendWith(Processes.class)
final class PushIT {

  private static final String SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final String CANARY = "canary-5f2b-in-the-payload";

  private record Got(String path, String body, HttpHeaders headers) {}

  private static final CopyOnWriteArrayList<Got> GOT = new CopyOnWriteArrayList<>();
  private static final AtomicInteger STATUS = new AtomicInteger(200);
  private static TestDatabase database;
  private static ServiceProcess process;
  private static HttpServer server;
  private static int down;

  @BeforeAll
  static void start(@TempDir Path directory) throws Exception {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext(
        "/",
        exchange -> {
          String body =
              new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
          String path = exchange.getRequestURI().toString();
          GOT.add(
              new Got(
                  path,
                  body,
                  HttpHeaders.of(Map.copyOf(exchange.getRequestHeaders()), (_, _) -> true)));
          if (path.equals("/later")) {
            exchange.getResponseHeaders().add("Retry-After", "3600");
          }
          byte[] says = (CANARY + " in an answer").getBytes(StandardCharsets.UTF_8);
          exchange.sendResponseHeaders(
              path.equals("/later") ? 503 : path.equals("/gone") ? 410 : STATUS.get(), says.length);
          exchange.getResponseBody().write(says);
          exchange.close();
        });
    server.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
    server.start();
    down = Ports.free();
    Path secrets = Files.writeString(directory.resolve("secrets"), "default=" + SECRET + "\n");
    database = TestPostgres.shared().newDatabase();
    process =
        ServiceProcess.on(database)
            .with("WAYBILL_POOLS", "default=*:8")
            .with("WAYBILL_PUSH_ALLOW", "http://localhost:*")
            .with("WAYBILL_PUSH_ALLOW_PRIVATE", "127.0.0.0/8,::1")
            .with("WAYBILL_PUSH_SECRETS_FILE", secrets.toAbsolutePath().toString())
            .with("WAYBILL_PUSH_CONCURRENCY", "4")
            .startReady();
  }

  @AfterAll
  static void stop() {
    server.stop(0);
  }

  private static void pushed(String kind, String url) throws SQLException {
    database.policy(
        kind,
        "delivery = 'http', push_url = '"
            + url
            + "', backoff_base_ms = 10, backoff_jitter = false");
  }

  private static String url(String path) {
    return "http://localhost:" + server.getAddress().getPort() + path;
  }

  private static void awaitState(long id, String state) {
    Awaitility.await("job " + id + " is " + state)
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(20))
        .untilAsserted(() -> assertEquals(state, database.state(id)));
  }

  private static List<Got> at(String path) {
    return GOT.stream().filter(got -> got.path().equals(path)).toList();
  }

  @Test
  void a_kind_without_a_bean_is_posted_signed_and_done() throws Exception {
    pushed("mail", url("/mail"));
    long id =
        database.number(
            "SELECT waybill.enqueue('mail', '{\"a\": 1}', tenant => 'acme', payload_version => 7)");
    awaitState(id, "done");
    Got post = at("/mail").getFirst();
    new Webhook(SECRET).verify(post.body(), post.headers());
    assertEquals("job_" + id, post.headers().firstValue("webhook-id").orElse(""));
    assertEquals(1, Asker.JSON.readTree(post.body()).at("/payload/a").asInt());
    assertEquals("acme", Asker.JSON.readTree(post.body()).get("tenant").asText());
  }

  @Test
  void a_kind_with_a_bean_is_posted_when_its_policy_says_so_and_not_any_more_when_not()
      throws Exception {
    awaitState(database.enqueue("sleep", "{\"ms\": 1}"), "done");
    assertEquals(0, at("/sleep").size());
    pushed("sleep", url("/sleep"));
    Awaitility.await("the policy is heeded")
        .atMost(PATIENCE)
        .until(() -> {
          awaitState(database.enqueue("sleep", "{\"ms\": 1}"), "done");
          return !at("/sleep").isEmpty();
        });
    database.policy("sleep", "delivery = 'pull'");
    Awaitility.await("nobody here works it")
        .atMost(PATIENCE)
        .pollInterval(Duration.ofSeconds(1))
        .until(() -> {
          long id = database.enqueue("sleep", "{\"ms\": 1}");
          Awaitility.await().pollDelay(Duration.ofMillis(800)).until(() -> true);
          return database.state(id).equals("ready");
        });
    database.policy("sleep", "delivery = NULL");
    awaitState(database.enqueue("sleep", "{\"ms\": 1}"), "done");
  }

  @Test
  void gone_is_dead_at_once_and_nothing_of_the_answer_is_kept() throws Exception {
    pushed("gone", url("/gone"));
    long id = database.enqueue("gone", "{\"text\": \"" + CANARY + "\"}");
    awaitState(id, "dead");
    assertEquals(1, at("/gone").size());
    String error = database.text("SELECT last_error FROM waybill.jobs_dead WHERE id = ?", id);
    assertTrue(error.contains("410"), error);
    assertFalse(error.contains(CANARY), error);
    assertFalse(process.output().contains(CANARY), "in a log");
  }

  @Test
  void retry_after_sets_when_it_is_tried_again() throws Exception {
    pushed("later", url("/later"));
    long id = database.enqueue("later", "{}");
    awaitState(id, "scheduled");
    assertTrue(
        database.truth(
            "SELECT run_at BETWEEN now() + interval '59 minutes' AND now() + interval '61 minutes' FROM waybill.jobs WHERE id = ?",
            id));
  }

  @Test
  void a_target_that_is_down_holds_neither_the_pool_nor_attempts() throws Exception {
    pushed("down", "http://localhost:" + down + "/");
    List<Long> stuck = database.enqueueMany("down", "{}", 200);
    Awaitility.await("it is left alone")
        .atMost(PATIENCE)
        .until(() -> process.output().contains("push target is down"));
    for (int i = 0; i < 20; i++) {
      awaitState(database.enqueue("echo", "{}"), "done");
    }
    assertTrue(
        database.number("SELECT coalesce(sum(attempt), 0) FROM waybill.jobs WHERE kind = 'down'")
            <= 5 + 4 + 4,
        "attempts used: "
            + database.text("SELECT sum(attempt)::text FROM waybill.jobs WHERE kind = 'down'"));
    assertEquals(200, database.number("SELECT count(*) FROM waybill.jobs WHERE kind = 'down'"));
    // It comes up: all of them are posted in the end.
    HttpServer again =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), down), 0);
    again.createContext(
        "/",
        exchange -> {
          exchange.sendResponseHeaders(204, -1);
          exchange.close();
        });
    again.start();
    try {
      Awaitility.await("all done")
          .atMost(Duration.ofMinutes(2))
          .until(
              () -> database.number("SELECT count(*) FROM waybill.jobs WHERE kind = 'down'") == 0);
    } finally {
      again.stop(0);
    }
    assertEquals("done", database.state(stuck.getLast()));
  }

  @Test
  void a_target_that_is_not_allowed_says_so_in_the_history() throws Exception {
    database.policy(
        "meta", "delivery = 'http', push_url = 'http://169.254.169.254/latest', max_attempts = 1");
    long id = database.enqueue("meta", "{}");
    awaitState(id, "dead");
    String error = database.text("SELECT last_error FROM waybill.jobs_dead WHERE id = ?", id);
    assertTrue(error.contains("WAYBILL_PUSH_ALLOW"), error);
  }
}
