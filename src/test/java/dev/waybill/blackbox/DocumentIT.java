package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** What the OpenAPI document says is so, whatever is sent; and nothing of a payload leaks. */
@ExtendWith(Processes.class)
final class DocumentIT {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String[] TEXTS = {
    "",
    "echo",
    "a",
    "A",
    "0",
    "-1",
    "1",
    "42",
    "9223372036854775807",
    "9223372036854775808",
    "1e400",
    "NaN",
    "true",
    "null",
    "PT5M",
    "P99999999999D",
    "2030-01-01T00:00:00Z",
    "+999999999-12-31T23:59:59Z",
    "\u0000",
    "\ud800",
    "ü\uD83D\uDE00",
    "' OR 1=1 --",
    "%",
    "../..",
    "x".repeat(300),
    "{}",
    "[]",
    "\"",
    "\\",
    "\n",
    " ",
    "*",
    "\"1\"",
    "scheduled",
    "dead",
    "all"
  };

  private static TestDatabase database;
  private static ServiceProcess service;
  private static Door door;

  @BeforeAll
  static void start() throws Exception {
    database = TestPostgres.shared().newDatabase();
    service = ServiceProcess.on(database).with("WAYBILL_POOLS", "default=*:8").startReady();
    door = new Door(service);
  }

  @Test
  void every_operation_says_what_it_takes_and_answers_with_examples() {
    var lacking = new ArrayList<String>();
    for (Document.Operation operation : door.document().operations()) {
      JsonNode node = operation.node();
      if (node.path("operationId").isMissingNode() || node.path("summary").isMissingNode()) {
        lacking.add(operation.method() + " " + operation.path() + ": no operationId or summary");
      }
      for (Map.Entry<String, JsonNode> response : node.path("responses").properties()) {
        if (response.getKey().startsWith("2")
            && !response.getKey().equals("204")
            && response.getValue().path("content").isEmpty()) {
          lacking.add(operation.id() + ": no content for " + response.getKey());
        }
        for (Map.Entry<String, JsonNode> media : response.getValue().path("content").properties()) {
          if (media.getKey().contains("problem") && media.getValue().path("examples").isEmpty()) {
            lacking.add(operation.id() + ": no example for " + response.getKey());
          }
        }
      }
    }
    assertEquals(List.of(), lacking);
    assertTrue(door.document().operations().size() >= 34);
  }

  @Test
  void every_body_has_an_example_and_every_example_is_of_its_schema() {
    var faults = new ArrayList<String>();
    int examples = 0;
    for (Document.Operation operation : door.document().operations()) {
      var bodies = new HashMap<String, JsonNode>();
      operation
          .node()
          .path("requestBody")
          .path("content")
          .properties()
          .forEach(media -> bodies.put("request " + media.getKey(), media.getValue()));
      for (Map.Entry<String, JsonNode> response : operation.node().path("responses").properties()) {
        response
            .getValue()
            .path("content")
            .properties()
            .forEach(
                media -> bodies.put(response.getKey() + " " + media.getKey(), media.getValue()));
      }
      for (Map.Entry<String, JsonNode> body : bodies.entrySet()) {
        String at = operation.id() + " " + body.getKey();
        if (body.getValue().path("examples").isEmpty()) {
          faults.add(at + ": no example");
        }
        for (JsonNode example : body.getValue().path("examples")) {
          examples++;
          door.document()
              .violations(at, body.getValue().path("schema"), example.path("value"))
              .forEach(fault -> faults.add(at + ": " + fault));
        }
      }
    }
    assertEquals(List.of(), faults);
    assertTrue(examples > 300, "examples: " + examples);
  }

  @Test
  void every_parameter_has_a_type_and_one_of_a_path_an_example() {
    var lacking = new ArrayList<String>();
    for (Document.Operation operation : door.document().operations()) {
      for (JsonNode parameter : operation.node().path("parameters")) {
        String at = operation.id() + " " + parameter.path("name").asText();
        if (parameter.at("/schema/type").isMissingNode()) {
          lacking.add(at + ": no type");
        }
        if (parameter.path("in").asText().equals("path") && !parameter.has("example")) {
          lacking.add(at + ": no example");
        }
      }
      for (JsonNode tag : operation.node().path("tags")) {
        if (tag.asText().contains("Resource")) {
          lacking.add(operation.id() + ": stands under the name of a class");
        }
      }
    }
    assertEquals(List.of(), lacking);
  }

