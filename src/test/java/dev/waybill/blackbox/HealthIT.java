package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** The answers to Kubernetes' questions. Outages of the database are in OutageIT. */
@ExtendWith(Processes.class)
final class HealthIT {

  @Test
  void a_pod_that_drains_is_not_ready_at_once_and_lives_until_its_jobs_are_done() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    ServiceProcess process = ServiceProcess.on(database).with("WAYBILL_DRAIN", "30s").startReady();
    long id = database.enqueue("sleep", "{\"ms\": 12000}");
    Awaitility.await("it runs")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> database.state(id).equals("running"));
    long begin = System.nanoTime();
    process.term();
    Awaitility.await("not ready")
        .atMost(Duration.ofSeconds(5)) // Long before its jobs are done.
        .pollInterval(Duration.ofMillis(10))
        .until(() -> process.rest().status("/q/health/ready") == 503);
    System.out.printf(
        "HealthIT: not ready %d ms after TERM%n", (System.nanoTime() - begin) / 1_000_000);
    long seen = System.nanoTime();
    while (System.nanoTime() - seen < 2_000_000_000L) {
      assertEquals("running", database.state(id));
      assertEquals(200, process.rest().status("/q/health/live"));
      assertEquals(503, process.rest().status("/q/health/ready"));
      assertEquals(1, process.rest().metric("waybill_draining"));
      assertEquals(0, process.rest().metric("waybill_ready"));
    }
    assertTrue(List.of(0, 143).contains(process.exitCode()), process.output());
    assertEquals("done", database.state(id));
  }

  @Test
  void a_pod_of_each_role_is_live_ready_and_started() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    for (String role : List.of("api", "worker", "maintenance")) {
      ServiceProcess process = ServiceProcess.on(database).with("WAYBILL_ROLES", role).startReady();
      for (String question : List.of("live", "ready", "started")) {
        assertEquals(200, process.rest().status("/q/health/" + question), role + " " + question);
      }
      assertEquals(1, process.rest().metric("waybill_ready"), role);
      process.close();
    }
  }
}
