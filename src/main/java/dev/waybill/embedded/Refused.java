package dev.waybill.embedded;

import java.io.IOException;
import java.io.Serial;
import java.nio.file.AccessDeniedException;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The embedded database cannot start. The message is one line for the user: what is wrong and what
 * to do.
 */
public final class Refused extends Exception {
  private static final String DISK_FULL = "No space left on device";
  private static final Pattern FATAL = Pattern.compile("\\b(FATAL|PANIC|error): ");
  private static final Pattern SEVERITY = Pattern.compile("^.*?\\b(LOG|FATAL|PANIC|error): ");

  @Serial private static final long serialVersionUID = 1;

  Refused(String message) {
    this(message, null);
  }

  Refused(String message, @Nullable Throwable cause) {
    super(message.strip().replaceAll("\\s*\\R\\s*", " "), cause);
  }

  /** What the user can do about a failed access to the directory. */
  static Refused of(Path directory, IOException cause) {
    String said = String.valueOf(cause.getMessage());
    if (cause instanceof AccessDeniedException
        || said.contains("Permission denied")
        || said.contains("Read-only file system")
        || said.contains("Operation not permitted")) {
      return new Refused(
          "cannot write to the data directory "
              + directory
              + ": let the current user write there, or set WAYBILL_DATA to another one ("
              + said
              + ")",
          cause);
    }
    return said.contains(DISK_FULL)
        ? diskFull(directory, cause)
        : new Refused("cannot use the data directory " + directory + ": " + cause, cause);
  }

  /** As {@link #of(Path, IOException)}, for what a PostgreSQL program printed before it failed. */
  static Refused of(Path directory, String what, String printed) {
    return printed.contains(DISK_FULL)
        ? diskFull(directory, null)
        : new Refused(what + " in the data directory " + directory + ": " + gist(printed));
  }

  private static Refused diskFull(Path directory, @Nullable Throwable cause) {
    return new Refused(
        "no space left for the database in the data directory "
            + directory
            + ": free some space on that disk and start again",
        cause);
  }

  /**
   * The part of a program's output that says why: its first fatal line, with the one before, which
   * names the setting or the file; else its last line.
   */
  static String gist(String printed) {
    List<String> lines = printed.lines().filter(line -> !line.isBlank()).toList();
    String before = "";
    for (String line : lines) {
      if (FATAL.matcher(line).find()) {
        return before + message(line);
      }
      before = line.contains(" LOG: ") ? message(line) + "; " : "";
    }
    return lines.isEmpty() ? "it said nothing" : message(lines.getLast());
  }

  private static String message(String line) {
    return SEVERITY.matcher(line).replaceFirst("").strip();
  }
}
