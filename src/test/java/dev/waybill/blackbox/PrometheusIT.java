package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import java.io.IOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** A real Prometheus with the rules that ship, on a service that works. */
@ExtendWith(Processes.class)
final class PrometheusIT {

  private static final Path RULES = Path.of("deploy/prometheus/waybill-rules.yml");
  private static final Path DASHBOARD = Path.of("deploy/grafana/waybill.json");
  private static final ObjectMapper JSON = new ObjectMapper();

  /** What a rule may find nothing for on a service that is well. */
  private static final Set<String> MAY_BE_EMPTY = Set.of("alert", "record");

  private record Query(String what, String name, String expr) {}

  private record Prometheus(Process process, Rest api) implements AutoCloseable {

    static Prometheus scraping(ServiceProcess service) throws IOException {
      boolean there =
          Stream.of(System.getenv().getOrDefault("PATH", "").split(":"))
              .anyMatch(directory -> Files.isExecutable(Path.of(directory, "prometheus")));
      assertTrue(there || System.getenv("CI") == null, "CI needs prometheus: see .ci/run");
      assumeTrue(there, "no prometheus here");
      int port = Ports.free();
      Path directory = Files.createTempDirectory(Path.of("target").toAbsolutePath(), "prometheus");
      Path settings =
          Files.writeString(
              directory.resolve("prometheus.yml"),
              """
              global:
                scrape_interval: 1s
                evaluation_interval: 1s
              rule_files:
                - %s
              scrape_configs:
                - job_name: waybill
                  metrics_path: /q/metrics
                  static_configs:
                    - targets: ["127.0.0.1:%d"]
              """
                  .formatted(RULES.toAbsolutePath(), service.port()));
      Process process =
          new ProcessBuilder(
                  "prometheus",
                  "--config.file=" + settings,
                  "--storage.tsdb.path=" + directory.resolve("data"),
                  "--web.listen-address=127.0.0.1:" + port)
              .redirectErrorStream(true)
              .redirectOutput(directory.resolve("log").toFile())
              .start();
      return new Prometheus(process, new Rest(port));
    }

    JsonNode query(String expr) throws IOException {
      Rest.Answer answer =
          api.get("/api/v1/query?query=" + URLEncoder.encode(expr, StandardCharsets.UTF_8));
      assertEquals(200, answer.status(), () -> expr + ": " + answer.body());
      return answer.json().at("/data/result");
    }

    /**
     * Those that are pending or firing, as the rules have them. The series ALERTS is first written
     * at the third evaluation, up to 90 s after the start: whoever kills before, and whoever says
     * that nothing fires, would ask it too early.
     */
    List<JsonNode> alerts() throws IOException {
      return items(api.get("/api/v1/alerts").json().at("/data/alerts"));
    }

    @Override
    public void close() {
      process.destroyForcibly();
    }
  }

  private static List<JsonNode> items(JsonNode array) {
    return StreamSupport.stream(array.spliterator(), false).toList();
  }

  private static List<Query> queries() throws IOException {
    var queries = new ArrayList<Query>();
    for (JsonNode group :
        items(new ObjectMapper(new YAMLFactory()).readTree(RULES.toFile()).path("groups"))) {
      for (JsonNode rule : items(group.path("rules"))) {
        String what = rule.has("alert") ? "alert" : "record";
        queries.add(new Query(what, rule.path(what).asText(), rule.path("expr").asText()));
      }
    }
    for (JsonNode panel : items(JSON.readTree(DASHBOARD.toFile()).path("panels"))) {
      for (JsonNode target : items(panel.path("targets"))) {
        queries.add(
            new Query(
                "panel",
                panel.path("title").asText(),
                target
                    .path("expr")
                    .asText()
                    .replace("$__rate_interval", "30s")
                    .replace("$kind", ".*")
                    .replace("$pool", ".*")));
      }
    }
    return queries;
  }

  /** One of each: done, failed and waiting, dead, running for a while. */
  private static void work(TestDatabase database) throws Exception {
    database.policy("fail", "max_attempts = 2, backoff_base_ms = 0");
    database.enqueueMany("echo", "{}", 50);
    database.enqueueMany("fail", "{\"message\": \"no luck\"}", 3);
    database.enqueueMany("sleep", "{\"ms\": 120000}", 2);
    Awaitility.await("worked")
        .atMost(ServiceProcess.PATIENCE)
        .until(() ->
            database.number("SELECT count(*) FROM waybill.jobs_done") == 50
                && database.number("SELECT count(*) FROM waybill.jobs_dead") == 3);
  }