  /** Only of this room's operations: the others need something that is there. */
  @Test
  void the_requests_that_the_document_gives_as_examples_are_accepted() throws Exception {
    int sent = 0;
    for (Document.Operation operation : door.document().operations()) {
      if (!List.of("enqueue", "enqueueBatch", "replaceKind", "replaceTenantLimits")
          .contains(operation.id())) {
        continue;
      }
      for (Map.Entry<String, String> body : door.document().exampleBodies(operation).entrySet()) {
        Door.Reply reply =
            door.call(
                operation.method(),
                operation.path().replaceAll("\\{(kind|tenant)}", "example"),
                Map.of("Content-Type", body.getKey()),
                body.getValue());
        assertTrue(reply.status() == 200 || reply.status() == 201, reply::toString);
        sent++;
      }
    }
    assertEquals(5, sent);
  }

  /** Seeded: a failure prints what to run again. */
  @Test
  void whatever_is_sent_no_answer_is_a_5xx_or_outside_of_the_document() throws Exception {
    long seed = Long.getLong("waybill.fuzz.seed", System.nanoTime());
    var random = new Random(seed);
    var faults = new ArrayList<String>();
    List<Document.Operation> operations = door.document().operations();
    var well = new java.util.TreeSet<String>();
    // Something to find: jobs, dead letters, leases of several kinds and tenants.
    for (int i = 0; i < 30; i++) {
      door.post("/v1/jobs", "{\"kind\": \"echo\", \"delay\": 3600, \"tenant\": \"acme\"}").is(201);
      door.post("/v1/jobs", "{\"kind\": \"email\", \"tenant\": \"acme\"}").is(201);
    }
    for (int i = 0; i < 2_500 && faults.size() < 5; i++) {
      // Each in its turn, so that none is left out by chance.
      Document.Operation operation = operations.get(i % operations.size());
      String path = path(operation, random);
      var headers = new HashMap<String, String>();
      String body = "";
      if (operation.node().has("requestBody")) {
        headers.put(
            "Content-Type", random.nextInt(20) == 0 ? "text/plain" : mediaType(operation, random));
        body = random.nextInt(3) == 0 ? mutated(operation, random) : body(operation, random);
      }
      if (random.nextInt(4) == 0) {
        headers.put("Idempotency-Key", printable(random));
        headers.put("If-Match", printable(random));
        headers.put("If-None-Match", printable(random));
        headers.put("traceparent", printable(random));
      }
      Door.Reply reply =
          door.send(operation.method(), path, headers, body.getBytes(StandardCharsets.UTF_8));
      List<String> wrong =
          new ArrayList<>(
              door.document()
                  .faults(operation.method(), path, reply.status(), reply.type(), reply.body()));
      if (reply.status() >= 500) {
        wrong.add("status " + reply.status());
      }
      if (reply.status() < 300) {
        well.add(operation.id());
      }
      if (!wrong.isEmpty()) {
        faults.add(
            operation.method()
                + " "
                + path
                + " "
                + headers
                + " "
                + body
                + " -> "
                + reply.status()
                + " "
                + reply.body()
                + ": "
                + wrong);
      }
    }
    assertEquals(List.of(), faults, () -> "seed " + seed);
    // Otherwise it tries the doormat and not the house.
    assertTrue(
        well.size() >= operations.size() * 2 / 3, () -> "seed " + seed + ", went well: " + well);
    assertEquals(200, door.get("/v1/stats").status());
    assertTrue(service.isReady(), "it still claims");
  }

  private static String printable(Random random) {
    String text = TEXTS[random.nextInt(TEXTS.length)].replaceAll("[^\\x20-\\x7e]", "?").strip();
    return text.isEmpty() ? "k" : text;
  }

