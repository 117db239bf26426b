package dev.waybill.embedded;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/** Short runs of other programs. */
final class Command {
  private Command() {}

  /** Bounds a run; initdb on a slow disk is the longest. */
  private static final Duration LIMIT = Duration.ofMinutes(2);

  /** What a program printed, both streams, and how it ended. */
  record Ended(int status, String printed) {
    boolean well() {
      return status == 0;
    }
  }

  /**
   * A builder whose program inherits nothing that could change its ways: {@code PG*} and {@code
   * LC_*} of the user's shell are not meant for this server, and a working directory may be
   * unreadable to the account that runs it.
   */
  static ProcessBuilder builder(List<String> words) {
    var builder = new ProcessBuilder(words).directory(Path.of("/").toFile());
    String path = builder.environment().getOrDefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    builder.environment().clear();
    builder.environment().put("PATH", path);
    builder.environment().put("LC_ALL", "C");
    return builder;
  }

  static Ended run(List<String> words) throws IOException {
    return run(words, "");
  }

  static Ended run(List<String> words, String input) throws IOException {
    Process process = builder(words).redirectErrorStream(true).start();
    Thread.ofVirtual().start(() -> bound(process));
    try (OutputStream stdin = process.getOutputStream()) {
      stdin.write(input.getBytes(StandardCharsets.UTF_8));
    } catch (IOException _) {
      // It ended without reading: its status and its words say why.
    }
    String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    return new Ended(process.onExit().join().exitValue(), printed);
  }

  private static void bound(Process process) {
    try {
      if (!process.waitFor(LIMIT)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException _) {
      process.destroyForcibly();
    }
  }
}
