package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** The REST door, operation by operation. Every answer is held against the served document. */
@ExtendWith(Processes.class)
final class RestIT {

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private static TestDatabase database;
  private static Door door;

  @BeforeAll
  static void start() throws Exception {
    database = TestPostgres.shared().newDatabase();
    database.policy("brief", "retention_ms = 0");
    database.policy("fail", "backoff_base_ms = 20, backoff_jitter = false, max_attempts = 2");
    door =
        new Door(
            ServiceProcess.on(database)
                .with("WAYBILL_POOLS", "default=*:16")
                .with(
                    "WAYBILL_KINDS",
                    "{\"seeded\": {\"maxAttempts\": 7, \"paused\": true}, \"echo\": {\"lease\": \"45s\"}}")
                .startReady());
  }

  private static void awaitState(long id, String state) {
    Awaitility.await("job " + id + " is " + state)
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(20))
        .untilAsserted(() -> assertEquals(state, database.state(id)));
  }

  private static String later(String kind) {
    return "{\"kind\": \"" + kind + "\", \"delay\": \"PT1H\"}";
  }

  private static List<Long> ids(JsonNode array) {
    return StreamSupport.stream(array.spliterator(), false)
        .map(n -> n.isObject() ? n.get("id").asLong() : n.asLong())
        .toList();
  }

  private static List<Long> ids(Door.Reply reply) {
    return ids(reply.json().path(reply.json().has("ids") ? "ids" : "jobs"));
  }

  private static long count(String kind) throws SQLException {
    return database.number("SELECT count(*) FROM waybill.all_jobs WHERE kind = ?", kind);
  }

  // ------------------------------------------------------------------------------ idempotency

  @Test
  void a_repeat_under_the_same_key_answers_the_same_job_however_it_is_written() throws Exception {
    long first =
        door.postKeyed(
                "/v1/jobs",
                "key-1",
                Door.JSON_TYPE,
                "{\"kind\": \"keyed\", \"payload\": {\"a\": 1, \"b\": [2]}}")
            .is(201)
            .id();
    Door.Reply again =
        door.postKeyed(
                "/v1/jobs",
                "key-1",
                Door.JSON_TYPE,
                "{\"payload\":{\"b\":[2],\"a\":1},\"kind\":\"keyed\",\"priority\":0,\"tags\":[]}")
            .is(200);
    assertEquals(first, again.id());
    assertTrue(again.header("Location").endsWith("/v1/jobs/" + first));
    door.postKeyed(
            "/v1/jobs", "key-1", Door.JSON_TYPE, "{\"kind\": \"keyed\", \"payload\": {\"a\": 2}}")
        .isProblem(409, "idempotency-conflict", "");
    assertEquals(1, count("keyed"));
  }

  @Test
  void a_key_is_printable_and_bounded() throws Exception {
    for (String bad : List.of("k".repeat(256), "a b", "a\tb")) {
      Door.Reply reply =
          door.send(
              "POST",
              "/v1/jobs",
              Map.of("Content-Type", Door.JSON_TYPE, "Idempotency-Key", bad),
              later("keyless").getBytes(StandardCharsets.UTF_8));
      reply.isProblem(400, "invalid", "Idempotency-Key");
    }
    door.postKeyed("/v1/jobs", "k".repeat(255), Door.JSON_TYPE, later("keyless")).is(201);
  }

  @Test
  void of_many_requests_at_once_with_one_key_one_makes_the_job_and_all_answer_it()
      throws Exception {
    try (var threads = Executors.newFixedThreadPool(8)) {
      for (int round = 0; round < 15; round++) {
        String key = "race-" + round;
        boolean batch = round % 3 == 2;
        var barrier = new CyclicBarrier(8);
        List<Callable<Door.Reply>> calls =
            Collections.nCopies(
                8,
                () -> {
                  barrier.await();
                  return batch
                      ? door.postKeyed(
                          "/v1/jobs/batch",
                          key,
                          Door.JSON_TYPE,
                          "[" + later("raced") + "," + later("raced") + "]")
                      : door.postKeyed("/v1/jobs", key, Door.JSON_TYPE, later("raced"));
                });
        var replies = new ArrayList<Door.Reply>();
        for (var future : threads.invokeAll(calls)) {
          replies.add(future.get());
        }
        assertEquals(1, replies.stream().filter(r -> r.status() == 201).count());
        assertEquals(7, replies.stream().filter(r -> r.status() == 200).count());
        assertEquals(
            1, replies.stream().map(r -> batch ? r.body() : "" + r.id()).distinct().count());
      }
    }
    assertEquals(10 + 2 * 5, count("raced"));
  }

  @Test
  void after_a_crash_between_commit_and_answer_a_repeat_finds_the_job() throws Exception {
    TestDatabase own = TestPostgres.shared().newDatabase();
    ServiceProcess dying = ServiceProcess.on(own).with("WAYBILL_ROLES", "api").startReady();
    String body = later("crashed");
    try (var socket = new Socket(java.net.InetAddress.getLoopbackAddress(), dying.port())) {
      socket
          .getOutputStream()
          .write(
              ("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: crash-1\r\nContent-Length: "
                      + body.length()
                      + "\r\n\r\n"
                      + body)
                  .getBytes(StandardCharsets.US_ASCII));
      socket.getOutputStream().flush();
      Awaitility.await("it is committed")
          .atMost(PATIENCE)
          .pollInterval(Duration.ofMillis(1))
          .until(() -> own.number("SELECT count(*) FROM waybill.idempotency") == 1);
      dying.kill9(); // The client has read nothing.
    }
    var next = new Door(ServiceProcess.on(own).with("WAYBILL_ROLES", "api").startReady());
    long id = next.postKeyed("/v1/jobs", "crash-1", Door.JSON_TYPE, body).is(200).id();
    assertEquals(id, own.number("SELECT id FROM waybill.jobs"));
  }

  @Test
  void a_repeat_answers_the_same_id_when_the_job_is_gone_for_good() throws Exception {
    door.put("/v1/kinds/sleep", "{\"retention\": 0}").is(200);
    String body = "{\"kind\": \"sleep\", \"payload\": {\"ms\": 0}, \"tags\": [\"gone\"]}";
    long id = door.postKeyed("/v1/jobs", "gone-1", Door.JSON_TYPE, body).is(201).id();
    awaitState(id, "nothing");
    Door.Reply again = door.postKeyed("/v1/jobs", "gone-1", Door.JSON_TYPE, body).is(200);
    assertEquals(id, again.id());
    assertEquals("[\"gone\"]", again.json().get("tags").toString());
    door.put("/v1/kinds/sleep", "{}").is(200);
  }

  @Test
  void a_key_is_kept_for_a_day() throws Exception {
    long first = door.postKeyed("/v1/jobs", "day", Door.JSON_TYPE, later("daily")).is(201).id();
    database.execute(
        "UPDATE waybill.idempotency SET created_at = created_at - interval '24 hours' WHERE key = 'day'");
    long next = door.postKeyed("/v1/jobs", "day", Door.JSON_TYPE, later("daily2")).is(201).id();
    assertNotEquals(first, next);
    assertEquals(
        next, door.postKeyed("/v1/jobs", "day", Door.JSON_TYPE, later("daily2")).is(200).id());
  }

  @Test
  void who_enqueues_what_is_there_already_is_told_so() throws Exception {
    String body = "{\"kind\": \"twin\", \"delay\": 3600, \"dedupeKey\": \"one\"}";
    Door.Reply first = door.post("/v1/jobs", body).is(201);
    assertTrue(first.json().path("duplicate").isMissingNode(), first.body());
    Door.Reply second = door.post("/v1/jobs", body).is(201);
    assertTrue(second.json().path("duplicate").asBoolean(), second.body());
    assertEquals(first.id(), second.id());
    Door.Reply keyed = door.postKeyed("/v1/jobs", "twin-1", Door.JSON_TYPE, body).is(201);
    assertTrue(keyed.json().path("duplicate").asBoolean(), keyed.body());
    assertTrue(door.get("/v1/jobs/" + first.id()).is(200).json().path("duplicate").isMissingNode());
    database.truth("SELECT waybill.cancel(?)", first.id());
    Door.Reply next = door.post("/v1/jobs", body).is(201);
    assertTrue(next.json().path("duplicate").isMissingNode(), next.body());
    assertNotEquals(first.id(), next.id());
  }

  // ------------------------------------------------------------------------------------ batch

  @Test
  void a_batch_of_many_kinds_tenants_and_keys_answers_its_ids_in_order() throws Exception {
    long taken =
        door.post("/v1/jobs", "{\"kind\": \"mixed-a\", \"delay\": 3600, \"dedupeKey\": \"k\"}")
            .is(201)
            .id();
    List<Long> ids =
        ids(
            door.post(
                    "/v1/jobs/batch",
                    """
                    [{"kind": "mixed-a", "payload": 1, "tenant": "x", "priority": -5, "delay": "PT1H", "maxAttempts": 3},
                     {"kind": "mixed-b", "payload": [2], "dedupeKey": "k", "runAt": "2030-01-01T00:00:00Z", "tags": ["a\\"\\\\,b{}", "ü"]},
                     {"kind": "mixed-a", "dedupeKey": "k", "payload": 3},
                     {"kind": "mixed-b", "dedupeKey": "k", "payload": 4},
                     {"kind": "mixed-c", "payloadVersion": 9}]
                    """)
                .is(201));
    assertEquals(5, ids.size());
    assertEquals(taken, ids.get(2));
    assertEquals(ids.get(1), ids.get(3));
    JsonNode first = door.get("/v1/jobs/" + ids.get(0)).is(200).json();
    assertEquals(
        "scheduled x -5 3 1",
        first.get("state").asText()
            + " "
            + first.get("tenant").asText()
            + " "
            + first.get("priority")
            + " "
            + first.get("maxAttempts")
            + " "
            + first.get("payload"));
    JsonNode second = door.get("/v1/jobs/" + ids.get(1)).is(200).json();
    assertEquals("[\"a\\\"\\\\,b{}\",\"ü\"]", second.get("tags").toString());
    assertEquals("2030-01-01T00:00:00Z", second.get("runAt").asText());
    assertEquals(9, door.get("/v1/jobs/" + ids.get(4)).json().get("payloadVersion").asInt());
    assertEquals(
        "t", database.text("SELECT count(*) = 2 FROM waybill.jobs WHERE kind = 'mixed-a'"));
  }

  @Test
  void a_batch_with_a_fault_makes_no_job_and_says_where_it_is() throws Exception {
    String good = "{\"kind\": \"faulty\"}\n";
    record Fault(String line, String problem, String field) {}
    for (Fault fault :
        List.of(
            new Fault("{\"kind\": \"faulty\", \"priority\": 40000}", "invalid", "priority"),
            new Fault("{\"kind\": \"faulty\", \"tags\": [\"\"]}", "invalid", "tags"),
            new Fault("{\"kind\": \"Faulty\"}", "invalid", "kind"),
            new Fault("{\"kind\": \"faulty\", \"payload\": \"\\u0000\"}", "invalid", "payload"),
            new Fault(
                "{\"kind\": \"faulty\", \"payload\": \"" + "x".repeat(262_144) + "\"}",
                "invalid",
                "payload"),
            new Fault("{\"kind\": \"faulty\", \"delay\": \"P20Y\"}", "invalid", "delay"),
            new Fault(
                "{\"kind\": \"faulty\", \"runAt\": \"2999-01-01T00:00:00Z\"}", "invalid", "runAt"),
            new Fault("{\"kind\": \"faulty\", \"kind\": \"faulty\"}", "invalid", "kind"),
            new Fault("{\"kind\": \"faulty\", \"oops\": 1}", "invalid", "oops"),
            new Fault("{\"kind\": 7}", "invalid", "kind"),
            new Fault("{}", "invalid", "kind"),
            new Fault("[]", "malformed", ""),
            new Fault("7", "malformed", ""),
            new Fault("{\"kind\": faulty}", "malformed", ""))) {
      for (boolean lines : List.of(true, false)) {
        String body = good.repeat(3) + "\n" + fault.line() + "\n" + good;
        Door.Reply reply =
            lines
                ? door.lines("/v1/jobs/batch", body)
                : door.post("/v1/jobs/batch", "[" + body.strip().replaceAll("\n+", ",\n") + "]");
        reply.isProblem(400, fault.problem(), fault.field());
        assertEquals(lines ? 5 : 4, reply.json().get("line").asInt(), reply.body());
        assertEquals(3, reply.json().get("index").asInt(), reply.body());
      }
    }
    assertEquals(0, count("faulty"));
  }

  @Test
  void a_batch_that_is_none_is_refused() throws Exception {
    for (String body :
        List.of("", "{}", "7", "[", "[{\"kind\": \"none\"}", "[{\"kind\": \"none\"}] 7", "null")) {
      door.post("/v1/jobs/batch", body).isProblem(400, "malformed", "");
    }
    door.post("/v1/jobs/batch", "[]").isProblem(400, "invalid", "jobs");
    door.lines("/v1/jobs/batch", "\n\n").isProblem(400, "invalid", "jobs");
    door.call("POST", "/v1/jobs/batch", Map.of("Content-Type", "text/csv"), "x").is(415);
    assertEquals(0, count("none"));
  }

  @Test
  void a_batch_holds_ten_thousand_jobs_and_no_more() throws Exception {
    String line =
        "{\"kind\": \"plenty\", \"payload\": {\"text\": \""
            + "x".repeat(150)
            + "\"}, \"delay\": 3600}\n";
    List<Long> ids = ids(door.lines("/v1/jobs/batch", line.repeat(10_000)).is(201));
    assertEquals(10_000, new HashSet<>(ids).size());
    assertEquals(ids.stream().sorted().toList(), ids);
    door.lines("/v1/jobs/batch", line.repeat(10_001)).isProblem(413, "too-large", "");
    assertEquals(10_000, count("plenty"));
  }

  @Test
  void bodies_are_bounded() throws Exception {
    String huge = "{\"kind\": \"huge\", \"payload\": \"" + "x".repeat(3 << 20) + "\"}";
    door.post("/v1/jobs", huge).isProblem(413, "too-large", "");
    door.lines("/v1/jobs/batch", huge).isProblem(413, "too-large", "");
    door.put("/v1/kinds/huge", " ".repeat(3 << 20) + "{}").isProblem(413, "too-large", "");
    // Larger than all that a batch may hold, and saying so beforehand.
    door.lines("/v1/jobs/batch", " ".repeat(70 << 20)).isProblem(413, "too-large", "");
    assertEquals(0, count("huge"));
  }

  /** A byte now and then keeps every other time limit from coming. */
  @Test
  void a_body_that_drips_is_answered_before_it_ends() throws Exception {
    try (var threads = Executors.newFixedThreadPool(2)) {
      List<Callable<String>> calls =
          List.of(
              () -> drip("/v1/jobs", "{\"kind\": \"drip\""),
              () -> drip("/v1/jobs/batch", "[{\"kind\": \"drip\"}"));
      for (var answer : threads.invokeAll(calls)) {
        refused(answer.get(), 408, "/problems/too-slow", "");
      }
    }
    assertEquals(0, count("drip"));
  }

  private static String drip(String path, String begin) throws IOException {
    String head =
        "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    try (var socket = new Socket(java.net.InetAddress.getLoopbackAddress(), door.port())) {
      socket.setSoTimeout(200);
      var out = socket.getOutputStream();
      out.write(
          (head + "Content-Length: 100000\r\n\r\n" + begin).getBytes(StandardCharsets.US_ASCII));
      var answer = new StringBuilder();
      for (int dripped = 0; dripped < 300 && !answer.toString().endsWith("}"); ) {
        try {
          int read = socket.getInputStream().read();
          if (read < 0) {
            break;
          }
          answer.append((char) read);
        } catch (SocketTimeoutException _) {
          out.write(' ');
          dripped++;
        }
      }
      return answer.toString();
    }
  }

  private static final String HEAD =
      "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

  private static void write(Socket socket, String text) throws IOException {
    socket.getOutputStream().write(text.getBytes(StandardCharsets.US_ASCII));
    socket.getOutputStream().flush();
  }

  /** A body ends without a line break, so an answer may begin within a line. */
  private static void awaitLine(BufferedReader from, String with) throws IOException {
    String line;
    do {
      line = from.readLine();
      assertTrue(line != null, "closed before: " + with);
    } while (!line.contains(with));
  }

  private static BufferedReader reader(Socket socket) throws IOException {
    return new BufferedReader(
        new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
  }

  @Test
  void a_body_may_come_in_pieces_when_it_is_asked_for_and_behind_another() throws Exception {
    String body = later("pieces");
    String sized = HEAD + "Content-Length: " + body.length() + "\r\n";
    try (Socket socket = new Socket(java.net.InetAddress.getLoopbackAddress(), door.port());
        BufferedReader answers = reader(socket)) {
      write(socket, HEAD + "Transfer-Encoding: chunked\r\n\r\n");
      for (String piece : List.of(body.substring(0, 10), body.substring(10))) {
        write(socket, Integer.toHexString(piece.length()) + "\r\n" + piece + "\r\n");
      }
      write(socket, "0\r\n\r\n");
      awaitLine(answers, "HTTP/1.1 201");
      awaitLine(answers, "Location: http://localhost/v1/jobs/");
      write(socket, sized + "Expect: 100-continue\r\n\r\n");
      awaitLine(answers, "HTTP/1.1 100");
      write(socket, body);
      awaitLine(answers, "HTTP/1.1 201");
      write(socket, (sized + "\r\n" + body).repeat(20));
      for (int i = 0; i < 20; i++) {
        awaitLine(answers, "HTTP/1.1 201");
      }
    }
    assertEquals(22, count("pieces"));
  }

  @Test
  void a_body_that_is_cut_off_makes_no_job() throws Exception {
    String body = later("cut");
    try (Socket socket = new Socket(java.net.InetAddress.getLoopbackAddress(), door.port())) {
      write(socket, HEAD + "Content-Length: " + (body.length() + 1) + "\r\n\r\n" + later("cut"));
    }
    door.post("/v1/jobs", later("whole")).is(201);
    assertEquals(0, count("cut"));
  }

  @Test
  void a_batch_repeats_under_its_key_as_lines_or_as_an_array() throws Exception {
    List<Long> ids =
        ids(
            door.postKeyed(
                    "/v1/jobs/batch",
                    "b-1",
                    Door.LINES_TYPE,
                    later("again") + "\n" + later("again"))
                .is(201));
    assertEquals(
        ids,
        ids(
            door.postKeyed(
                    "/v1/jobs/batch",
                    "b-1",
                    Door.JSON_TYPE,
                    "[" + later("again") + "," + later("again") + "]")
                .is(200)));
    door.postKeyed("/v1/jobs/batch", "b-1", Door.JSON_TYPE, "[" + later("again") + "]")
        .isProblem(409, "idempotency-conflict", "");
    // A key belongs to its operation.
    door.postKeyed("/v1/jobs", "b-1", Door.JSON_TYPE, later("again")).is(201);
    assertEquals(3, count("again"));
  }

  @Test
  void batches_with_the_same_dedupe_keys_in_another_order_do_not_lock_each_other_out()
      throws Exception {
    List<String> jobs =
        IntStream.range(0, 400)
            .mapToObj(
                i -> "{\"kind\": \"tangled\", \"delay\": 3600, \"dedupeKey\": \"k" + i + "\"}")
            .collect(Collectors.toCollection(ArrayList::new));
    String forth = String.join("\n", jobs);
    Collections.reverse(jobs);
    String back = String.join("\n", jobs);
    try (var threads = Executors.newFixedThreadPool(4)) {
      List<Callable<List<Long>>> calls = new ArrayList<>();
      for (int i = 0; i < 8; i++) {
        String body = i % 2 == 0 ? forth : back;
        calls.add(() -> ids(door.lines("/v1/jobs/batch", body).is(201)));
      }
      for (var future : threads.invokeAll(calls)) {
        assertEquals(400, new HashSet<>(future.get()).size());
      }
    }
    assertEquals(400, count("tangled"));
  }

  // ------------------------------------------------------------------------------------ lists

  private static List<Long> walk(String query) throws IOException {
    var all = new ArrayList<Long>();
    String next = null;
    do {
      JsonNode page =
          door.get("/v1/jobs?" + query + (next == null ? "" : "&after=" + next)).is(200).json();
      all.addAll(ids(page.get("jobs")));
      next = page.has("next") ? page.get("next").asText() : null;
    } while (next != null);
    return all;
  }

  @Test
  void pages_show_each_job_once_newest_first_wherever_it_is() throws Exception {
    var made = new ArrayList<Long>();
    for (int i = 0; i < 3; i++) {
      made.add(
          door.post("/v1/jobs", "{\"kind\": \"echo\", \"tenant\": \"walker\", \"tags\": [\"w\"]}")
              .is(201)
              .id());
      made.add(
          door.post("/v1/jobs", "{\"kind\": \"fail\", \"tenant\": \"walker\", \"maxAttempts\": 1}")
              .is(201)
              .id());
      made.add(
          door.post("/v1/jobs", "{\"kind\": \"walked\", \"tenant\": \"walker\", \"delay\": 3600}")
              .is(201)
              .id());
      made.add(
          door.post("/v1/jobs", "{\"kind\": \"walked\", \"tenant\": \"walker\"}").is(201).id());
    }
    long cancelled = made.get(2);
    door.post("/v1/jobs/" + cancelled + "/cancel", "").is(200);
    for (int i = 0; i < 12; i += 4) {
      awaitState(made.get(i), "done");
      awaitState(made.get(i + 1), "dead");
    }
    Collections.reverse(made);
    for (int limit : List.of(1, 5, 1000)) {
      assertEquals(made, walk("tenant=walker&limit=" + limit));
    }
    assertEquals(6, walk("tenant=walker&kind=walked&limit=2").size());
    assertEquals(3, walk("tenant=walker&state=dead&limit=2").size());
    assertEquals(3, walk("tenant=walker&state=done&limit=1").size());
    assertEquals(2, walk("tenant=walker&state=scheduled").size());
    assertEquals(3, walk("tenant=walker&state=ready").size());
    assertEquals(List.of(cancelled), walk("tenant=walker&state=cancelled"));
    assertEquals(3, walk("tag=w&limit=2").size());
    assertEquals(List.of(), walk("tag=w&state=dead"));
    assertEquals(List.of(), walk("tenant=nobody"));
    Door.Reply lines =
        door.call("GET", "/v1/jobs?tenant=walker&limit=5", Map.of("Accept", Door.LINES_TYPE), "")
            .is(200);
    assertEquals(Door.LINES_TYPE, lines.type().replaceFirst(";.*", ""));
    assertEquals(6, lines.body().lines().count(), lines.body());
    assertTrue(lines.body().lines().toList().getLast().startsWith("{\"next\":"), lines.body());
    String all =
        door.call("GET", "/v1/jobs?tenant=walker", Map.of("Accept", Door.LINES_TYPE), "")
            .is(200)
            .body();
    assertEquals(12, all.lines().count());
  }

  @Test
  void running_jobs_are_listed() throws Exception {
    long id =
        door.post(
                "/v1/jobs",
                "{\"kind\": \"sleep\", \"tenant\": \"sleeper\", \"payload\": {\"ms\": 60000}}")
            .is(201)
            .id();
    awaitState(id, "running");
    assertEquals(List.of(id), walk("state=running&tenant=sleeper"));
    assertEquals(List.of(id), walk("tenant=sleeper"));
    door.post("/v1/jobs/" + id + "/cancel", "").is(200);
  }

  @Test
  void a_search_that_finds_little_is_cut_short_and_goes_on() throws Exception {
    TestDatabase own = TestPostgres.shared().newDatabase();
    own.execute(
        """
        INSERT INTO waybill.jobs_done (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, state, kind,
          tenant, payload)
        SELECT g, now(), now(), now(), 0, 1, 0, 1, 'done', CASE WHEN g IN (1, 5, 60000) THEN 'rare' ELSE 'usual' END, '', '{}'
        FROM generate_series(1, 150000) g
        """);
    own.execute("ANALYZE waybill.jobs_done");
    var other = new Door(ServiceProcess.on(own).with("WAYBILL_ROLES", "api").startReady());
    // The statement itself: one look at 20,000 rows, which are not enough.
    assertEquals(
        List.of("130000"),
        own.texts(
            "SELECT looked_to FROM waybill.list_jobs('rare', NULL, NULL, NULL, 9223372036854775807, 10, 20000, NULL, NULL)"));
    var found = new ArrayList<Long>();
    String next = "";
    for (int pages = 0; next != null && pages < 20; pages++) {
      JsonNode page =
          other
              .get("/v1/jobs?kind=rare&limit=2" + (next.isEmpty() ? "" : "&after=" + next))
              .is(200)
              .json();
      found.addAll(ids(page.get("jobs")));
      next = page.has("next") ? page.get("next").asText() : null;
    }
    assertEquals(List.of(60_000L, 5L, 1L), found);
  }

  @Test
  void what_cannot_be_listed_is_refused_by_name() throws Exception {
    record Bad(String query, String field) {}
    for (Bad bad :
        List.of(
            new Bad("limit=0", "limit"),
            new Bad("limit=1001", "limit"),
            new Bad("limit=x", "limit"),
            new Bad("state=asleep", "state"),
            new Bad("kind=No", "kind"),
            new Bad("after=x", "after"),
            new Bad("after=MTo", "after"),
            new Bad("tag=" + "t".repeat(65), "tag"),
            new Bad("tenant=" + "t".repeat(129), "tenant"),
            new Bad("tenant=%00", "tenant"))) {
      door.get("/v1/jobs?" + bad.query()).isProblem(400, "invalid", bad.field());
    }
  }

  // ------------------------------------------------------------------------------------- acts

  @Test
  void cancelling_ends_a_job_once_and_interrupts_its_handler() throws Exception {
    long waiting = door.post("/v1/jobs", later("stopped")).is(201).id();
    assertEquals(
        "cancelled",
        door.post("/v1/jobs/" + waiting + "/cancel", "").is(200).json().get("state").asText());
    assertEquals(
        "cancelled",
        door.post("/v1/jobs/" + waiting + "/cancel", "").is(200).json().get("state").asText(),
        "asked again, the same answer");
    long running =
        door.post("/v1/jobs", "{\"kind\": \"sleep\", \"payload\": {\"ms\": 600000}}").is(201).id();
    awaitState(running, "running");
    JsonNode cancelled = door.post("/v1/jobs/" + running + "/cancel", "").is(200).json();
    assertEquals("cancelled", cancelled.get("state").asText());
    assertEquals("cancelled", cancelled.at("/attempts/0/outcome").asText());
    Awaitility.await("its slot is free")
        .atMost(PATIENCE)
        .until(
            () -> door.get("/v1/workers").json().at("/workers/0/pools/0/slotsInUse").asInt() == 0);
    door.post("/v1/jobs/999999999/cancel", "").isProblem(404, "not-found", "");
    door.post("/v1/jobs/x/cancel", "").isProblem(400, "invalid", "id");
  }

  @Test
  void a_scheduled_job_runs_now_when_told_to() throws Exception {
    long id = door.post("/v1/jobs", later("echo")).is(201).id();
    assertEquals(
        "ready", door.post("/v1/jobs/" + id + "/run-now", "").is(200).json().get("state").asText());
    awaitState(id, "done");
    door.post("/v1/jobs/" + id + "/run-now", "").isProblem(409, "ended", "");
    long ready = door.post("/v1/jobs", "{\"kind\": \"nobodys\"}").is(201).id();
    assertEquals(
        "ready",
        door.post("/v1/jobs/" + ready + "/run-now", "").is(200).json().get("state").asText());
    long running =
        door.post("/v1/jobs", "{\"kind\": \"sleep\", \"payload\": {\"ms\": 60000}}").is(201).id();
    awaitState(running, "running");
    door.post("/v1/jobs/" + running + "/run-now", "").isProblem(409, "running", "");
    door.post("/v1/jobs/" + running + "/cancel", "").is(200);
    door.post("/v1/jobs/999999999/run-now", "").isProblem(404, "not-found", "");
    door.post("/v1/jobs/-/run-now", "").isProblem(400, "invalid", "id");
  }

  // ------------------------------------------------------------------------------------ kinds

  @Test
  void a_policy_is_replaced_as_a_whole_and_read_back() throws Exception {
    JsonNode made =
        door.put(
                "/v1/kinds/policed",
                """
                {"maxAttempts": 5, "backoff": {"base": "2s", "factor": 2, "cap": "PT10M", "jitter": false}, "lease": 45, "timeout": "PT5M",
                 "retention": 0, "deadRetention": "90d", "tenantCap": 3, "kindCap": 30, "ratePerSecond": 0.5, "paused": true,
                 "delivery": "http", "url": "https://example.com/hook", "secretRef": "hooks", "archive": true}
                """)
            .is(201)
            .json();
    assertEquals(
        "{\"kind\":\"policed\",\"version\":1,\"maxAttempts\":5,\"backoff\":{\"base\":\"PT2S\",\"factor\":2.0,\"cap\":\"PT10M\",\"jitter\":false},"
            + "\"lease\":\"PT45S\",\"timeout\":\"PT5M\",\"retention\":\"PT0S\",\"deadRetention\":\"PT2160H\",\"tenantCap\":3,\"kindCap\":30,"
            + "\"ratePerSecond\":0.5,\"paused\":true,\"delivery\":\"http\",\"url\":\"https://example.com/hook\",\"secretRef\":\"hooks\","
            + "\"archive\":true,\"defaults\":[]}",
        made.toString().replaceFirst("\"updatedAt\":\"[^\"]+\",", ""));
    assertEquals(made, door.get("/v1/kinds/policed").is(200).json());
    JsonNode bare = door.put("/v1/kinds/policed", "{\"maxAttempts\": null}").is(200).json();
    assertEquals(10, bare.get("maxAttempts").asInt());
    assertEquals("PT30S", bare.get("lease").asText());
    assertTrue(bare.get("paused").asBoolean(), "who says nothing of it does not resume");
    assertEquals(2, bare.get("version").asInt());
    assertEquals(11, bare.get("defaults").size(), bare::toString);
  }

  @Test
  void an_answer_that_is_sent_back_changes_nothing_and_keeps_defaults_defaults() throws Exception {
    door.put("/v1/kinds/rounded", "{\"lease\": \"PT1M\"}").is(201);
    Door.Reply read = door.get("/v1/kinds/rounded").is(200);
    Door.Reply back =
        door.put("/v1/kinds/rounded", read.body(), "If-Match", read.header("ETag")).is(200);
    assertEquals(read.json(), back.json());
    assertEquals(
        "null", database.text("SELECT timeout_ms FROM waybill.kinds WHERE kind = 'rounded'"));
  }

  @Test
  void a_policy_that_was_changed_meanwhile_is_not_overwritten() throws Exception {
    door.put("/v1/kinds/etagged", "{}", "If-Match", "*").isProblem(412, "precondition", "If-Match");
    door.put("/v1/kinds/etagged", "{}", "If-None-Match", "*").is(201);
    door.put("/v1/kinds/etagged", "{}", "If-None-Match", "*")
        .isProblem(412, "precondition", "If-None-Match");
    String etag = door.get("/v1/kinds/etagged").is(200).header("ETag");
    assertEquals("\"1\"", etag);
    // The ETag is the policy's; what is measured moves without it.
    door.call("GET", "/v1/kinds/etagged", Map.of("If-None-Match", etag), "").is(200);
    door.put("/v1/kinds/etagged", "{\"kindCap\": 3}", "If-Match", etag).is(200);
    door.put("/v1/kinds/etagged", "{\"kindCap\": 4}", "If-Match", etag)
        .isProblem(412, "precondition", "If-Match");
    assertEquals(3, door.get("/v1/kinds/etagged").json().get("kindCap").asInt());
  }

  /** As a client sends it whose variable was empty: it took care, and must not be passed by. */
  @Test
  void a_key_or_a_condition_that_is_empty_or_there_twice_is_refused() throws Exception {
    String job = later("careful");
    for (String said :
        List.of(
            "Idempotency-Key:", "Idempotency-Key:  ", "Idempotency-Key: a\r\nidempotency-key: b")) {
      refused(raw("POST /v1/jobs", said, job), 400, "/problems/invalid", "Idempotency-Key");
    }
    assertEquals(0, count("careful"));
    door.put("/v1/kinds/careful", "{\"kindCap\": 3}").is(201);
    for (String said : List.of("If-Match:", "If-Match: \"1\"\r\nIf-Match: \"2\"")) {
      refused(raw("PUT /v1/kinds/careful", said, "{}"), 400, "/problems/invalid", "If-Match");
    }
    for (String said : List.of("if-none-match:", "If-None-Match: \"9\"\r\nIf-None-Match: *")) {
      refused(raw("PUT /v1/kinds/careful", said, "{}"), 400, "/problems/invalid", "If-None-Match");
    }
    assertEquals(3, door.get("/v1/kinds/careful").json().get("kindCap").asInt());
  }

  @Test
  void what_is_no_json_is_refused_by_its_header() throws Exception {
    door.call("POST", "/v1/jobs", Map.of("Content-Type", "text/plain"), later("careful"))
        .isProblem(415, "http-415", "Content-Type");
    door.call("GET", "/v1/stats", Map.of("Accept", "text/html"), "")
        .isProblem(406, "http-406", "Accept");
  }

  /** What came back, to the end of the connection. */
  private static String raw(String request, String header, String body) throws IOException {
    String head =
        String.join(
            "\r\n",
            request + " HTTP/1.1",
            "Host: localhost",
            "Connection: close",
            "Content-Type: application/json",
            header,
            "Content-Length: " + body.length());
    try (var socket = new Socket(java.net.InetAddress.getLoopbackAddress(), door.port())) {
      socket.setSoTimeout((int) PATIENCE.toMillis());
      var out = socket.getOutputStream();
      out.write((head + "\r\n\r\n" + body).getBytes(StandardCharsets.US_ASCII));
      out.flush();
      return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private static void refused(String answer, int status, String type, String field)
      throws IOException {
    assertTrue(answer.startsWith("HTTP/1.1 " + status + " "), answer);
    assertTrue(answer.contains("application/problem+json"), answer);
    JsonNode problem = new ObjectMapper().readTree(answer.substring(answer.indexOf('{')));
    assertEquals(type, problem.path("type").asText(), answer);
    assertEquals(status, problem.path("status").asInt(), answer);
    assertEquals(field, problem.path("field").asText(), answer);
  }

  @Test
  void a_policy_that_is_not_valid_is_refused_by_field() throws Exception {
    record Bad(String body, String field) {}
    for (Bad bad :
        List.of(
            new Bad("{\"maxAttempts\": 0}", "maxAttempts"),
            new Bad("{\"maxAttempts\": 1.5}", "maxAttempts"),
            new Bad("{\"maxAttempts\": \"5\"}", "maxAttempts"),
            new Bad("{\"lease\": \"1\"}", "lease"),
            new Bad("{\"lease\": 0.5}", "lease"),
            new Bad("{\"lease\": \"P2D\"}", "lease"),
            new Bad("{\"lease\": 1e300}", "lease"),
            new Bad("{\"lease\": []}", "lease"),
            new Bad("{\"timeout\": 0}", "timeout"),
            new Bad("{\"timeout\": \"-PT1S\"}", "timeout"),
            new Bad("{\"retention\": -1}", "retention"),
            new Bad("{\"deadRetention\": \"P11Y\"}", "deadRetention"),
            new Bad("{\"backoff\": 5}", "backoff"),
            new Bad("{\"backoff\": {\"base\": \"x\"}}", "backoff.base"),
            new Bad("{\"backoff\": {\"factor\": 0.5}}", "backoff.factor"),
            new Bad("{\"backoff\": {\"cap\": \"31d\"}}", "backoff.cap"),
            new Bad("{\"backoff\": {\"jitter\": 1}}", "backoff.jitter"),
            new Bad("{\"backoff\": {\"oops\": 1}}", "backoff.oops"),
            new Bad("{\"tenantCap\": 0}", "tenantCap"),
            new Bad("{\"kindCap\": 3000000000}", "kindCap"),
            new Bad("{\"ratePerSecond\": 0}", "ratePerSecond"),
            new Bad("{\"paused\": \"yes\"}", "paused"),
            new Bad("{\"delivery\": \"mail\"}", "delivery"),
            new Bad("{\"delivery\": \"http\"}", "url"),
            new Bad("{\"url\": \"ftp://x\"}", "url"),
            new Bad("{\"url\": \"nonsense\"}", "url"),
            new Bad("{\"url\": \"https://u:p@x/\"}", "url"),
            new Bad("{\"secretRef\": \"a b\"}", "secretRef"),
            new Bad("{\"archive\": 1}", "archive"),
            new Bad("{\"oops\": 1}", "oops"),
            new Bad("{\"lease\": 1, \"lease\": 2}", "lease"),
            new Bad("[]", "policy"))) {
      door.put("/v1/kinds/unpoliced", bad.body()).isProblem(400, "invalid", bad.field());
    }
    door.put("/v1/kinds/unpoliced", "").isProblem(400, "malformed", "");
    door.put("/v1/kinds/Bad", "{}").isProblem(400, "invalid", "kind");
    door.get("/v1/kinds/unpoliced").isProblem(404, "not-found", "");
  }

  @Test
  void what_an_operator_did_is_in_the_audit_log() throws Exception {
    long id =
        door.post("/v1/jobs", "{\"kind\": \"echo\", \"delay\": 3600, \"tenant\": \"acme\"}")
            .is(201)
            .id();
    long other = door.post("/v1/jobs", "{\"kind\": \"echo\", \"delay\": 3600}").is(201).id();
    door.post("/v1/jobs/" + id + "/cancel", "").is(200);
    door.post("/v1/jobs/" + id + "/cancel", "").is(200); // And no second line.
    door.post("/v1/jobs/" + other + "/run-now", "").is(200);
    door.post("/v1/kinds/logged/pause", "").is(200);
    door.post("/v1/kinds/logged/resume", "").is(200);
    var lines = new ArrayList<String>();
    for (var line : door.get("/v1/audit?limit=4").is(200).json().get("lines")) {
      lines.add(line.get("what").asText() + " " + line.get("target").asText());
    }
    assertEquals(
        List.of("resume logged", "pause logged", "run-now " + other, "cancel " + id), lines);
  }

  @Test
  void a_paused_kind_waits_until_it_is_resumed() throws Exception {
    assertTrue(door.post("/v1/kinds/fail/pause", "").is(200).json().get("paused").asBoolean());
    long id =
        door.post("/v1/jobs", "{\"kind\": \"fail\", \"payload\": {\"times\": 0}}").is(201).id();
    long after = door.post("/v1/jobs", "{\"kind\": \"echo\"}").is(201).id();
    awaitState(after, "done");
    assertEquals("ready", database.state(id));
    assertFalse(door.post("/v1/kinds/fail/resume", "").is(200).json().get("paused").asBoolean());
    awaitState(id, "done");
    assertEquals(2, door.get("/v1/kinds/fail").json().get("maxAttempts").asInt(), "the rest stays");
    door.post("/v1/kinds/N/pause", "").isProblem(400, "invalid", "kind");
  }

  @Test
  void every_kind_with_a_policy_or_a_job_is_listed() throws Exception {
    door.post("/v1/jobs", later("jobs-only")).is(201);
    JsonNode kinds = door.get("/v1/kinds").is(200).json().get("kinds");
    List<String> names =
        StreamSupport.stream(kinds.spliterator(), false).map(k -> k.get("kind").asText()).toList();
    assertEquals(names.stream().sorted().toList(), names);
    assertTrue(
        names.containsAll(List.of("echo", "fail", "sleep", "seeded", "jobs-only")),
        names::toString);
    assertEquals(0, door.get("/v1/kinds/jobs-only").is(200).json().get("version").asInt());
  }

  @Test
  void the_configuration_fills_in_what_the_database_does_not_say() throws Exception {
    JsonNode seeded = door.get("/v1/kinds/seeded").is(200).json();
    assertEquals(7, seeded.get("maxAttempts").asInt());
    assertTrue(seeded.get("paused").asBoolean());
    assertEquals("PT45S", door.get("/v1/kinds/echo").json().get("lease").asText());
    TestDatabase own = TestPostgres.shared().newDatabase();
    own.policy("seeded", "max_attempts = 3");
    var other =
        new Door(
            ServiceProcess.on(own)
                .with("WAYBILL_ROLES", "api")
                .with("WAYBILL_KINDS", "{\"seeded\": {\"maxAttempts\": 7, \"kindCap\": 2}}")
                .startReady());
    JsonNode kept = other.get("/v1/kinds/seeded").is(200).json();
    assertEquals(3, kept.get("maxAttempts").asInt());
    assertEquals(2, kept.get("kindCap").asInt());
  }

  @Test
  void a_wrong_policy_in_the_configuration_stops_the_start_with_one_line() {
    for (String wrong :
        List.of(
            "{\"email\": {\"lease\": \"x\"}}",
            "{\"Email\": {}}",
            "[]",
            "{",
            "{\"a\": {}, \"a\": {}}")) {
      try (ServiceProcess refused =
          ServiceProcess.on(database).with("WAYBILL_KINDS", wrong).start()) {
        assertEquals(2, refused.exitCode(), refused::output);
        List<String> said =
            refused.lines().stream().filter(line -> line.startsWith("waybill: ")).toList();
        assertEquals(1, said.size(), refused::output);
        assertTrue(
            said.getFirst().contains("WAYBILL_KINDS") && said.getFirst().contains("right would be"),
            said::toString);
      }
    }
  }

  // ----------------------------------------------------------------------- workers and figures

  @Test
  void processes_tell_that_they_are_there_and_are_forgotten() throws Exception {
    TestDatabase own = TestPostgres.shared().newDatabase();
    ServiceProcess one =
        ServiceProcess.on(own)
            .with("WAYBILL_POOLS", "fast=echo:3;rest=*:5")
            .with("WAYBILL_WORKER", "one")
            .startReady();
    ServiceProcess two =
        ServiceProcess.on(own)
            .with("WAYBILL_ROLES", "api")
            .with("WAYBILL_WORKER", "two")
            .startReady();
    var at = new Door(two);
    JsonNode workers = at.get("/v1/workers").is(200).json().get("workers");
    assertEquals("one two", workers.at("/0/name").asText() + " " + workers.at("/1/name").asText());
    assertEquals("[\"api\",\"maintenance\",\"worker\"]", workers.at("/0/roles").toString());
    assertEquals(
        "{\"name\":\"fast\",\"kinds\":[\"echo\"],\"slots\":3,\"slotsInUse\":0}",
        inOrder(workers.at("/0/pools/0")));
    assertEquals("[]", workers.at("/1/pools").toString());
    one.term();
    assertEquals(0, one.exitCode() & ~143, one::output);
    assertEquals(1, at.get("/v1/workers").json().get("workers").size(), "it said goodbye");
    own.execute(
        "INSERT INTO waybill.workers (process, name, version, roles, pools, draining, seen_at) VALUES (gen_random_uuid(), 'dead', '1', '{}', '[]', false, now() - interval '61 s')");
    assertEquals(1, at.get("/v1/workers").json().get("workers").size());
    Awaitility.await("it is forgotten")
        .atMost(PATIENCE)
        .until(() -> own.number("SELECT count(*) FROM waybill.workers WHERE name = 'dead'") == 0);
  }

  private static JsonNode of(Map<String, JsonNode> figures, String kind) {
    return java.util.Objects.requireNonNull(figures.get(kind), kind);
  }

  private static String inOrder(JsonNode pool) {
    return "{\"name\":"
        + pool.get("name")
        + ",\"kinds\":"
        + pool.get("kinds")
        + ",\"slots\":"
        + pool.get("slots")
        + ",\"slotsInUse\":"
        + pool.get("slotsInUse")
        + "}";
  }

  @Test
  void figures_say_what_a_count_would_say() throws Exception {
    TestDatabase own = TestPostgres.shared().newDatabase();
    own.policy("fail", "max_attempts = 2, backoff_base_ms = 600000, backoff_jitter = false");
    ServiceProcess service = ServiceProcess.on(own).startReady();
    var at = new Door(service);
    Awaitility.await("a first sample")
        .atMost(PATIENCE)
        .until(() -> own.number("SELECT count(*) FROM waybill.figures_past") > 0);
    own.enqueueMany("echo", "{}", 40);
    own.execute(
        "SELECT waybill.enqueue('nobodys', run_at => now() + CASE WHEN g > 3 THEN interval '1 hour' ELSE '-1 minute' END) FROM generate_series(1, 10) g");
    long sleeping = own.enqueue("sleep", "{\"ms\": 60000}");
    own.execute(
        "SELECT waybill.enqueue('fail', '{\"message\": \"x\"}', max_attempts => CASE WHEN g < 3 THEN 1 END::int) FROM generate_series(1, 5) g");
    Awaitility.await("all moved")
        .atMost(PATIENCE)
        .until(() ->
            own.number(
                    "SELECT count(*) FROM waybill.all_jobs WHERE state = 'done' OR state = 'dead' OR state = 'running' OR attempt > 0")
                == 46);
    assertTrue(
        own.truth(
            "SELECT waybill.cancel(min(id)) FROM waybill.jobs WHERE kind = 'nobodys' AND state = 'scheduled'"));
    Map<String, JsonNode> figures =
        StreamSupport.stream(at.get("/v1/stats").is(200).json().get("kinds").spliterator(), false)
            .collect(Collectors.toMap(f -> f.get("kind").asText(), f -> f));
    for (Map.Entry<String, JsonNode> f : figures.entrySet()) {
      for (String state : List.of("scheduled", "ready", "running", "dead")) {
        assertEquals(
            own.number(
                "SELECT count(*) FROM waybill.all_jobs WHERE kind = ? AND state = ?",
                f.getKey(),
                state),
            f.getValue().get(state).asLong(),
            f::toString);
      }
    }
    assertEquals(6, of(figures, "nobodys").get("scheduled").asInt());
    assertEquals(3, of(figures, "nobodys").get("ready").asInt());
    assertTrue(of(figures, "nobodys").get("oldestReadySeconds").asDouble() >= 60);
    assertEquals(1, of(figures, "sleep").get("running").asInt());
    assertTrue(of(figures, "sleep").get("oldestReadySeconds").isNull());
    assertEquals(
        "2 2", of(figures, "fail").get("dead") + " " + of(figures, "fail").get("deadLast24h"));
    assertTrue(of(figures, "echo").get("doneRatePerSecond").asDouble() > 0, figures::toString);
    assertTrue(of(figures, "echo").get("claimRatePerSecond").asDouble() > 0, figures::toString);
    assertTrue(of(figures, "fail").get("retryRatePerSecond").asDouble() > 0, figures::toString);
    // A crash of the process costs no figure.
    service.kill9();
    var next = new Door(ServiceProcess.on(own).with("WAYBILL_ROLES", "api").startReady());
    long running =
        StreamSupport.stream(next.get("/v1/stats").is(200).json().get("kinds").spliterator(), false)
            .filter(f -> f.get("kind").asText().equals("sleep"))
            .findFirst()
            .orElseThrow()
            .get("running")
            .asLong();
    assertEquals(1, running);
    assertTrue(own.truth("SELECT waybill.cancel(?)", sleeping));
    assertEquals(
        List.of(), own.texts("SELECT guarantee || detail FROM waybill.audit() WHERE NOT ok"));
  }

  // ---------------------------------------------------------------------------------- trouble

  @Test
  void without_a_free_connection_the_answer_is_503_with_retry_after() throws Exception {
    TestDatabase own = TestPostgres.shared().newDatabase();
    var at =
        new Door(
            ServiceProcess.on(own)
                .with("WAYBILL_ROLES", "api")
                .with("WAYBILL_DB_CONNECTIONS", "2")
                .startReady());
    long one = at.post("/v1/jobs", later("locked")).is(201).id();
    long two = at.post("/v1/jobs", later("locked")).is(201).id();
    try (Connection blocker = own.connect();
        Statement statement = blocker.createStatement();
        var threads = Executors.newFixedThreadPool(2)) {
      blocker.setAutoCommit(false);
      statement.execute(
          "SELECT FROM waybill.jobs WHERE id IN (" + one + ", " + two + ") FOR UPDATE");
      var first = threads.submit(() -> at.post("/v1/jobs/" + one + "/cancel", ""));
      var second = threads.submit(() -> at.post("/v1/jobs/" + two + "/cancel", ""));
      Awaitility.await("both connections wait for a row")
          .atMost(PATIENCE)
          .until(() ->
              own.number(
                      "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
                  == 2);
      Door.Reply refused = at.post("/v1/jobs", later("locked")).is(503);
      assertTrue(Integer.parseInt(refused.header("Retry-After")) > 0);
      blocker.rollback();
      first.get().is(200);
      second.get().is(200);
    }
    at.post("/v1/jobs", later("locked")).is(201);
  }

  @Test
  void the_books_balance_after_all_of_it() throws Exception {
    assertEquals(
        List.of(), database.texts("SELECT guarantee || detail FROM waybill.audit() WHERE NOT ok"));
  }
}
