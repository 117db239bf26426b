package dev.waybill.embedded;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;

/**
 * What a server writes about itself into its data directory, line by line.
 *
 * @param pid 0 when there is none
 */
record PidFile(long pid, String status) {
  private static final int STATUS_LINE = 7;

  static Path of(Path cluster) {
    return cluster.resolve("postmaster.pid");
  }

  static PidFile read(Path cluster) throws IOException {
    try {
      List<String> lines = Files.readAllLines(of(cluster));
      // A server in single mode writes its pid with a minus.
      String pid = lines.isEmpty() ? "" : lines.getFirst().strip().replaceFirst("^-", "");
      String status = lines.size() > STATUS_LINE ? lines.get(STATUS_LINE).strip() : "";
      return new PidFile(pid.matches("\\d{1,18}") ? Long.parseLong(pid) : 0, status);
    } catch (NoSuchFileException _) {
      return new PidFile(0, "");
    }
  }

  boolean saysReady() {
    return pid > 0 && status.equals("ready");
  }

  boolean saysReady(long expectedPid) {
    return pid == expectedPid && status.equals("ready");
  }
}
