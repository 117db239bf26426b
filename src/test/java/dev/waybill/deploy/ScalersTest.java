package dev.waybill.deploy;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import dev.waybill.Promtool;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What KEDA asks Prometheus, answered by Prometheus' own engine. */
final class ScalersTest {

  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  /** 6,400 and 800 wait, as two pods tell; each pool is full with one pod. */
  private static final Map<String, String> BUSY =
      Map.of(
          "waybill_jobs{namespace=\"waybill\",pod=\"a\",kind=\"email\",state=\"ready\"}", "6400",
          "waybill_jobs{namespace=\"waybill\",pod=\"b\",kind=\"email\",state=\"ready\"}", "6400",
          "waybill_jobs{namespace=\"waybill\",kind=\"email\",state=\"running\"}", "64",
          "waybill_jobs{namespace=\"waybill\",kind=\"backfill\",state=\"ready\"}", "800",
          "waybill_jobs{namespace=\"waybill\",kind=\"backfill\",state=\"running\"}", "8",
          "waybill_oldest_ready_seconds{namespace=\"waybill\",kind=\"email\"}", "90",
          "waybill_oldest_ready_seconds{namespace=\"waybill\",kind=\"backfill\"}", "60",
          "waybill_jobs{namespace=\"other\",kind=\"email\",state=\"ready\"}", "77777");

  @Test
  void more_pods_come_by_depth_and_by_lag_of_the_pools_own_kinds(@TempDir Path directory)
      throws Exception {
    asks(directory, BUSY, "128 90", "16 60");
  }

  /** A pause is how a runbook protects a target: it must not fill the cluster with idle pods. */
  @Test
  void what_waits_of_a_paused_kind_calls_nobody_and_what_runs_keeps_its_pod(@TempDir Path directory)
      throws Exception {
    var paused = new TreeMap<>(BUSY);
    paused.put("waybill_kind_paused{namespace=\"waybill\",kind=\"email\"}", "1");
    paused.put("waybill_kind_paused{namespace=\"waybill\",kind=\"backfill\"}", "1");
    asks(directory, paused, "64 0", "8 0");
    paused.put("waybill_kind_paused{namespace=\"waybill\",kind=\"backfill\"}", "0");
    asks(directory, paused, "64 0", "16 60");
  }

  @Test
  void a_queue_that_was_never_used_needs_nobody(@TempDir Path directory) throws Exception {
    asks(directory, Map.of(), "0 0", "0 0");
  }

  private static void asks(
      Path directory, Map<String, String> series, String ofDefault, String ofBulk)
      throws Exception {
    ObjectNode test = JSON.objectNode();
    test.put("interval", "15s");
    ArrayNode input = test.putArray("input_series");
    series.forEach(
        (name, value) -> input.addObject().put("series", name).put("values", value + "x8"));
    ArrayNode looks = test.putArray("promql_expr_test");
    int asked = 0;
    for (JsonNode scaler : Manifests.of("keda").custom()) {
      boolean bulk = scaler.at("/metadata/name").asText().endsWith("-bulk");
      String[] values = (bulk ? ofBulk : ofDefault).split(" ", 2);
      for (JsonNode trigger : scaler.at("/spec/triggers")) {
        ObjectNode look = looks.addObject();
        look.put("expr", trigger.at("/metadata/query").asText());
        look.put("eval_time", "1m");
        look.putArray("exp_samples")
            .addObject()
            .put("labels", "{}")
            .put(
                "value",
                Integer.parseInt(values[trigger.path("name").asText().equals("lag") ? 1 : 0]));
        asked++;
      }
    }
    assertEquals(4, asked);
    ObjectNode file = JSON.objectNode();
    file.putArray("rule_files");
    file.put("evaluation_interval", "15s");
    file.putArray("tests").add(test);
    Path scenario = directory.resolve("scenario.yml");
    new ObjectMapper(new YAMLFactory()).writeValue(scenario.toFile(), file);
    Promtool.accepts("test", "rules", scenario.toString());
  }
}
