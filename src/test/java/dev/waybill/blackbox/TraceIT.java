package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** One trace from whoever enqueues to whoever is posted to, as a collector sees it. */
@ExtendWith(Processes.class)
final class TraceIT {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
  private static final String CALLER = "00f067aa0ba902b7";
  private static final String CANARY = "canary-81c-in-the-payload";

  private final HttpClient client = HttpClient.newHttpClient();
  private final List<String> received = new CopyOnWriteArrayList<>();
  private final List<String> headers = new CopyOnWriteArrayList<>();
  private final List<String> traceparents = new CopyOnWriteArrayList<>();
  private final AtomicInteger status = new AtomicInteger(200);
  private HttpServer server;
  private TestDatabase database;

  @BeforeEach
  void start() throws Exception {
    database = TestPostgres.shared().newDatabase();
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext(
        "/collector/v1/traces",
        exchange -> {
          received.add(
              new String(
                  exchange.getRequestBody().readAllBytes(),
                  java.nio.charset.StandardCharsets.UTF_8));
          headers.add(String.valueOf(exchange.getRequestHeaders().getFirst("x-team")));
          exchange.sendResponseHeaders(status.get(), -1);
          exchange.close();
        });
    server.createContext(
        "/hook",
        exchange -> {
          traceparents.add(String.valueOf(exchange.getRequestHeaders().getFirst("traceparent")));
          exchange.sendResponseHeaders(204, -1);
          exchange.close();
        });
    server.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
    server.start();
    database.policy("mail", "delivery = 'http', push_url = '" + at("/hook") + "'");
  }

  @AfterEach
  void stop() {
    server.stop(0);
  }

  private String at(String path) {
    return "http://localhost:" + server.getAddress().getPort() + path;
  }

