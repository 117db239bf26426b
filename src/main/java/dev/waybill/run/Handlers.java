package dev.waybill.run;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import io.quarkus.arc.All;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** The handlers of this build, by kind. */
@Singleton
final class Handlers {

  /**
   * @param reader of that type: it looks nothing up at each job
   */
  private record Entry(JobHandler<?> handler, JavaType payload, ObjectReader reader) {}

  private record Step(String kind, int fromVersion) {}

  /**
   * The payload has a version that no chain of upcasters lifts to the handler's, or a field of it
   * cannot be read.
   */
  private static final class Unreadable extends Exception {
    private static final long serialVersionUID = 1L;

    Unreadable(String message) {
      super(message);
    }
  }

  private final ObjectMapper mapper;
  private final Map<String, Entry> byKind = new TreeMap<>();
  private final Map<Step, Upcaster> upcasters = new HashMap<>();

  @Inject
  Handlers(@All List<JobHandler<?>> handlers, @All List<Upcaster> upcasters, ObjectMapper shared) {
    // Producers are deployed on their own: a payload may have more fields than this build knows of.
    mapper = shared.copy().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    for (JobHandler<?> handler : handlers) {
      if (byKind.put(handler.kind(), entry(handler)) != null) {
        throw new IllegalStateException("two handlers for the kind " + handler.kind());
      }
    }
    for (Upcaster upcaster : upcasters) {
      var step = new Step(upcaster.kind(), upcaster.fromVersion());
      if (this.upcasters.put(step, upcaster) != null) {
        throw new IllegalStateException("two upcasters for " + step);
      }
    }
  }

  /** Every kind, with the newest payload version that its handler reads. */
  Map<String, Integer> kinds() {
    var kinds = new TreeMap<String, Integer>();
    byKind.forEach((kind, entry) -> kinds.put(kind, entry.handler().payloadVersion()));
    return kinds;
  }

  /**
   * Calls the handler. A payload that cannot be read makes a dead letter: trying again would read
   * the same.
   */
  Outcome run(Claimed job, JobContext context) throws Exception {
    @Nullable Entry entry = byKind.get(job.kind());
    if (entry == null) {
      return new Outcome.Release();
    }
    return call(entry.handler(), entry, job, context);
  }

  @SuppressWarnings("unchecked") // The entry holds the handler's own payload type.
  private <P> Outcome call(JobHandler<P> handler, Entry entry, Claimed job, JobContext context)
      throws Exception {
    P payload;
    try {
      payload = (P) read(job, handler.payloadVersion(), entry);
    } catch (Unreadable unreadable) {
      return Outcome.dead(String.valueOf(unreadable.getMessage()));
    }
    // Written without null checks, a handler may forget to return one; unseen, it would cost the
    // slot.
    @Nullable Outcome outcome = handler.run(payload, context);
    return outcome == null ? Outcome.retry("the handler returned null") : outcome;
  }

  private Object read(Claimed job, int version, Entry entry) throws Unreadable {
    JavaType type = entry.payload();
    try {
      if (job.payloadVersion() < version) {
        JsonNode lifted = lift(job, mapper.readTree(job.payload()), version);
        return type.hasRawClass(String.class)
            ? lifted.toString()
            : mapper.convertValue(lifted, type);
      }
      if (type.hasRawClass(String.class)) {
        return job.payload();
      }
      @Nullable Object payload = entry.reader().readValue(job.payload());
      if (payload == null) {
        throw new Unreadable("the payload is null, and no " + type.getRawClass().getSimpleName());
      }
      return payload;
    } catch (JsonProcessingException | IllegalArgumentException refused) {
      Throwable cause = refused instanceof IllegalArgumentException ? refused.getCause() : refused;
      throw new Unreadable(
          "the payload is no " + type.getRawClass().getSimpleName() + where(cause));
    }
  }

  private JsonNode lift(Claimed job, JsonNode payload, int toVersion) throws Unreadable {
    JsonNode lifted = payload;
    for (int version = job.payloadVersion(); version < toVersion; version++) {
      @Nullable Upcaster upcaster = upcasters.get(new Step(job.kind(), version));
      if (upcaster == null) {
        throw new Unreadable("nothing lifts the payload from version " + version);
      }
      lifted = upcaster.lift(lifted);
    }
    return lifted;
  }

  /** Names the field, never the value: no payload in an error text. */
  private static String where(@Nullable Throwable refused) {
    if (refused instanceof JsonMappingException mapping && !mapping.getPath().isEmpty()) {
      @Nullable String field = mapping.getPath().getLast().getFieldName();
      return field == null ? "" : ": see its field " + field;
    }
    return "";
  }

  private Entry entry(JobHandler<?> handler) {
    JavaType type = payloadType(handler);
    // Ignored by the mapper anyway, but read and kept until the record is made: said of the type,
    // they are skipped.
    mapper
        .configOverride(type.getRawClass())
        .setIgnorals(JsonIgnoreProperties.Value.forIgnoreUnknown(true));
    return new Entry(handler, type, mapper.readerFor(type));
  }

  private JavaType payloadType(JobHandler<?> handler) {
    JavaType[] parameters =
        mapper.constructType(handler.getClass()).findTypeParameters(JobHandler.class);
    return parameters.length == 0 || parameters[0].hasRawClass(Object.class)
        ? mapper.constructType(JsonNode.class)
        : parameters[0];
  }
}
