package dev.waybill.blackbox;

import static io.restassured.RestAssured.given;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.restassured.config.EncoderConfig;
import io.restassured.config.RestAssuredConfig;
import io.restassured.response.Response;
import io.restassured.specification.RequestSpecification;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Each operation of the document with each status that it promises: an operation that is new, or
 * that promises another status, fails this until it is asked for it here. Elsewhere are those that
 * need more than one request: 401 and 403 in AccessIT, 408 in RestIT, 429 in LimitsIT and PullIT,
 * 503 in OutageIT.
 */
@ExtendWith(Processes.class)
final class OperationsIT {

  private static final String JSON = "application/json";
  private static final Set<Integer> ELSEWHERE = Set.of(401, 403, 408, 429, 500, 503);

  /** Promised of every path with a name in it; these make what is not there. */
  private static final Set<String> NEVER_404 =
      Set.of("replaceKind", "pauseKind", "resumeKind", "replaceTenantLimits");

  private static final RestAssuredConfig PLAIN =
      RestAssuredConfig.config()
          .encoderConfig(
              EncoderConfig.encoderConfig()
                  .appendDefaultContentCharsetToContentTypeIfUndefined(false));

  private static TestDatabase database;
  private static ServiceProcess process;
  private static Document document;

  private final Map<String, Set<Integer>> seen = new TreeMap<>();

  @BeforeAll
  static void start() throws Exception {
    database = TestPostgres.shared().newDatabase();
    process = ServiceProcess.on(database).with("WAYBILL_POOLS", "default=fail:4").startReady();
    document = Document.of(process.rest());
  }

  @Test
  void every_operation_answers_all_that_the_document_promises() throws Exception {
    jobs();
    deadLetters();
    replays();
    leases();
    kinds();
    tenants();
    tokens();
    for (String list : List.of("readStats", "listWorkers", "listAudit")) {
      ask(200, list);
    }
    for (Document.Operation operation : document.operations()) {
      refusals(operation);
    }
    tooManyKinds();
    assertEquals(promised(), seen);
  }

  private static Map<String, Set<Integer>> promised() {
    var promised = new TreeMap<String, Set<Integer>>();
    for (Document.Operation operation : document.operations()) {
      var statuses = new TreeSet<Integer>();
      operation
          .node()
          .path("responses")
          .fieldNames()
          .forEachRemaining(status -> statuses.add(Integer.valueOf(status)));
      statuses.removeAll(ELSEWHERE);
      if (NEVER_404.contains(operation.id())) {
        statuses.remove(404);
      }
      promised.put(operation.id(), statuses);
    }
    return promised;
  }

  // ------------------------------------------------------------------------------------- asking

  private static Document.Operation operation(String id) {
    return document.operations().stream().filter(o -> o.id().equals(id)).findFirst().orElseThrow();
  }

  /** Without a body. */
  private Response ask(int status, String id, String... named) {
    Document.Operation operation = operation(id);
    return answered(status, operation, request(), path(operation, named));
  }

  private Response send(int status, String id, String body, String... named) {
    Document.Operation operation = operation(id);
    return answered(
        status, operation, request().contentType(JSON).body(body), path(operation, named));
  }

  private Response sendWith(
      int status, String id, String header, String value, @Nullable String body, String... named) {
    Document.Operation operation = operation(id);
    RequestSpecification request = request().header(header, value);
    return answered(
        status,
        operation,
        body == null ? request : request.contentType(JSON).body(body),
        path(operation, named));
  }

  private static RequestSpecification request() {
    return given().config(PLAIN).baseUri("http://127.0.0.1").port(process.port());
  }

  /** The last of the names may be a query. */
  private static String path(Document.Operation operation, String... named) {
    String path = operation.path();
    for (String name : named) {
      path = name.startsWith("?") ? path + name : path.replaceFirst("\\{\\w+}", name);
    }
    return path;
  }

  private Response answered(
      int status, Document.Operation operation, RequestSpecification request, String path) {
    Response response = request.request(operation.method(), path);
    String says = operation.id() + " " + path + ": " + response.statusLine() + response.asString();
    assertEquals(status, response.statusCode(), says);
    String type = response.contentType() == null ? "" : response.contentType();
    assertEquals(
        List.of(),
        document.faults(operation.method(), path, status, type, response.asString()),
        says);
    if (status >= 400) {
      assertTrue(type.startsWith("application/problem+json"), says);
      int said = response.path("status");
      assertEquals(status, said, says);
    }
    seen.computeIfAbsent(operation.id(), _ -> new TreeSet<>()).add(status);
    return response;
  }

  private static String id(Response response) {
    return response.jsonPath().getString("id");
  }

  // ----------------------------------------------------------------------------- what goes well

  private void jobs() {
    String later = "{\"kind\": \"later\", \"delay\": 3600}";
    String id = id(send(201, "enqueue", later));
    sendWith(201, "enqueue", "Idempotency-Key", "one", later);
    sendWith(200, "enqueue", "Idempotency-Key", "one", later);
    sendWith(409, "enqueue", "Idempotency-Key", "one", "{\"kind\": \"later\"}");
    send(201, "enqueueBatch", "[" + later + "]");
    sendWith(201, "enqueueBatch", "Idempotency-Key", "many", "[" + later + "]");
    sendWith(200, "enqueueBatch", "Idempotency-Key", "many", "[" + later + "]");
    sendWith(409, "enqueueBatch", "Idempotency-Key", "many", "[" + later + ", " + later + "]");
    ask(200, "listJobs", "?kind=later&limit=1");
    ask(200, "readJob", id);
    ask(200, "runJobNow", id);
    ask(200, "cancelJob", id);
    ask(409, "runJobNow", id);
    String dead = dead("{\"kind\": \"fail\", \"maxAttempts\": 1}");
    ask(409, "cancelJob", dead);
  }

