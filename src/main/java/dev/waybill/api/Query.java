package dev.waybill.api;

import jakarta.ws.rs.core.UriInfo;
import java.time.OffsetDateTime;
import java.time.format.DateTimeParseException;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Reads the parameters of a list, as strictly as bodies are read: a filter that is misspelt and
 * passed by would show what was not asked for.
 */
final class Query {

  private static final Pattern KIND = Pattern.compile("[a-z][a-z0-9_.-]{0,63}");
  private static final Pattern FINGERPRINT = Pattern.compile("[0-9a-f]{16}");
  private static final int TENANT_MAX = 128;

  private Query() {}

  static void only(UriInfo uri, Set<String> known) {
    uri.getQueryParameters()
        .forEach((name, values) -> {
          if (!known.contains(name)) {
            throw Problem.invalid(name, "There is no such parameter here.");
          }
          if (values.size() > 1) {
            throw Problem.invalid(name, "It is there twice.");
          }
        });
  }

  static int limit(@Nullable String text, int otherwise, int max) {
    if (text == null) {
      return otherwise;
    }
    try {
      int limit = Integer.parseInt(text);
      if (limit >= 1 && limit <= max) {
        return limit;
      }
    } catch (NumberFormatException _) {
      // Said below.
    }
    throw Problem.invalid("limit", "A number from 1 to " + max + ".");
  }

  static long id(String text) {
    @Nullable Long id = number("id", text);
    if (id == null) {
      throw Problem.invalid("id", "It is missing.");
    }
    return id;
  }

  static @Nullable Long number(String field, @Nullable String text) {
    if (text == null) {
      return null;
    }
    try {
      return Long.valueOf(text);
    } catch (NumberFormatException _) {
      throw Problem.invalid(field, "It is no number.");
    }
  }

  static @Nullable String kind(String field, @Nullable String text) {
    return matching(field, text, KIND, "A kind, such as email.");
  }

  static boolean isKind(String text) {
    return KIND.matcher(text).matches();
  }

  static @Nullable String fingerprint(String field, @Nullable String text) {
    return matching(field, text, FINGERPRINT, "16 hexadecimal digits, as groups show them.");
  }

  private static @Nullable String matching(
      String field, @Nullable String text, Pattern pattern, String right) {
    if (text != null && !pattern.matcher(text).matches()) {
      throw Problem.invalid(field, right);
    }
    return text;
  }

  static @Nullable String tenant(String field, @Nullable String text) {
    if (text != null && text.length() > TENANT_MAX) {
      throw Problem.invalid(field, "A tenant is at most " + TENANT_MAX + " characters.");
    }
    return text == null ? null : Requests.storable(field, text);
  }

  static @Nullable OffsetDateTime time(String field, @Nullable String text) {
    if (text == null) {
      return null;
    }
    try {
      OffsetDateTime read = OffsetDateTime.parse(text);
      if (read.getYear() >= 0 && read.getYear() <= 9999) {
        return read;
      }
    } catch (DateTimeParseException _) {
      // Said below.
    }
    throw Problem.invalid(field, "A date and time with its offset, such as 2030-01-31T08:00:00Z.");
  }
}
