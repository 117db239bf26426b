package dev.waybill.policy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import dev.waybill.job.Delivery;
import dev.waybill.job.Policy;
import java.net.URI;
import java.net.URISyntaxException;
import java.time.DateTimeException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Reads a policy as JSON, strictly: what it does not know it refuses by name. A field that is null
 * or left out is the default. The ranges are those of the columns of {@code waybill.kinds}, said
 * here by field.
 */
public final class PolicyReader {

  private static final Set<String> FIELDS =
      Set.of(
          "maxAttempts",
          "backoff",
          "lease",
          "timeout",
          "retention",
          "deadRetention",
          "tenantCap",
          "kindCap",
          "ratePerSecond",
          "paused",
          "delivery",
          "url",
          "secretRef",
          "archive");

  /** What an answer holds besides, so that an answer can be edited and sent back. */
  private static final Set<String> READ_ONLY =
      Set.of("kind", "version", "updatedAt", "defaults", "measured");

  private static final Set<String> BACKOFF_FIELDS = Set.of("base", "factor", "cap", "jitter");
  private static final Pattern SHORT = Pattern.compile("([0-9]{1,12})(ms|s|m|h|d)");
  private static final Pattern SECRET_REF = Pattern.compile("[A-Za-z0-9_.-]{1,128}");
  private static final int URL_MAX = 2_000;

  private final JsonNode body;
  private final JsonNode backoff;

  private PolicyReader(JsonNode body) {
    this.body = body;
    this.backoff = body.has("backoff") ? body.get("backoff") : MissingNode.getInstance();
  }

  public static OwnPolicy read(JsonNode body) throws BadPolicy {
    if (!body.isObject()) {
      throw new BadPolicy("policy", "A JSON object is expected.");
    }
    var reader = new PolicyReader(body);
    reader.refuseUnknown();
    return reader.policy();
  }

  private void refuseUnknown() throws BadPolicy {
    refuseUnknown(body, "", FIELDS);
    if (backoff.isObject()) {
      refuseUnknown(backoff, "backoff.", BACKOFF_FIELDS);
    } else if (!backoff.isMissingNode() && !backoff.isNull()) {
      throw new BadPolicy("backoff", "An object of base, factor, cap and jitter.");
    }
  }

  private static void refuseUnknown(JsonNode object, String path, Set<String> known)
      throws BadPolicy {
    for (Iterator<String> names = object.fieldNames(); names.hasNext(); ) {
      String name = names.next();
      if (!known.contains(name) && !(path.isEmpty() && READ_ONLY.contains(name))) {
        throw new BadPolicy(path + name, "It is no field of a policy.");
      }
    }
  }

  private OwnPolicy policy() throws BadPolicy {
    Policy or = Policy.DEFAULT;
    @Nullable String delivery = delivery();
    @Nullable String url = url();
    if ("http".equals(delivery) && url == null) {
      throw new BadPolicy("url", "Delivery http needs a URL to post to.");
    }
    return new OwnPolicy(
        own("maxAttempts", integer("maxAttempts", 1, 1_000), or.maxAttempts()),
        duration(backoff, "backoff.base", 0, 86_400_000L, or.backoff().base()),
        own("backoff.factor", decimal(backoff, "backoff.factor", 1, 100), or.backoff().factor()),
        duration(backoff, "backoff.cap", 0, 2_592_000_000L, or.backoff().cap()),
        own("backoff.jitter", bool(backoff, "backoff.jitter"), or.backoff().jitter()),
        duration(body, "lease", 1_000, 86_400_000L, or.lease()),
        duration(body, "timeout", 1, 2_592_000_000L, or.timeout()),
        duration(body, "retention", 0, 315_360_000_000L, or.retention()),
        duration(body, "deadRetention", 0, 315_360_000_000L, or.deadRetention()),
        integer("tenantCap", 1, Integer.MAX_VALUE),
        integer("kindCap", 1, Integer.MAX_VALUE),
        decimal(body, "ratePerSecond", 0.001, 1_000_000),
        bool(body, "paused"),
        own("delivery", delivery, or.delivery().word()),
        url,
        secretRef(),
        own("archive", bool(body, "archive"), or.archive()));
  }

  /** An answer that was sent back unchanged must not make an own value of each default. */
  private <T> @Nullable T own(String field, @Nullable T value, T or) {
    return value == null || (value.equals(or) && namedAsDefault(field)) ? null : value;
  }

  private boolean namedAsDefault(String field) {
    for (JsonNode name : body.path("defaults")) {
      if (name.asText().equals(field)) {
        return true;
      }
    }
    return false;
  }

  private static JsonNode at(JsonNode object, String field) {
    return object.path(field.substring(field.indexOf('.') + 1));
  }

