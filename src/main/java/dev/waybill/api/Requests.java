package dev.waybill.api;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.cfg.CoercionAction;
import com.fasterxml.jackson.databind.cfg.CoercionInputShape;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.type.LogicalType;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import dev.waybill.enqueue.NewJob;
import jakarta.inject.Singleton;
import java.time.DateTimeException;
import java.time.Duration;
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

  private final ObjectMapper mapper =
      JsonMapper.builder()
          .addModule(new JavaTimeModule())
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
          .disable(DeserializationFeature.ADJUST_DATES_TO_CONTEXT_TIME_ZONE)
          .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
          .withCoercionConfig(
              LogicalType.Textual,
              c ->
                  c.setCoercion(CoercionInputShape.Integer, CoercionAction.Fail)
                      .setCoercion(CoercionInputShape.Float, CoercionAction.Fail)
                      .setCoercion(CoercionInputShape.Boolean, CoercionAction.Fail))
          .withCoercionConfig(
              LogicalType.DateTime,
              c -> c.setCoercion(CoercionInputShape.Integer, CoercionAction.Fail))
          .build();

  Requests() {
    mapper
        .getFactory()
        .setStreamReadConstraints(
            StreamReadConstraints.builder().maxNestingDepth(DEPTH_MAX).build());
  }

  NewJob newJob(byte[] body) {
    EnqueueBody read = read(body, EnqueueBody.class);
    if (read.kind() == null) {
      throw Problem.invalid("kind", "It is missing.");
    }
    if (read.runAt() != null && read.delay() != null) {
      throw Problem.invalid("delay", "Give runAt or delay, not both.");
    }
    return new NewJob(
        storable("kind", read.kind()),
        payload(read.payload()),
        storable("tenant", Objects.requireNonNullElse(read.tenant(), "")),
        Objects.requireNonNullElse(read.priority(), 0),
        read.runAt(),
        delay(read.delay()),
        read.dedupeKey() == null ? null : storable("dedupeKey", read.dedupeKey()),
        read.maxAttempts(),
        tags(read.tags()),
        Objects.requireNonNullElse(read.payloadVersion(), 1),
        null);
  }

  private <T> T read(byte[] body, Class<T> type) {
    try {
      @Nullable T read = mapper.readValue(body, type);
      if (read == null) {
        throw Problem.malformed("A JSON object is expected.");
      }
      return read;
    } catch (JsonMappingException mismatch) {
      throw mismatch.getPath().isEmpty()
          ? Problem.malformed("A JSON object is expected.")
          : Problem.invalid(
              path(mismatch), "It has the wrong type or format, or is no field of this request.");
    } catch (JsonProcessingException unreadable) {
      var at = unreadable.getLocation();
      throw Problem.malformed(
          at == null
              ? "It is not JSON."
              : "See line " + at.getLineNr() + ", column " + at.getColumnNr() + ".");
    } catch (java.io.IOException _) {
      throw Problem.malformed("It is not UTF-8.");
    }
  }

  private static String path(JsonMappingException mismatch) {
    return String.valueOf(mismatch.getPath().getFirst().getFieldName());
  }

  private String payload(@Nullable JsonNode payload) {
    if (payload == null || payload.isMissingNode()) {
      return "{}";
    }
    try {
      return storable("payload", mapper.writeValueAsString(payload));
    } catch (JsonProcessingException _) {
      throw Problem.invalid("payload", "It cannot be written as JSON.");
    }
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

  private static @Nullable Duration delay(@Nullable JsonNode delay) {
    if (delay == null || delay.isNull()) {
      return null;
    }
    try {
      Duration read =
          delay.isIntegralNumber() && delay.canConvertToLong()
              ? Duration.ofSeconds(delay.longValue())
              : Duration.parse(delay.isTextual() ? delay.textValue() : "");
      if (read.isNegative() || read.compareTo(Duration.ofDays(3653)) > 0) {
        throw Problem.invalid("delay", "Between 0 and 10 years.");
      }
      return read;
    } catch (DateTimeException | ArithmeticException _) {
      throw Problem.invalid("delay", "An ISO 8601 duration such as PT5M, or a number of seconds.");
    }
  }

  /**
   * PostgreSQL stores neither U+0000 nor half of a surrogate pair; said here by field, since there
   * it would be said by byte.
   */
  private static String storable(String field, String text) {
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
    if (text.contains("\\u0000")) {
      throw Problem.invalid(field, "It holds U+0000.");
    }
    return text;
  }
}
