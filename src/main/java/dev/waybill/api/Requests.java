package dev.waybill.api;

import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.cfg.CoercionAction;
import com.fasterxml.jackson.databind.cfg.CoercionInputShape;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.type.LogicalType;
import dev.waybill.access.Caller;
import dev.waybill.enqueue.NewJob;
import dev.waybill.job.JsonText;
import dev.waybill.trace.TraceContext;
import jakarta.inject.Singleton;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.format.DateTimeParseException;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Reads bodies strictly: an unknown field, a duplicate key or a wrong type is refused by name, and
 * nothing is coerced.
 */
@Singleton
final class Requests {

  private static final int DEPTH_MAX = 70;

  /** PostgreSQL's numeric keeps no more digits after the point. */
  private static final int SCALE_MAX = 16_383;

  private final ObjectMapper mapper =
      JsonMapper.builder()
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
          .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
          .withCoercionConfig(
              LogicalType.Textual,
              c ->
                  c.setCoercion(CoercionInputShape.Integer, CoercionAction.Fail)
                      .setCoercion(CoercionInputShape.Float, CoercionAction.Fail)
                      .setCoercion(CoercionInputShape.Boolean, CoercionAction.Fail))
          .build();

  Requests() {
    mapper
        .getFactory()
        .setStreamReadConstraints(
            StreamReadConstraints.builder().maxNestingDepth(DEPTH_MAX).build());
  }

  NewJob newJob(byte[] body, Caller caller) {
    return newJob(read(body, EnqueueBody.class), caller, null);
  }

  NewJob newJob(byte[] body, Caller caller, @Nullable String traceparent) {
    return newJob(read(body, EnqueueBody.class), caller, traceparent);
  }

  /** The jobs of a batch, one after the other. */
  ObjectReader eachJob() {
    return mapper
        .readerFor(EnqueueBody.class)
        .without(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);
  }

  /** Any JSON, as strictly read. */
  JsonNode tree(byte[] body) {
    return read(body, JsonNode.class);
  }

  NewJob newJob(EnqueueBody read, Caller caller, @Nullable String traceparent) {
    if (read.kind() == null) {
      throw Problem.invalid("kind", "It is missing.");
    }
    if (read.runAt() != null && read.delay() != null) {
      throw Problem.invalid("delay", "Give runAt or delay, not both.");
    }
    caller.checkKind("kind", read.kind());
    return new NewJob(
        storable("kind", read.kind()),
        payload(read.payload()),
        storable("tenant", caller.tenantFor(read.tenant())),
        Objects.requireNonNullElse(read.priority(), 0),
        runAt(read.runAt()),
        duration("delay", read.delay()),
        read.dedupeKey() == null ? null : storable("dedupeKey", read.dedupeKey()),
        read.maxAttempts(),
        tags(read.tags()),
        Objects.requireNonNullElse(read.payloadVersion(), 1),
        TraceContext.parse(traceparent) == null ? null : traceparent);
  }

  <T> T read(byte[] body, Class<T> type) {
    try {
      @Nullable T read = mapper.readValue(body, type);
      if (read == null) {
        throw Problem.malformed("A JSON object is expected.");
      }
      return read;
    } catch (JsonProcessingException unreadable) {
      throw refused(unreadable);
    } catch (java.io.IOException _) {
      throw Problem.malformed("It is not UTF-8.");
    }
  }

  static Problem.Thrown refused(JsonProcessingException unreadable) {
    if (unreadable.getCause() instanceof Problem.Thrown limit) {
      return limit; // The body ran into its limit in the middle of a value.
    }
    if (unreadable instanceof JsonMappingException mismatch) {
      return mismatch.getPath().isEmpty()
          ? Problem.malformed("A JSON object is expected.")
          : Problem.invalid(
              path(mismatch), "It has the wrong type or format, or is no field of this request.");
    }
    if (unreadable instanceof JsonParseException twice
        && String.valueOf(twice.getOriginalMessage()).startsWith("Duplicate")) {
      return Problem.invalid(
          String.valueOf(twice.getProcessor().getParsingContext().getCurrentName()),
          "It is there twice.");
    }
    var at = unreadable.getLocation();
    return Problem.malformed(
        at == null
            ? "It is not JSON."
            : "See line " + at.getLineNr() + ", column " + at.getColumnNr() + ".");
  }

