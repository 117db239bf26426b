package dev.waybill.api;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** Versions as ETags: what a change was meant for is what it changes. */
final class ETags {

  private ETags() {}

  static String of(long version) {
    return "\"" + version + "\"";
  }

  /** Whether the header names this version, or anything. */
  static boolean names(String header, long version) {
    return Arrays.stream(header.split(",", -1))
        .map(String::strip)
        .map(tag -> tag.startsWith("W/") ? tag.substring(2) : tag)
        .anyMatch(tag ->
            tag.equals("*") || tag.equals(of(version)) || tag.equals(String.valueOf(version)));
  }

  /**
   * @param version 0: there is nothing yet
   * @param what that is or is not there
   * @throws Problem.Thrown when it is another than was asked for
   */
  static void check(
      long version, @Nullable String ifMatch, @Nullable String ifNoneMatch, String what) {
    if (ifMatch != null && (version == 0 || !names(ifMatch, version))) {
      throw Problem.precondition(
          "If-Match",
          version == 0
              ? "There is no " + what + " yet."
              : "Its ETag is " + of(version) + " by now.");
    }
    if (ifNoneMatch != null && version != 0 && names(ifNoneMatch, version)) {
      throw Problem.precondition(
          "If-None-Match", "There is a " + what + ", with the ETag " + of(version) + ".");
    }
  }
}