  private String dead(String job) {
    long id = Long.parseLong(id(send(201, "enqueue", job)));
    Awaitility.await("it is dead")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> database.state(id).equals("dead"));
    return String.valueOf(id);
  }

  private void deadLetters() {
    String keyed = "{\"kind\": \"fail\", \"maxAttempts\": 1, \"dedupeKey\": \"twin\"}";
    String id = dead(keyed);
    ask(200, "listDeadLetters", "?kind=fail");
    ask(200, "groupDeadLetters");
    ask(200, "readDeadLetter", id);
    String twin = id(send(201, "enqueue", keyed.replace("}", ", \"delay\": 3600}")));
    ask(409, "retryDeadLetter", id);
    ask(200, "cancelJob", twin);
    send(200, "retryDeadLetter", "{\"payload\": {\"times\": 0}}", id);
    ask(204, "deleteDeadLetter", dead("{\"kind\": \"fail\", \"maxAttempts\": 1}"));
  }

  private void replays() {
    String all = "{\"filter\": {\"kind\": \"none\"}}";
    send(200, "startReplay", "{\"filter\": {}, \"dryRun\": true}");
    String id = id(sendWith(202, "startReplay", "Idempotency-Key", "again", all));
    sendWith(200, "startReplay", "Idempotency-Key", "again", all);
    sendWith(409, "startReplay", "Idempotency-Key", "again", "{\"filter\": {}}");
    ask(200, "listReplays");
    ask(200, "readReplay", id);
    ask(200, "stopReplay", id);
  }

  private void leases() {
    send(201, "enqueue", "{\"kind\": \"errand\"}");
    Response leased = send(200, "lease", "{\"kinds\": [\"errand\"], \"wait\": 10}");
    String held =
        "{\"id\": "
            + leased.path("jobs[0].id")
            + ", \"token\": \""
            + leased.path("jobs[0].token")
            + "\"";
    send(200, "extendLeases", "{\"leases\": [" + held + "}]}");
    Response settled =
        send(200, "settleLeases", "{\"outcomes\": [" + held + ", \"outcome\": \"done\"}]}");
    assertEquals("settled", settled.path("results[0].status"));
  }

  private void kinds() {
    send(201, "replaceKind", "{\"maxAttempts\": 3}", "fresh");
    send(200, "replaceKind", "{}", "fresh");
    sendWith(412, "replaceKind", "If-Match", "\"99\"", "{}", "fresh");
    ask(200, "readKind", "fresh");
    ask(200, "listKinds");
    ask(200, "pauseKind", "fresh");
    ask(200, "resumeKind", "fresh");
  }

  private void tenants() {
    send(201, "replaceTenantLimits", "{\"backlogMax\": 5}", "acme");
    send(200, "replaceTenantLimits", "{\"backlogMax\": 6}", "acme");
    sendWith(412, "replaceTenantLimits", "If-None-Match", "*", "{\"backlogMax\": 7}", "acme");
    ask(200, "readTenantLimits", "acme");
    ask(200, "listTenantLimits");
    sendWith(412, "deleteTenantLimits", "If-Match", "\"99\"", null, "acme");
    ask(204, "deleteTenantLimits", "acme");
  }

  private void tokens() {
    String token = "{\"name\": \"a\", \"role\": \"viewer\"}";
    String id = id(sendWith(201, "mintToken", "Idempotency-Key", "mint", token));
    sendWith(200, "mintToken", "Idempotency-Key", "mint", token);
    sendWith(409, "mintToken", "Idempotency-Key", "mint", token.replace("viewer", "worker"));
    ask(200, "readToken", id);
    ask(200, "listTokens");
    ask(204, "revokeToken", id);
  }

  // ------------------------------------------------------------------------------ what does not

  private void refusals(Document.Operation operation) {
    String id = operation.id();
    String[] absent = {operation.path().contains("{id}") ? "987654321" : "absent"};
    boolean takes = operation.node().has("requestBody");
    badRequest(operation, takes, absent[0]);
    sendWith(406, id, "Accept", "text/html", takes ? "{}" : null, absent);
    if (operation.path().contains("{") && !NEVER_404.contains(id)) {
      ask(404, id, absent);
    }
    if (takes) {
      send(413, id, " ".repeat(17 << 20), absent);
    }
    if (operation.node().path("responses").has("415")) {
      answered(
          415, operation, request().contentType("text/plain").body("{}"), path(operation, absent));
    }
  }

  private void badRequest(Document.Operation operation, boolean takes, String absent) {
    if (takes) {
      send(400, operation.id(), "{", absent);
    } else if (operation.path().contains("{id}")) {
      ask(400, operation.id(), "x");
    } else if (operation.path().contains("{")) {
      ask(400, operation.id(), "NO".repeat(70));
    } else {
      ask(400, operation.id(), "?nonsense=1");
    }
  }

  private void tooManyKinds() throws SQLException {
    database.execute("UPDATE waybill.limits SET kinds_max = 1");
    send(409, "replaceKind", "{}", "one-more");
    ask(409, "pauseKind", "one-more");
    ask(409, "resumeKind", "one-more");
  }
}
