package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** deploy/compose without Docker, by the script that is shipped. */
final class TopologyIT {

  private static final Path SCRIPT =
      Path.of("deploy", "compose", "up-without-docker").toAbsolutePath();

  /** Five in a row. */
  private static final int PORTS = 5;

  @Test
  void jobs_flow_and_a_killed_worker_loses_nothing(@TempDir Path directory) throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    database.policy("sleep", "lease_ms = 2000");
    Path out = directory.resolve("script.log");
    int first = portsInARow();
    var builder = new ProcessBuilder(SCRIPT.toString(), directory.toString());
    builder.environment().keySet().removeIf(name -> name.startsWith("WAYBILL_"));
    builder.environment().put("WAYBILL_DB_URL", database.url());
    builder.environment().put("WAYBILL_DB_USER", database.serviceUser());
    builder.environment().put("WAYBILL_ARTIFACT", ServiceProcess.artifact().toString());
    builder.environment().put("FIRST_PORT", String.valueOf(first));
    builder.environment().put("PROMETHEUS_PORT", String.valueOf(Ports.free()));
    Process script = builder.redirectErrorStream(true).redirectOutput(out.toFile()).start();
    try {
      Awaitility.await("everything is up")
          .atMost(Duration.ofMinutes(3))
          .until(() -> {
            assertTrue(script.isAlive(), () -> said(out));
            return said(out).contains("everything is up");
          });
      awaitAcknowledged(directory, 50);
      Awaitility.await("all three have their part")
          .atMost(Duration.ofSeconds(60))
          .until(() ->
              database
                  .texts("SELECT DISTINCT worker FROM waybill.jobs_done ORDER BY worker")
                  .equals(List.of("worker-1", "worker-2", "worker-3")));
      Awaitility.await("the victim has a job in hand")
          .atMost(Duration.ofSeconds(60))
          .pollInterval(Duration.ofMillis(2))
          .until(() -> {
            boolean busy =
                database.number("SELECT count(*) FROM waybill.jobs WHERE worker = 'worker-2'") > 0;
            if (busy) {
              ProcessHandle.of(pid(directory, "worker-2")).orElseThrow().destroyForcibly();
            }
            return busy;
          });
      awaitAcknowledged(directory, acknowledged(directory).size() + 50);
      assertTrue(ProcessHandle.of(pid(directory, "producer")).orElseThrow().destroy());
      Awaitility.await("the last request has ended")
          .atMost(Duration.ofSeconds(15))
          .until(() -> {
            int before = acknowledged(directory).size();
            TimeUnit.MILLISECONDS.sleep(500);
            return acknowledged(directory).size() == before;
          });
      Invariants.check(database, EnqueueLog.of(acknowledged(directory)));
    } finally {
      script.destroy();
      assertTrue(script.waitFor(90, TimeUnit.SECONDS), () -> said(out));
    }
    assertEquals(0, script.exitValue(), () -> said(out));
    for (String name :
        List.of("api", "worker-1", "worker-2", "worker-3", "maintenance", "producer")) {
      assertTrue(ProcessHandle.of(pid(directory, name)).isEmpty(), name + " is left");
    }
  }

  private static int portsInARow() {
    while (true) {
      int first = Ports.free();
      boolean free = true;
      for (int i = 1; i < PORTS; i++) {
        free &= Ports.isFree(first + i);
      }
      if (free) {
        return first;
      }
    }
  }

  private static void awaitAcknowledged(Path directory, int jobs) {
    Awaitility.await(jobs + " jobs acknowledged")
        .atMost(Duration.ofSeconds(60))
        .until(() -> acknowledged(directory).size() >= jobs);
  }

  private static List<Long> acknowledged(Path directory) throws IOException {
    return Files.readAllLines(directory.resolve("acknowledged")).stream()
        .map(Long::valueOf)
        .toList();
  }

  private static long pid(Path directory, String name) throws IOException {
    return Long.parseLong(Files.readString(directory.resolve(name + ".pid")).strip());
  }

  private static String said(Path out) {
    try {
      return Files.readString(out);
    } catch (IOException failure) {
      return failure.toString();
    }
  }
}