  private static boolean absent(JsonNode value) {
    return value.isMissingNode() || value.isNull();
  }

  private @Nullable Integer integer(String field, int min, int max) throws BadPolicy {
    JsonNode value = body.path(field);
    if (absent(value)) {
      return null;
    }
    if (!value.isIntegralNumber()
        || !value.canConvertToInt()
        || value.intValue() < min
        || value.intValue() > max) {
      throw new BadPolicy(
          field,
          max == Integer.MAX_VALUE
              ? "A whole number of at least " + min + "."
              : "A whole number between " + min + " and " + max + ".");
    }
    return value.intValue();
  }

  private static @Nullable Double decimal(JsonNode object, String field, double min, double max)
      throws BadPolicy {
    JsonNode value = at(object, field);
    if (absent(value)) {
      return null;
    }
    if (!value.isNumber() || value.doubleValue() < min || value.doubleValue() > max) {
      throw new BadPolicy(field, "A number between " + min + " and " + max + ".");
    }
    return value.doubleValue();
  }

  private static @Nullable Boolean bool(JsonNode object, String field) throws BadPolicy {
    JsonNode value = at(object, field);
    if (absent(value)) {
      return null;
    }
    if (!value.isBoolean()) {
      throw new BadPolicy(field, "true or false.");
    }
    return value.booleanValue();
  }

  private @Nullable Duration duration(
      JsonNode object, String field, long minMillis, long maxMillis, Duration or) throws BadPolicy {
    JsonNode value = at(object, field);
    if (absent(value)) {
      return null;
    }
    @Nullable Duration read = duration(value);
    if (read == null) {
      throw new BadPolicy(
          field, "An ISO 8601 duration such as PT30S or P7D, a number of seconds, or 30s, 5m, 7d.");
    }
    if (read.compareTo(Duration.ofMillis(minMillis)) < 0
        || read.compareTo(Duration.ofMillis(maxMillis)) > 0) {
      throw new BadPolicy(
          field,
          "Between " + Duration.ofMillis(minMillis) + " and " + Duration.ofMillis(maxMillis) + ".");
    }
    return own(field, Duration.ofMillis(read.toMillis()), or);
  }

  private static @Nullable Duration duration(JsonNode value) {
    try {
      if (value.isNumber()) {
        return Math.abs(value.doubleValue()) > 1e12
            ? null
            : Duration.ofMillis(Math.round(value.doubleValue() * 1_000));
      }
      if (!value.isTextual()) {
        return null;
      }
      String text = value.textValue();
      Matcher shortForm = SHORT.matcher(text);
      return shortForm.matches() ? shortForm(shortForm) : Duration.parse(text);
    } catch (DateTimeException | ArithmeticException _) {
      return null;
    }
  }

  private static Duration shortForm(Matcher form) {
    long n = Long.parseLong(form.group(1));
    return switch (form.group(2)) {
      case "ms" -> Duration.ofMillis(n);
      case "s" -> Duration.ofSeconds(n);
      case "m" -> Duration.ofMinutes(n);
      case "h" -> Duration.ofHours(n);
      default -> Duration.ofDays(n);
    };
  }

  private @Nullable String text(String field) throws BadPolicy {
    JsonNode value = body.path(field);
    if (absent(value)) {
      return null;
    }
    if (!value.isTextual()) {
      throw new BadPolicy(field, "A string.");
    }
    return value.textValue();
  }

  private @Nullable String delivery() throws BadPolicy {
    @Nullable String word = text("delivery");
    List<String> words = Arrays.stream(Delivery.values()).map(Delivery::word).toList();
    if (word != null && !words.contains(word)) {
      throw new BadPolicy("delivery", "One of " + String.join(", ", words) + ".");
    }
    return word;
  }

  private @Nullable String url() throws BadPolicy {
    @Nullable String text = text("url");
    if (text == null) {
      return null;
    }
    try {
      var uri = new URI(text);
      @Nullable String scheme = uri.getScheme();
      if (text.length() <= URL_MAX
          && scheme != null
          && Set.of("http", "https").contains(scheme.toLowerCase(Locale.ROOT))
          && uri.getHost() != null
          && uri.getUserInfo() == null
          && uri.getFragment() == null) {
        return text;
      }
    } catch (URISyntaxException _) {
      // Said below.
    }
    throw new BadPolicy(
        "url", "An http or https URL of at most " + URL_MAX + " characters, without user or #.");
  }

  private @Nullable String secretRef() throws BadPolicy {
    @Nullable String name = text("secretRef");
    if (name != null && !SECRET_REF.matcher(name).matches()) {
      throw new BadPolicy(
          "secretRef", "The name of a secret: 1 to 128 letters, digits, '_', '.' or '-'.");
    }
    return name;
  }
}
