package dev.waybill.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.smallrye.config.SmallRyeConfigBuilder;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Settings that are refused without a word of what is in them, and a collector that hangs. */
class TracerTest {

  private static final String ENDPOINT = "otel.exporter.otlp.endpoint";
  private static final String TRACES = "otel.exporter.otlp.traces.endpoint";
  private static final String HEADERS = "otel.exporter.otlp.headers";

  private static Tracer tracer(Map<String, String> settings) {
    var config = new SmallRyeConfigBuilder().withMapping(TraceSettings.class);
    settings.forEach(config::withDefaultValue);
    return new Tracer(config.build().getConfigMapping(TraceSettings.class), "1");
  }

  private static void assertRefused(String setting, Map<String, String> settings) {
    Tracer tracer = tracer(settings);
    IllegalArgumentException refusal =
        assertThrows(IllegalArgumentException.class, tracer::check, settings::toString);
    String said = String.valueOf(refusal.getMessage());
    assertTrue(said.startsWith(setting + ": ") && said.contains("right would be"), said);
    assertFalse(said.contains("hunter2") || said.contains("\n"), said);
    assertFalse(tracer.on());
  }

  @ParameterizedTest
  @CsvSource({
    "'authorization=Bearer hunter2\nx-team=sales'",
    "'a=b,Host=hunter2'",
    "'a=b,not a name=hunter2'",
    "'authorization=Bearer%0Ahunter2'",
    "'authorization=hunter2%'",
    "'authorization=%zzhunter2'",
    "'hunter2'"
  })
  void a_header_that_cannot_be_sent_ends_the_start(String headers) {
    assertRefused(
        "OTEL_EXPORTER_OTLP_HEADERS", Map.of(ENDPOINT, "http://localhost:4318", HEADERS, headers));
  }

  @ParameterizedTest
  @CsvSource({
    "collector:4318",
    "http://otel_collector:4318/hunter2",
    "http://user:hunter2@collector:4318",
    "http://collector:4318/%zzhunter2",
    "http://collector:70000/hunter2",
    "http://collector:hunter2",
    "http:///hunter2",
    "'http://collector/hunter2 and more'",
    "ftp://collector/hunter2"
  })
  void a_url_that_cannot_be_asked_ends_the_start(String url) {
    assertRefused("OTEL_EXPORTER_OTLP_ENDPOINT", Map.of(ENDPOINT, url));
    assertRefused("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", Map.of(TRACES, url));
  }

  /** The head of its answer comes, and the body never does. */
  @Test
  void a_collector_that_hangs_in_its_answer_holds_nothing_up() throws Exception {
    var asked = new AtomicInteger();
    HttpServer collector =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    collector.createContext(
        "/v1/traces",
        exchange -> {
          int _ = exchange.getRequestBody().readAllBytes().length;
          boolean hangs = asked.incrementAndGet() == 1;
          exchange.sendResponseHeaders(200, hangs ? 10 : -1);
          if (hangs) {
            exchange.getResponseBody().flush();
          } else {
            exchange.close();
          }
        });
    collector.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
    collector.start();
    Tracer tracer =
        tracer(
            Map.of(
                ENDPOINT,
                "http://127.0.0.1:" + collector.getAddress().getPort(),
                "otel.exporter.otlp.timeout",
                "2000"));
    tracer.check();
    tracer.start();
    try {
      Span span = tracer.enqueue("mail", null);
      assertTrue(span != null);
      if (span != null) {
        span.end();
      }
      Awaitility.await("sent at the second attempt")
          .atMost(Duration.ofSeconds(30))
          .until(() -> tracer.sent() == 1);
      assertEquals(2, asked.get());
      assertEquals(0, tracer.dropped());
    } finally {
      tracer.stop();
      collector.stop(0);
    }
  }
}
