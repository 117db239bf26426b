package dev.waybill;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** Prometheus' own tool, where it is installed. */
public final class Promtool {

  private Promtool() {}

  /** Missing where CI runs is a failure: then nobody would ever run these. */
  public static void accepts(String... arguments) throws IOException, InterruptedException {
    boolean there =
        Stream.of(System.getenv().getOrDefault("PATH", "").split(":"))
            .anyMatch(directory -> Files.isExecutable(Path.of(directory, "promtool")));
    assertTrue(there || System.getenv("CI") == null, "CI needs promtool: see .ci/run");
    assumeTrue(there, "no promtool here");
    var command = new ArrayList<>(List.of("promtool"));
    command.addAll(List.of(arguments));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(180, TimeUnit.SECONDS), "promtool does not end");
    assertEquals(0, process.exitValue(), said);
  }
}
