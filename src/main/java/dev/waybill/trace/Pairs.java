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
          part.substring(0, equals).strip(),
          URLDecoder.decode(
              part.substring(equals + 1).strip().replace("+", "%2B"), StandardCharsets.UTF_8));
    }
    return pairs;
  }
}
