package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** What is bounded: what a tenant may put in, over all processes; kinds; streams. */
@ExtendWith(Processes.class)
final class LimitsIT {

  private static TestPostgres postgres;
  private static TestDatabase database;
  private static Door one;
  private static Door two;

  @BeforeAll
  static void start() throws Exception {
    postgres = TestPostgres.own();
    database = postgres.newDatabase();
    one = new Door(service());
    two = new Door(service());
  }

  private static ServiceProcess service() throws Exception {
    return ServiceProcess.on(database).with("WAYBILL_ROLES", "api,maintenance").startReady();
  }

  private static String job(String tenant) {
    return "{\"kind\": \"waits\", \"tenant\": \"" + tenant + "\"}";
  }

  private static String jobs(String tenant, int n) {
    return IntStream.range(0, n).mapToObj(_ -> job(tenant)).collect(Collectors.joining("\n"));
  }

  private static void limit(String tenant, String limits) throws IOException {
    Door.Reply reply = one.put("/v1/tenants/" + tenant, limits);
    assertTrue(reply.status() == 200 || reply.status() == 201, reply::toString);
  }

  private static long waiting(String tenant) throws SQLException {
    return database.number("SELECT count(*) FROM waybill.jobs WHERE tenant = ?", tenant);
  }

  @Test
  void limits_are_set_read_listed_and_taken_away() throws Exception {
    one.get("/v1/tenants/set").isProblem(404, "not-found", "");
    Door.Reply made = one.put("/v1/tenants/set", "{\"ratePerSecond\": 2.5}").is(201);
    assertEquals(3, made.json().get("burst").asInt(), "what the rate gives in a second");
    assertEquals("\"1\"", made.header("ETag"));
    assertTrue(made.json().get("backlogMax").isNull());
    one.put("/v1/tenants/set", "{\"backlogMax\": 7}", "If-Match", "\"9\"")
        .isProblem(412, "precondition", "If-Match");
    one.put("/v1/tenants/set", "{\"backlogMax\": 7}", "If-None-Match", "*")
        .isProblem(412, "precondition", "If-None-Match");
    // An answer may be sent back.
    one.put("/v1/tenants/set", made.body(), "If-Match", "\"1\"").is(200);
    JsonNode read = two.get("/v1/tenants/set").is(200).json();
    assertEquals(2, read.get("version").asInt());
    one.put("/v1/tenants/set2", "{\"backlogMax\": 7}").is(201);
    JsonNode page = one.get("/v1/tenants?limit=1&after=set").is(200).json();
    assertEquals("set2", page.at("/tenants/0/tenant").asText());
    one.put("/v1/tenants/b%C3%BCro%20%2F%201", "{\"backlogMax\": 7}").is(201);
    assertEquals(
        "büro / 1",
        one.get("/v1/tenants/b%C3%BCro%20%2F%201").is(200).json().get("tenant").asText());
    for (String[] wrong :
        new String[][] {
          {"{}", "ratePerSecond"},
          {"{\"ratePerSecond\": 0}", "ratePerSecond"},
          {"{\"ratePerSecond\": 1e9}", "ratePerSecond"},
          {"{\"ratePerSecond\": \"1\"}", "ratePerSecond"},
          {"{\"ratePerSecond\": 1, \"burst\": 0}", "burst"},
          {"{\"burst\": 5}", "burst"},
          {"{\"backlogMax\": 0}", "backlogMax"},
          {"{\"backlogMax\": 1.5}", "backlogMax"},
          {"{\"backlog\": 1}", "backlog"}
        }) {
      one.put("/v1/tenants/wrong", wrong[0]).isProblem(400, "invalid", wrong[1]);
    }
    one.get("/v1/tenants?tenant=set").isProblem(400, "invalid", "tenant");
    one.call("DELETE", "/v1/tenants/set", java.util.Map.of("If-Match", "\"1\""), "")
        .isProblem(412, "precondition", "If-Match");
    one.call("DELETE", "/v1/tenants/set", java.util.Map.of("If-Match", "\"2\""), "").is(204);
    one.call("DELETE", "/v1/tenants/set", java.util.Map.of(), "").is(404);
    var lines = new ArrayList<String>();
    for (JsonNode line : one.get("/v1/audit?limit=50").is(200).json().get("lines")) {
      if (line.path("target").asText().equals("set")) {
        lines.add(line.get("who").asText() + " " + line.get("what").asText());
      }
    }
    assertEquals(List.of("anybody unlimit", "anybody limit", "anybody limit"), lines);
  }

