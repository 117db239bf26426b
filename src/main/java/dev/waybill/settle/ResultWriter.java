package dev.waybill.settle;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.waybill.job.JsonText;
import jakarta.inject.Singleton;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/** Turns a handler's result into JSON text that PostgreSQL takes. */
@Singleton
public final class ResultWriter {

  private static final int BYTES_MAX = 262_144;

  /**
   * The result is not JSON, is too large, or holds what jsonb cannot. The message never quotes it.
   */
  public static final class NotStorable extends Exception {
    private static final long serialVersionUID = 1L;

    NotStorable(String message) {
      super(message);
    }
  }

  private final ObjectMapper mapper;

  public ResultWriter(ObjectMapper mapper) {
    this.mapper = mapper;
  }

  @Nullable String json(@Nullable Object result) throws NotStorable {
    if (result == null) {
      return null;
    }
    String json;
    try {
      json = mapper.writeValueAsString(result);
    } catch (JsonProcessingException | RuntimeException | Error refused) {
      // An Error of a handler's getter is the handler's failure; here it would cost the slot.
      throw new NotStorable(
          "it cannot be written as JSON (" + refused.getClass().getSimpleName() + ")");
    }
    if (JsonText.holdsNul(json)) {
      throw new NotStorable("it holds the character U+0000");
    }
    if (json.getBytes(StandardCharsets.UTF_8).length > BYTES_MAX) {
      throw new NotStorable("it is larger than " + BYTES_MAX + " bytes");
    }
    return json;
  }
}
