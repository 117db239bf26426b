package dev.waybill.trace;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** {@code name=value,name=value}, as OpenTelemetry's variables have it. */
final class Pairs {

  private Pairs() {}

  static Map<String, String> read(String variable, String text) {
    var pairs = new LinkedHashMap<String, String>();
    for (String part : text.split(",", -1)) {
      if (part.isBlank()) {
        continue;
      }
      int equals = part.indexOf('=');
      if (equals < 1) {
        // Not quoted: a header may be a secret.
        throw new IllegalArgumentException(
            variable + ": a part of it is not name=value; right would be name=value,other=value");
      }
      pairs.put(
          part.substring(0, equals).strip(), decoded(variable, part.substring(equals + 1).strip()));
    }
    return pairs;
  }

  private static String decoded(String variable, String value) {
    try {
      return URLDecoder.decode(value.replace("+", "%2B"), StandardCharsets.UTF_8);
    } catch (IllegalArgumentException _) {
      // Its message quotes.
      throw new IllegalArgumentException(
          variable + ": a % in it is not followed by two digits; right would be %25 for a %");
    }
  }
}