  @Test
  void a_refusal_says_when_to_come_again() throws Exception {
    limit("soon", "{\"ratePerSecond\": 0.01, \"burst\": 2}");
    one.post("/v1/jobs", job("soon")).is(201);
    two.post("/v1/jobs", job("soon")).is(201);
    Door.Reply refused = one.post("/v1/jobs", job("soon")).isProblem(429, "tenant-rate", "tenant");
    int seconds = Integer.parseInt(refused.header("Retry-After"));
    assertTrue(seconds >= 70 && seconds <= 100, "Retry-After: " + seconds);
    limit("full", "{\"backlogMax\": 2}");
    one.lines("/v1/jobs/batch", jobs("full", 2)).is(201);
    Door.Reply full = two.post("/v1/jobs", job("full")).isProblem(429, "tenant-backlog", "tenant");
    // Twenty times as long as it took to count.
    int soon = Integer.parseInt(full.header("Retry-After"));
    assertTrue(soon >= 1 && soon <= 60, "Retry-After: " + soon);
  }

  @Test
  void two_processes_and_sql_together_get_the_rate() throws Exception {
    limit("many", "{\"ratePerSecond\": 100, \"burst\": 10}");
    long begin = System.nanoTime();
    var last = new AtomicLong(begin);
    var stood = new AtomicLong();
    int let = 0;
    try (var threads = Executors.newFixedThreadPool(6)) {
      var parts = new ArrayList<Future<Integer>>();
      for (int t = 0; t < 6; t++) {
        Door door = t % 2 == 0 ? one : two;
        boolean sql = t > 3;
        parts.add(
            threads.submit(() -> {
              int in = 0;
              while (System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(4)) {
                in += sql ? bySql() : door.post("/v1/jobs", job("many")).status() == 201 ? 1 : 0;
                long now = System.nanoTime();
                long gap = now - last.getAndUpdate(before -> Math.max(before, now));
                stood.addAndGet(gap > TimeUnit.MILLISECONDS.toNanos(50) ? gap : 0);
              }
              return in;
            }));
      }
      for (Future<Integer> part : parts) {
        let += part.get();
      }
    }
    double allowed = 10 + 100 * (System.nanoTime() - begin) / 1e9;
    assertTrue(let <= allowed * 1.05 + 6, let + " of " + allowed);
    // What comes while nobody asks, because this machine stands still, is lost but for a burst.
    double least = 10 + 100 * (last.get() - begin - stood.get()) / 1e9;
    assertTrue(let >= least * 0.6, let + " of " + least);
    assertEquals(let, waiting("many"));
  }

  private static int bySql() {
    try {
      long _ = database.number("SELECT waybill.enqueue('waits', tenant => 'many')");
      return 1;
    } catch (SQLException refused) {
      assertEquals("WB001", refused.getSQLState());
      return 0;
    }
  }

  /** The first part lets it in: chunk by chunk it would never get through. */
  @Test
  void a_batch_that_is_larger_than_the_burst_goes_through_once_and_is_paid_for() throws Exception {
    limit("bulk", "{\"ratePerSecond\": 5, \"burst\": 10}");
    assertEquals(
        6_000, one.lines("/v1/jobs/batch", jobs("bulk", 6_000)).is(201).json().get("ids").size());
    Door.Reply refused =
        one.lines("/v1/jobs/batch", jobs("bulk", 2)).isProblem(429, "tenant-rate", "tenant");
    assertTrue(Integer.parseInt(refused.header("Retry-After")) > 1_000);
    assertEquals(6_000, waiting("bulk"));
    // In a batch of several tenants, all or none.
    one.lines("/v1/jobs/batch", job("other") + "\n" + job("bulk"))
        .isProblem(429, "tenant-rate", "tenant");
    assertEquals(0, waiting("other"));
  }

  @Test
  void a_repeat_under_its_key_needs_no_room() throws Exception {
    limit("keyed", "{\"backlogMax\": 1}");
    long id = one.postKeyed("/v1/jobs", "key-1", Door.JSON_TYPE, job("keyed")).is(201).id();
    assertEquals(id, two.postKeyed("/v1/jobs", "key-1", Door.JSON_TYPE, job("keyed")).is(200).id());
    one.post("/v1/jobs", job("keyed")).is(429);
  }

  /** What was counted is lost with the server, and counted anew: neither leaks nor locks out. */
  @Test
  void limits_hold_after_a_crash_of_the_server() throws Exception {
    limit("crash", "{\"backlogMax\": 30, \"ratePerSecond\": 1000, \"burst\": 1000}");
    one.lines("/v1/jobs/batch", jobs("crash", 20)).is(201);
    postgres.stopImmediately();
    postgres.startAgain();
    Awaitility.await("it answers again")
        .atMost(Duration.ofSeconds(60))
        .until(() ->
            one.get("/v1/tenants/crash").status() == 200
                && two.get("/v1/tenants/crash").status() == 200);
    int let = 0;
    for (int i = 0; i < 30; i++) {
      int status = (i % 2 == 0 ? one : two).post("/v1/jobs", job("crash")).status();
      assertTrue(status == 201 || status == 429, "status " + status);
      let += status == 201 ? 1 : 0;
    }
    assertEquals(10, let);
    assertEquals(30, waiting("crash"));
  }

  // --------------------------------------------------------------------------------- kinds,
  // streams