  @Test
  void panels_and_rules_ask_for_what_is_exported_and_get_answers() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    ServiceProcess service = ServiceProcess.on(database).startReady();
    try (Prometheus prometheus = Prometheus.scraping(service)) {
      Awaitility.await("Prometheus is ready")
          .atMost(ServiceProcess.PATIENCE)
          .until(() -> prometheus.api().status("/-/ready") == 200);
      work(database);
      Awaitility.await("it scraped what was done")
          .atMost(Duration.ofSeconds(90))
          .until(() -> !prometheus.query("waybill_dead{kind=\"fail\"} == 3").isEmpty());
      exported(service);
      // Some jobs more, so that rates have something to tell of, whenever the first scrape was.
      database.enqueueMany("echo", "{}", 50);
      List<Query> queries = queries();
      assertTrue(queries.size() > 30, () -> "queries: " + queries.size());
      for (Query query : queries) {
        if (MAY_BE_EMPTY.contains(query.what())) {
          var _ = prometheus.query(query.expr());
        } else {
          Awaitility.await(query.name() + ": " + query.expr())
              .atMost(Duration.ofSeconds(60))
              .until(() -> !prometheus.query(query.expr()).isEmpty());
        }
      }
      Awaitility.await("the rules were evaluated")
          .atMost(Duration.ofSeconds(90))
          .until(() -> !prometheus.query("waybill:lag_bad:ratio_5m{kind=\"echo\"}").isEmpty());
      for (JsonNode group :
          items(prometheus.api().get("/api/v1/rules").json().at("/data/groups"))) {
        for (JsonNode rule : items(group.path("rules"))) {
          assertTrue(
              Set.of("ok", "unknown").contains(rule.path("health").asText())
                  && rule.path("lastError").asText().isEmpty(),
              rule::toString);
        }
      }
      for (JsonNode alert : prometheus.alerts()) {
        assertFalse(alert.path("state").asText().equals("firing"), alert::toString);
      }
      // And it does fire: somebody ends the service, and Prometheus finds it gone.
      service.kill9();
      Awaitility.await("the scrape fails")
          .atMost(Duration.ofSeconds(60))
          .until(() -> !prometheus.query("up{job=\"waybill\"} == 0").isEmpty());
      // Rules are evaluated every 30 s, and later on a machine that is busy.
      Awaitility.await("an alert is pending")
          .atMost(Duration.ofMinutes(2))
          .until(() ->
              prometheus.alerts().stream()
                  .anyMatch(
                      alert -> alert.at("/labels/alertname").asText().equals("WaybillTargetDown")));
    }
  }

  /** Every name in rules and panels is one that a scrape has: a renamed metric is found here. */
  private static void exported(ServiceProcess service) throws IOException {
    Set<String> scraped =
        service
            .rest()
            .get("/q/metrics")
            .body()
            .lines()
            .filter(line -> line.startsWith("waybill_"))
            .map(line -> line.split("[{ ]", 2)[0])
            .collect(Collectors.toCollection(TreeSet::new));
    var asked = new TreeSet<String>();
    for (Query query : queries()) {
      var names = Pattern.compile("\\bwaybill_[a-z0-9_]+").matcher(query.expr());
      while (names.find()) {
        asked.add(names.group());
      }
    }
    assertTrue(asked.size() >= 20, asked::toString);
    var missing = new TreeSet<>(asked);
    missing.removeAll(scraped);
    assertEquals(Set.of(), missing, "asked for, and not in a scrape");
    for (String contract :
        List.of(
            "waybill_oldest_ready_seconds",
            "waybill_jobs",
            "waybill_claims_total",
            "waybill_claim_seconds_bucket",
            "waybill_claim_empty_total",
            "waybill_settled_total",
            "waybill_job_seconds_bucket",
            "waybill_pickup_seconds_bucket",
            "waybill_lease_lost_total",
            "waybill_reaped_total",
            "waybill_dead",
            "waybill_dead_growth_24h",
            "waybill_dead_tuples",
            "waybill_seconds_since_autovacuum",
            "waybill_oldest_snapshot_seconds",
            "waybill_partitions",
            "waybill_slots_in_use")) {
      assertTrue(scraped.contains(contract), contract);
    }
  }

  /** Whichever of two processes samples: when it is killed, the other goes on. */
  @Test
  void somebody_samples_as_long_as_anybody_is_there() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    ServiceProcess first = ServiceProcess.on(database).startReady();
    awaitSample(database);
    ServiceProcess second = ServiceProcess.on(database).startReady();
    first.kill9();
    awaitSample(database);
    assertTrue(second.rest().metric("waybill_sample_age_seconds") < 30);
    long samples =
        database.number(
            "SELECT count(DISTINCT at) FROM waybill.figures_past WHERE at > now() - interval '10 seconds'");
    assertTrue(samples <= 3, samples + " samples in ten seconds");
  }

  /**
   * Jobs of a killed worker are taken back at once, by a process that never claimed one of their
   * kind. If its counter began with them, no rate and no increase would ever see them.
   */
  @Test
  void what_a_process_reaps_is_counted_from_zero_though_it_claims_nothing() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    ServiceProcess worker =
        ServiceProcess.on(database).with("WAYBILL_ROLES", "worker").startReady();
    ServiceProcess maintenance =
        ServiceProcess.on(database).with("WAYBILL_ROLES", "maintenance").startReady();
    String reaped = "waybill_reaped_total{kind=\"sleep\"";
    Awaitility.await("it is there before the first")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> maintenance.rest().get("/q/metrics").body().contains(reaped));
    assertEquals(0, maintenance.rest().metric("waybill_reaped_total"));
    database.enqueueMany("sleep", "{\"ms\": 60000}", 12);
    Awaitility.await("they run")
        .atMost(ServiceProcess.PATIENCE)
        .until(() ->
            database.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running'") == 12);
    worker.kill9();
    database.execute("UPDATE waybill.jobs SET lease_until = now() - interval '1 second'");
    Awaitility.await("they are taken back")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> maintenance.rest().metric("waybill_reaped_total") == 12);
  }

  private static void awaitSample(TestDatabase database) throws Exception {
    String now = database.text("SELECT clock_timestamp()");
    Awaitility.await("a sample after " + now)
        .atMost(Duration.ofSeconds(40))
        .until(() ->
            database.truth(
                "SELECT coalesce(max(at) > ?::timestamptz, false) FROM waybill.figures_past", now));
  }

  /**
   * What this process did is told in an outage; what the database would say is as old as it says.
   */
  @Test
  void a_scrape_does_not_hang_with_the_database() throws Exception {
    try (TestPostgres cluster = TestPostgres.own()) {
      TestDatabase database = cluster.newDatabase();
      ServiceProcess service = ServiceProcess.on(database).startReady();
      database.enqueueMany("echo", "{}", 5);
      Awaitility.await("sampled")
          .atMost(ServiceProcess.PATIENCE)
          .until(
              () -> service.rest().get("/q/metrics").body().contains("waybill_jobs{kind=\"echo\""));
      cluster.freeze();
      try {
        Awaitility.await("not ready")
            .atMost(ServiceProcess.PATIENCE)
            .until(() -> service.rest().metric("waybill_ready") == 0);
        for (int i = 0; i < 5; i++) {
          long begin = System.nanoTime();
          String body = service.rest().get("/q/metrics").body();
          long millis = (System.nanoTime() - begin) / 1_000_000;
          // With the database it would hang for eight seconds, if it asks.
          assertTrue(millis < 5_000, "a scrape took ms " + millis);
          assertTrue(
              body.contains("waybill_settled_total{kind=\"echo\",outcome=\"done\"} 5.0"), body);
        }
        Awaitility.await("what is told is old")
            .atMost(ServiceProcess.PATIENCE)
            .until(() -> service.rest().metric("waybill_sample_age_seconds") > 5);
        assertFalse(service.rest().metric("waybill_draining") > 0);
      } finally {
        cluster.thaw();
      }
      Awaitility.await("ready")
          .atMost(ServiceProcess.PATIENCE)
          .until(() -> service.rest().metric("waybill_ready") == 1);
    }
  }
}
