package dev.waybill.trace;

import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Where in which trace something happens, as W3C's {@code traceparent} has it.
 *
 * @param traceId 32 lower-case hexadecimal digits
 * @param spanId 16 of them
 */
public record TraceContext(String traceId, String spanId, boolean sampled) {

  private static final Pattern FORM =
      Pattern.compile("(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}");

  /** Null for what is no traceparent: then there is none. */
  public static @Nullable TraceContext parse(@Nullable String text) {
    if (text == null || !FORM.matcher(text).matches()) {
      return null;
    }
    boolean sampled = (Character.digit(text.charAt(54), 16) & 1) == 1;
    return new TraceContext(text.substring(3, 35), text.substring(36, 52), sampled);
  }

  static TraceContext root(boolean sampled) {
    return new TraceContext(hex() + hex(), hex(), sampled);
  }

  TraceContext child() {
    return new TraceContext(traceId, hex(), sampled);
  }

  /** For the next one on the way. */
  public String traceparent() {
    return "00-" + traceId + "-" + spanId + (sampled ? "-01" : "-00");
  }

  private static String hex() {
    long random;
    do {
      random = ThreadLocalRandom.current().nextLong();
    } while (random == 0);
    String digits = Long.toHexString(random);
    return "0".repeat(16 - digits.length()) + digits;
  }
}