  @Test
  void there_are_so_many_kinds_and_no_more() throws Exception {
    TestDatabase own = postgres.newDatabase();
    var at = new Door(ServiceProcess.on(own).with("WAYBILL_POOLS", "none=nothing:1").startReady());
    at.post("/v1/jobs", "{\"kind\": \"known\"}").is(201);
    own.execute(
        "UPDATE waybill.limits SET kinds_max = 1 + (SELECT count(*) FROM (SELECT kind FROM waybill.kinds UNION SELECT kind FROM waybill.counts) k)");
    at.lines("/v1/jobs/batch", "{\"kind\": \"new-1\"}\n{\"kind\": \"new-2\"}")
        .isProblem(409, "too-many-kinds", "kind");
    // Asked about and then refused: neither is known by that.
    at.post("/v1/jobs", "{\"kind\": \"new-2\", \"payload\": \"\\u0000\"}").is(400);
    at.lines("/v1/jobs/batch", "{\"kind\": \"new-2\"}\n{").is(400);
    String key = "k".repeat(255);
    at.postKeyed("/v1/jobs", key, Door.JSON_TYPE, "{\"kind\": \"new-1\"}").is(201);
    at.post("/v1/jobs", "{\"kind\": \"new-2\"}").isProblem(409, "too-many-kinds", "kind");
    at.put("/v1/kinds/new-2", "{}").isProblem(409, "too-many-kinds", "kind");
    at.post("/v1/kinds/new-2/pause", "").isProblem(409, "too-many-kinds", "kind");
    at.post("/v1/jobs", "{\"kind\": \"known\"}").is(201);
    at.put("/v1/kinds/known", "{\"maxAttempts\": 2}").is(201);
  }

  @Test
  void only_one_of_many_makes_the_first_policy_of_a_kind() throws Exception {
    for (int round = 0; round < 10; round++) {
      String path = "/v1/kinds/race-" + round;
      try (var threads = Executors.newFixedThreadPool(6)) {
        var replies = new ArrayList<Future<Door.Reply>>();
        for (int t = 0; t < 6; t++) {
          Door door = t % 2 == 0 ? one : two;
          String body = "{\"maxAttempts\": " + (t + 1) + "}";
          replies.add(threads.submit(() -> putFirst(door, path, body)));
        }
        int made = 0;
        for (Future<Door.Reply> reply : replies) {
          made += reply.get().status() == 201 ? 1 : 0;
          assertTrue(reply.get().status() == 201 || reply.get().status() == 412);
        }
        assertEquals(1, made, "round " + round);
      }
      assertEquals(1, one.get(path).json().get("version").asInt());
    }
  }

  /** Another test may have stopped the database: whoever is told 503 tries again. */
  private static Door.Reply putFirst(Door door, String path, String body) throws Exception {
    Door.Reply reply = door.put(path, body, "If-None-Match", "*");
    for (int more = 0; more < 50 && reply.status() == 503; more++) {
      reply = door.put(path, body, "If-None-Match", "*");
    }
    return reply;
  }

  /** Clients that read nothing, and then go without a word. */
  @Test
  void slow_readers_of_lists_are_bounded_and_do_not_stay() throws Exception {
    // More than the buffers between the two take.
    database.execute(
        """
        INSERT INTO waybill.jobs (kind, tenant, tags)
        SELECT 'waits', 'lists', array_fill(repeat('x', 64), ARRAY[16]) FROM generate_series(1, 20000)
        """);
    TestDatabase own = database;
    ServiceProcess process = ServiceProcess.on(own).with("WAYBILL_ROLES", "api").startReady();
    var at = new Door(process);
    for (int i = 0; i < 40; i++) {
      at.send("HEAD", "/v1/jobs", java.util.Map.of("Accept", Door.LINES_TYPE), new byte[0]).is(200);
    }
    assertEquals(200, streamed(at), "who asks for no body takes no place");
    var clients = new ArrayList<Socket>();
    try {
      for (int i = 0; i < 40; i++) {
        var client = new Socket();
        client.setReceiveBufferSize(4_096); // Before it connects, or it counts for little.
        client.connect(
            new java.net.InetSocketAddress(
                java.net.InetAddress.getLoopbackAddress(), process.port()));
        client
            .getOutputStream()
            .write(
                "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n\r\n"
                    .getBytes(StandardCharsets.US_ASCII));
        clients.add(client);
      }
      Awaitility.await("all places are taken")
          .atMost(ServiceProcess.PATIENCE)
          .until(() -> streamed(at) == 429);
      at.call("GET", "/v1/jobs?limit=1", java.util.Map.of("Accept", Door.LINES_TYPE), "")
          .isProblem(429, "too-many", "");
      at.get("/v1/jobs?limit=1").is(200);
    } finally {
      for (Socket client : clients) {
        client.close();
      }
    }
    Awaitility.await("they are free again")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> streamed(at) == 200);
  }

  private static int streamed(Door door) throws IOException {
    return door.call("GET", "/v1/jobs?limit=1", java.util.Map.of("Accept", Door.LINES_TYPE), "")
        .status();
  }
}