  private static String path(Document.Operation operation, Random random) {
    String path = operation.path();
    while (path.contains("{")) {
      String value =
          random.nextBoolean()
              ? String.valueOf(1 + random.nextInt(30))
              : TEXTS[random.nextInt(TEXTS.length)];
      path =
          path.replaceFirst(
              "\\{[^}]+}",
              java.util.regex.Matcher.quoteReplacement(
                  encoded(value.isEmpty() || value.equals("../..") ? "x" : value)));
    }
    var query = new StringBuilder();
    for (JsonNode parameter : operation.node().path("parameters")) {
      if (parameter.path("in").asText().equals("query") && random.nextInt(3) == 0) {
        JsonNode words = parameter.path("schema").path("enum");
        String value =
            !words.isEmpty() && random.nextBoolean()
                ? words.get(random.nextInt(words.size())).asText()
                : TEXTS[random.nextInt(TEXTS.length)];
        query
            .append(query.isEmpty() ? "?" : "&")
            .append(parameter.path("name").asText())
            .append('=')
            .append(encoded(value));
      }
    }
    // A long poll would take its time.
    return path + query;
  }

  private static String encoded(String value) {
    return URLEncoder.encode(value, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private static String mediaType(Document.Operation operation, Random random) {
    var types = new ArrayList<String>();
    operation.node().path("requestBody").path("content").fieldNames().forEachRemaining(types::add);
    return types.isEmpty() ? Door.JSON_TYPE : types.get(random.nextInt(types.size()));
  }

  /** The document's own example, as it is or with one value that is another. */
  private static String mutated(Document.Operation operation, Random random) throws Exception {
    List<String> bodies = List.copyOf(door.document().exampleBodies(operation).values());
    // A long poll would take its time.
    String example =
        bodies.isEmpty()
            ? "{}"
            : bodies.get(random.nextInt(bodies.size())).replaceAll("\"wait\": ?20", "\"wait\": 0");
    if (random.nextInt(3) == 0 || !example.startsWith("{") || example.strip().contains("\n{")) {
      return example;
    }
    ObjectNode object = (ObjectNode) JSON.readTree(example);
    List<String> names = new ArrayList<>();
    object.fieldNames().forEachRemaining(names::add);
    String name = names.get(random.nextInt(names.size()));
    switch (random.nextInt(4)) {
      case 0 -> object.remove(name);
      case 1 -> object.set(name + "x", object.get(name));
      case 2 -> object.set(name, JSON.createArrayNode().add(object.get(name)));
      default -> object.set(name, anything(random, 0));
    }
    return JSON.writeValueAsString(object);
  }

  /**
   * Mostly of the schema's shape, with values of any kind; sometimes cut, or nothing of the sort.
   */
  private static String body(Document.Operation operation, Random random) throws Exception {
    JsonNode schema =
        operation.node().path("requestBody").path("content").path(Door.JSON_TYPE).path("schema");
    if (random.nextInt(12) == 0) {
      return TEXTS[random.nextInt(TEXTS.length)];
    }
    String body = JSON.writeValueAsString(value(schema, random, 0));
    return random.nextInt(15) == 0 && !body.isEmpty()
        ? body.substring(0, random.nextInt(body.length()))
        : body;
  }

  private static JsonNode value(JsonNode given, Random random, int depth) {
    JsonNode schema =
        given.has("$ref")
            ? door.document().schema(given.get("$ref").asText().replaceFirst(".*/", ""))
            : given;
    if (random.nextInt(6) == 0 || depth > 5) {
      return anything(random, depth);
    }
    String type =
        schema.path("type").isArray()
            ? schema.path("type").get(0).asText()
            : schema.path("type").asText();
    return switch (type) {
      case "object" -> {
        ObjectNode object = JSON.createObjectNode();
        for (Map.Entry<String, JsonNode> property : schema.path("properties").properties()) {
          if (random.nextInt(3) != 0) {
            object.set(property.getKey(), value(property.getValue(), random, depth + 1));
          }
        }
        yield object;
      }
      case "array" -> {
        ArrayNode array = JSON.createArrayNode();
        for (int i = random.nextInt(4); i > 0; i--) {
          array.add(value(schema.path("items"), random, depth + 1));
        }
        yield array;
      }
      case "integer" ->
          JSON.getNodeFactory()
              .numberNode(
                  new long[] {0, 1, -1, 5, 1000, 40000, 3_000_000_000L, Long.MAX_VALUE, 2}
                      [random.nextInt(9)]);
      case "number" ->
          JSON.getNodeFactory()
              .numberNode(new double[] {0, 0.5, 1, -1, 1e9, 1e308, 2}[random.nextInt(7)]);
      case "boolean" -> JSON.getNodeFactory().booleanNode(random.nextBoolean());
      case "string" ->
          schema.path("enum").isEmpty()
              ? JSON.getNodeFactory()
                  .textNode(random.nextBoolean() ? "echo" : TEXTS[random.nextInt(TEXTS.length)])
              : schema.path("enum").get(random.nextInt(schema.path("enum").size()));
      default -> anything(random, depth);
    };
  }

  private static JsonNode anything(Random random, int depth) {
    return switch (random.nextInt(depth > 5 ? 5 : 7)) {
      case 0 -> JSON.getNodeFactory().nullNode();
      case 1 -> JSON.getNodeFactory().booleanNode(random.nextBoolean());
      case 2 -> JSON.getNodeFactory().numberNode(random.nextLong());
      case 3 -> JSON.getNodeFactory().numberNode(random.nextGaussian() * 1e10);
      case 4 -> JSON.getNodeFactory().textNode(TEXTS[random.nextInt(TEXTS.length)]);
      case 5 -> JSON.createArrayNode().add(anything(random, depth + 1));
      default -> JSON.createObjectNode().set("k", anything(random, depth + 1));
    };
  }

  @Test
  void nothing_of_payload_result_or_error_reaches_a_log_or_a_metric() throws Exception {
    // Apart from the others, which change policies as it comes.
    TestDatabase quiet = TestPostgres.shared().newDatabase();
    ServiceProcess process =
        ServiceProcess.on(quiet).with("WAYBILL_POOLS", "default=*:8").startReady();
    var own = new Door(process);
    String canary = "canary-7f3a91d2";
    List<Long> ids = new ArrayList<>();
    ids.add(
        own.post("/v1/jobs", "{\"kind\": \"echo\", \"payload\": {\"secret\": \"" + canary + "\"}}")
            .is(201)
            .id());
    ids.add(
        own.post(
                "/v1/jobs",
                "{\"kind\": \"fail\", \"payload\": {\"message\": \""
                    + canary
                    + "\"}, \"maxAttempts\": 1}")
            .is(201)
            .id());
    ids.add(
        own.post("/v1/jobs", "{\"kind\": \"sleep\", \"payload\": {\"ms\": \"" + canary + "\"}}")
            .is(201)
            .id());
    for (String bad :
        List.of(
            "{\"kind\": \"echo\", \"payload\": {\"" + canary + "\": 1, \"" + canary + "\": 2}}",
            "{\"kind\": \"echo\", \"payload\": \"" + canary + "\\u0000\"}",
            "{\"kind\": \"echo\", \"payload\": {\"a\": \"" + canary + "\"",
            "{\"kind\": \"echo\", \"payload\": [1e400, \"" + canary + "\"]}",
            "{\"kind\": \"echo\", \"payload\": \"" + canary + "x".repeat(262_144) + "\"}")) {
      Door.Reply refused = own.post("/v1/jobs", bad).is(400);
      // The name of a duplicate key is the field at fault; a value never is.
      assertTrue(bad.contains("\": 2") || !refused.body().contains(canary), refused.body());
      own.post("/v1/jobs/batch", "[" + bad + "]").is(400);
    }
    Awaitility.await("all ended")
        .atMost(Duration.ofSeconds(30))
        .until(() -> {
          for (long id : ids) {
            if (!List.of("done", "dead").contains(quiet.state(id))) {
              return false;
            }
          }
          return true;
        });
    assertTrue(
        own.get("/v1/jobs/" + ids.getFirst()).body().contains(canary), "it is where it belongs");
    assertTrue(!process.rest().get("/q/metrics").body().contains(canary), "a metric");
    assertTrue(!own.get("/v1/stats").body().contains(canary), "a figure");
    assertTrue(!own.get("/v1/workers").body().contains(canary), "a worker");
    assertTrue(!process.output().contains(canary), process::output);
  }

  @Test
  void swagger_ui_is_there() throws Exception {
    Rest.Answer page = service.rest().get("/q/swagger-ui/");
    assertEquals(200, page.status());
    assertTrue(page.body().contains("swagger-ui"));
    assertEquals(302, service.rest().get("/q/swagger-ui").status(), "without the slash");
    assertTrue(
        service
            .rest()
            .get("/q/openapi?format=json")
            .json()
            .get("openapi")
            .asText()
            .startsWith("3.1"));
  }
}
