package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** The log as a log collector reads it. */
@ExtendWith(Processes.class)
final class LogIT {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String CANARY = "canary-77d-in-the-payload";

  @Test
  void each_line_is_one_object_and_no_payload_is_in_it() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    ServiceProcess process =
        ServiceProcess.on(database)
            .with("WAYBILL_LOG", "json")
            .with("WAYBILL_POOLS", "a=*:4;b=unknown:2") // A warning.
            .startReady();
    var ids = new ArrayList<Long>();
    ids.add(database.enqueue("fail", "{\"message\": \"" + CANARY + "\"}"));
    ids.add(database.enqueue("echo", "{\"text\": \"" + CANARY + "\"}"));
    ids.add(database.enqueue("sleep", "{\"ms\": \"" + CANARY + "\"}")); // Cannot be read.
    long cancelled = database.enqueue("sleep", "{\"ms\": 60000, \"note\": \"" + CANARY + "\"}");
    ids.add(cancelled);
    Awaitility.await().until(() -> database.state(cancelled).equals("running"));
    database.execute("SELECT waybill.cancel(?)", cancelled);
    Awaitility.await("it is said that it was cancelled")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> process.output().contains("cancelled while it ran"));
    int bad = process.rest().post("/v1/jobs", "{\"kind\": \"" + CANARY + " {\"}").status();
    assertEquals(400, bad);
    database.execute("SELECT waybill.cancel(?)", ids.getFirst());
    Invariants.check(database, EnqueueLog.of(ids));
    process.term();
    int _ = process.exitCode();

    List<String> lines = Files.readAllLines(process.out());
    assertEquals(List.of(), Files.readAllLines(process.err()));
    assertTrue(lines.size() >= 4, process.output());
    for (String line : lines) {
      JsonNode said = JSON.readTree(line);
      for (String field : List.of("timestamp", "level", "loggerName", "message")) {
        assertFalse(said.path(field).asText().isEmpty(), line);
      }
      assertFalse(line.contains(CANARY), line);
    }
    assertTrue(
        lines.stream().anyMatch(line -> line.contains("job=" + cancelled)), process.output());
  }

  @Test
  void an_idle_service_says_nothing() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    ServiceProcess process = ServiceProcess.on(database).with("WAYBILL_LOG", "json").startReady();
    // It is ready a moment before it has said so.
    Awaitility.await().until(() -> process.output().contains("\"message\":\"Waybill is ready"));
    long said = Files.size(process.out());
    Awaitility.await("two rounds of every beat but the hourly ones")
        .atMost(ServiceProcess.PATIENCE)
        .pollDelay(Duration.ofSeconds(12))
        .until(process::isReady);
    assertEquals(said, Files.size(process.out()), process.output());
  }

  @Test
  void in_kubernetes_it_is_json_unless_told_otherwise() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    for (var one : Map.of("", true, "text", false, "json", true).entrySet()) {
      ServiceProcess process =
          ServiceProcess.on(database)
              .with("KUBERNETES_SERVICE_HOST", "10.0.0.1")
              .with("WAYBILL_LOG", one.getKey())
              .startReady();
      String first = Files.readAllLines(process.out()).getFirst();
      assertEquals(one.getValue(), first.startsWith("{"), first);
      process.close();
    }
  }

  @Test
  void a_wrong_form_ends_the_start_with_one_line() throws Exception {
    ServiceProcess process =
        ServiceProcess.on(TestPostgres.shared().emptyDatabase()).with("WAYBILL_LOG", "xml").start();
    assertEquals(2, process.exitCode());
    assertEquals(1, process.lines().size(), process.output());
    assertTrue(process.output().contains("WAYBILL_LOG: 'xml'"), process.output());
  }
}