  /** As refusals by value name it: {@code filter.kind}, {@code outcomes[0].token}, {@code tags}. */
  private static String path(JsonMappingException mismatch) {
    var path = new StringBuilder();
    var index = new StringBuilder();
    for (JsonMappingException.Reference step : mismatch.getPath()) {
      if (step.getFieldName() == null) {
        index.append('[').append(step.getIndex()).append(']');
      } else {
        path.append(index).append(path.isEmpty() ? "" : ".").append(step.getFieldName());
        index.setLength(0);
      }
    }
    return path.toString();
  }

  String payload(@Nullable JsonNode payload) {
    return payload == null || payload.isMissingNode() ? "{}" : json("payload", payload);
  }

  /** As text that jsonb takes. */
  String json(String field, JsonNode node) {
    if (!numbersFit(node)) {
      throw Problem.invalid(
          field, "It holds a number that no double can hold; send it as a string.");
    }
    try {
      String json = storable(field, mapper.writeValueAsString(node));
      if (JsonText.holdsNul(json)) {
        throw Problem.invalid(field, "It holds U+0000.");
      }
      return json;
    } catch (JsonProcessingException _) {
      throw Problem.invalid(field, "It cannot be written as JSON.");
    }
  }

  /** What jsonb would refuse without a word about where: see numeric's limits. */
  private static boolean numbersFit(JsonNode node) {
    if (node.isBigDecimal() || node.isBigInteger()) {
      return Double.isFinite(node.doubleValue()) && node.decimalValue().scale() <= SCALE_MAX;
    }
    for (JsonNode child : node) {
      if (!numbersFit(child)) {
        return false;
      }
    }
    return true;
  }

  static @Nullable OffsetDateTime runAt(@Nullable String runAt) {
    if (runAt == null) {
      return null;
    }
    try {
      OffsetDateTime read = OffsetDateTime.parse(runAt);
      if (read.getYear() >= 0 && read.getYear() <= 9999) {
        return read;
      }
    } catch (DateTimeParseException _) {
      // Said below.
    }
    throw Problem.invalid(
        "runAt", "A date and time with its offset, such as 2030-01-31T08:00:00Z.");
  }

  private static List<String> tags(@Nullable List<@Nullable String> tags) {
    if (tags == null) {
      return List.of();
    }
    for (String tag : tags) {
      if (tag == null) {
        throw Problem.invalid("tags", "A tag is null.");
      }
      String _ = storable("tags", tag);
    }
    return List.copyOf(tags);
  }

  static @Nullable Duration duration(String field, @Nullable JsonNode said) {
    if (said == null || said.isNull()) {
      return null;
    }
    try {
      Duration read =
          said.isIntegralNumber() && said.canConvertToLong()
              ? Duration.ofSeconds(said.longValue())
              : Duration.parse(said.isTextual() ? said.textValue() : "");
      if (read.isNegative() || read.compareTo(Duration.ofDays(3653)) > 0) {
        throw Problem.invalid(field, "Between 0 and 10 years.");
      }
      return read;
    } catch (DateTimeException | ArithmeticException _) {
      throw Problem.invalid(
          field, "An ISO 8601 duration such as PT5M, or a whole number of seconds.");
    }
  }

  /**
   * PostgreSQL stores neither U+0000 nor half of a surrogate pair; said here by field, since there
   * it would be said by byte.
   */
  static String storable(String field, String text) {
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      boolean pair =
          Character.isHighSurrogate(c)
              && i + 1 < text.length()
              && Character.isLowSurrogate(text.charAt(i + 1));
      if (pair) {
        i++;
      } else if (Character.isSurrogate(c) || c == 0) {
        throw Problem.invalid(field, "It holds U+0000 or half of a surrogate pair.");
      }
    }
    return text;
  }
}