  private ServiceProcess.Plan plan() {
    return ServiceProcess.on(database)
        .with("WAYBILL_PUSH_ALLOW", "http://localhost:*")
        .with("WAYBILL_PUSH_ALLOW_PRIVATE", "127.0.0.0/8,::1")
        .with("WAYBILL_PUSH_SECRETS", "default=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  }

  private ServiceProcess.Plan traced() {
    return plan()
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", at("/collector/"))
        .with("OTEL_EXPORTER_OTLP_HEADERS", "x-team=sa%6Ces")
        .with("OTEL_SERVICE_NAME", "mailing");
  }

  private long post(ServiceProcess process, String traceparent) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + process.port() + "/v1/jobs"))
            .header("Content-Type", "application/json")
            .header("traceparent", traceparent)
            .POST(
                HttpRequest.BodyPublishers.ofString(
                    "{\"kind\": \"mail\", \"tenant\": \"acme\", \"payload\": {\"to\": \""
                        + CANARY
                        + "\"}}"))
            .build();
    HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
    assertEquals(201, answer.statusCode(), answer.body());
    return JSON.readTree(answer.body()).get("id").asLong();
  }

  private List<JsonNode> spans() {
    var spans = new ArrayList<JsonNode>();
    for (String body : received) {
      try {
        JsonNode resource = JSON.readTree(body).at("/resourceSpans/0");
        assertEquals(
            "mailing", resource.at("/resource/attributes/0/value/stringValue").asText(), body);
        resource.at("/scopeSpans/0/spans").forEach(spans::add);
      } catch (Exception failure) {
        throw new AssertionError(body, failure);
      }
    }
    return spans;
  }

  private JsonNode awaitSpan(String name) {
    Awaitility.await(name)
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> spans().stream().anyMatch(span -> span.get("name").asText().equals(name)));
    return spans().stream()
        .filter(span -> span.get("name").asText().equals(name))
        .findFirst()
        .orElseThrow();
  }

  private static String attribute(JsonNode span, String key) {
    for (JsonNode one : span.get("attributes")) {
      if (one.get("key").asText().equals(key)) {
        return one.get("value").elements().next().asText();
      }
    }
    return "";
  }

  @Test
  void a_request_its_job_and_its_post_are_one_trace() throws Exception {
    ServiceProcess process = traced().startReady();
    long id = post(process, "00-" + TRACE + "-" + CALLER + "-01");
    JsonNode post = awaitSpan("POST");
    JsonNode attempt = awaitSpan("process mail");
    JsonNode enqueue = awaitSpan("enqueue mail");
    assertEquals(3, spans().size(), received::toString);
    for (JsonNode span : spans()) {
      assertEquals(TRACE, span.get("traceId").asText());
      assertTrue(span.get("endTimeUnixNano").asLong() > span.get("startTimeUnixNano").asLong());
    }
    assertEquals(CALLER, enqueue.get("parentSpanId").asText());
    assertEquals(enqueue.get("spanId"), attempt.get("parentSpanId"));
    assertEquals(attempt.get("spanId"), post.get("parentSpanId"));
    assertEquals(List.of("00-" + TRACE + "-" + post.get("spanId").asText() + "-01"), traceparents);
    assertEquals(List.of(4, 5, 3), List.of(kind(enqueue), kind(attempt), kind(post)));
    assertEquals(String.valueOf(id), attribute(attempt, "messaging.message.id"));
    assertEquals("acme", attribute(attempt, "waybill.tenant"));
    assertEquals("done", attribute(attempt, "waybill.outcome"));
    assertEquals("204", attribute(post, "http.response.status_code"));
    assertEquals(at(""), attribute(post, "server.address"));
    assertEquals("sales", headers.getFirst());
    assertFalse(received.toString().contains(CANARY), "a payload in a trace");
    Awaitility.await().until(() -> process.rest().metric("waybill_spans_sent_total") == 3);

    HttpRequest scrape =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + process.port() + "/q/metrics"))
            .header("Accept", "application/openmetrics-text; version=1.0.0; charset=utf-8")
            .build();
    String metrics = client.send(scrape, HttpResponse.BodyHandlers.ofString()).body();
    assertTrue(
        metrics
            .lines()
            .anyMatch(line ->
                line.startsWith("waybill_job_seconds_bucket{")
                    && line.contains("trace_id=\"" + TRACE)),
        () -> metrics.lines().filter(l -> l.contains("waybill_job")).toList().toString());
  }

  private static int kind(JsonNode span) {
    return span.get("kind").asInt();
  }

  @Test
  void a_job_that_came_by_sql_goes_on_with_the_trace_of_its_producer() throws Exception {
    ServiceProcess process = traced().startReady();
    database.execute(
        "SELECT waybill.enqueue('fail', '{\"message\": \""
            + CANARY
            + "\"}', max_attempts => 1, traceparent => ?)",
        "00-" + TRACE + "-" + CALLER + "-01");
    JsonNode attempt = awaitSpan("process fail");
    assertEquals(TRACE, attempt.get("traceId").asText());
    assertEquals(CALLER, attempt.get("parentSpanId").asText());
    assertEquals(2, attempt.at("/status/code").asInt());
    assertFalse(attempt.toString().contains(CANARY));

    // What is no traceparent is no error: the job begins a trace of its own.
    long id =
        database.number("SELECT waybill.enqueue('echo', traceparent => 'ff-not-a-traceparent')");
    JsonNode own = awaitSpan("process echo");
    assertFalse(own.has("parentSpanId"), own::toString);
    Awaitility.await().until(() -> database.state(id).equals("done"));
    assertEquals(List.of(), errors(process));
  }

  private static List<String> errors(ServiceProcess process) {
    return process.lines().stream()
        .filter(line -> line.contains("ERROR") || line.contains("WARN"))
        .toList();
  }

  @Test
  void what_the_caller_does_not_sample_is_handed_on_and_not_sent() throws Exception {
    ServiceProcess process = traced().startReady();
    long _ = post(process, "00-" + TRACE + "-" + CALLER + "-00");
    Awaitility.await().until(() -> !traceparents.isEmpty());
    assertTrue(
        traceparents.getFirst().matches("00-" + TRACE + "-[0-9a-f]{16}-00"),
        traceparents::toString);
    long _ = post(process, "00-" + TRACE + "-" + CALLER + "-01");
    JsonNode _ = awaitSpan("process mail");
    assertEquals(
        1, spans().stream().filter(s -> s.get("name").asText().equals("process mail")).count());
  }

  @Test
  void without_an_endpoint_a_job_keeps_the_trace_it_came_with() throws Exception {
    ServiceProcess process = plan().startReady();
    String traceparent = "00-" + TRACE + "-" + CALLER + "-01";
    long _ = post(process, traceparent);
    long _ = post(process, "00-nonsense");
    Awaitility.await().until(() -> traceparents.size() == 2);
    assertEquals(List.of(traceparent, "null"), traceparents.stream().sorted().toList());
    assertEquals(List.of(), received);
    assertFalse(process.rest().get("/q/metrics").body().contains("waybill_spans"));
  }

  @Test
  void a_collector_that_is_away_costs_spans_and_nothing_else() throws Exception {
    status.set(400);
    ServiceProcess process = traced().startReady();
    Invariants.check(database, EnqueueLog.of(database.enqueueMany("echo", "{}", 20_000)));
    Awaitility.await("dropped spans are counted")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> process.rest().metric("waybill_spans_dropped_total") == 20_000);
    assertEquals(1, errors(process).size(), process.output());
    assertTrue(errors(process).getFirst().contains("spans are not sent"), process.output());
  }

  @Test
  void what_was_not_sent_yet_is_sent_at_the_end() throws Exception {
    ServiceProcess process = traced().startReady();
    long id = database.enqueue("echo", "{}");
    Awaitility.await().until(() -> database.state(id).equals("done"));
    process.term();
    int _ = process.exitCode();
    JsonNode _ = awaitSpan("process echo");
  }

  @ParameterizedTest
  @CsvSource({
    "OTEL_TRACES_SAMPLER, maybe, parentbased_traceidratio",
    "OTEL_EXPORTER_OTLP_PROTOCOL, grpc, http/json",
    "OTEL_EXPORTER_OTLP_ENDPOINT, collector:4318, http://collector:4318",
    "OTEL_EXPORTER_OTLP_HEADERS, hunter2, name=value"
  })
  void a_wrong_setting_ends_the_start_with_one_line(String variable, String value, String says) {
    ServiceProcess process = traced().with(variable, value).start();
    assertEquals(2, process.exitCode(), process.output());
    assertEquals(1, process.lines().size(), process.output());
    assertTrue(process.output().contains(variable), process.output());
    assertTrue(process.output().contains(says), process.output());
    assertFalse(process.output().contains("hunter2"), process.output());
  }
}
