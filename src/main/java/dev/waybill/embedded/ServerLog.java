package dev.waybill.embedded;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** What a server said. */
final class ServerLog {
  private ServerLog() {}

  private static final String BEGIN = "starting PostgreSQL";

  /** Bounds what is read of a day's log. */
  private static final int TAIL = 1 << 16;

  /** Of a start that failed: what it printed before it had its log, then its part of the log. */
  static String ofLastStart(DataDirectory data) throws IOException {
    String early = Files.readString(data.startLog());
    Path log = newest(data.cluster().resolve("log"));
    if (log == null) {
      return early;
    }
    String tail = tail(log);
    int begin = tail.lastIndexOf(BEGIN);
    return early + (begin < 0 ? "" : tail.substring(begin));
  }

  private static @Nullable Path newest(Path directory) throws IOException {
    if (!Files.isDirectory(directory)) {
      return null;
    }
    try (Stream<Path> files = Files.list(directory)) {
      return files
          .max((a, b) -> Long.compare(a.toFile().lastModified(), b.toFile().lastModified()))
          .orElse(null);
    }
  }

  private static String tail(Path file) throws IOException {
    try (var channel = Files.newByteChannel(file)) {
      channel.position(Math.max(0, channel.size() - TAIL));
      var buffer = ByteBuffer.allocate(TAIL);
      while (buffer.hasRemaining() && channel.read(buffer) >= 0) {
        // until the end of the file or the buffer
      }
      return StandardCharsets.UTF_8.decode(buffer.flip()).toString();
    }
  }
}
