package dev.waybill.trace;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** OTLP's {@code ExportTraceServiceRequest} as JSON. */
final class Otlp {

  private static final JsonFactory JSON = new JsonFactory();
  private static final int STATUS_ERROR = 2;

  private Otlp() {}

  static byte[] write(Resource resource, List<Span> spans) throws IOException {
    var out = new ByteArrayOutputStream(512 * spans.size());
    try (JsonGenerator json = JSON.createGenerator(out)) {
      json.writeStartObject();
      json.writeArrayFieldStart("resourceSpans");
      json.writeStartObject();
      json.writeObjectFieldStart("resource");
      attributes(json, resource.attributes());
      json.writeEndObject();
      json.writeArrayFieldStart("scopeSpans");
      json.writeStartObject();
      json.writeObjectFieldStart("scope");
      json.writeStringField("name", "dev.waybill");
      json.writeStringField("version", resource.version());
      json.writeEndObject();
      json.writeArrayFieldStart("spans");
      for (Span span : spans) {
        write(json, span);
      }
      json.writeEndArray();
      json.writeEndObject();
      json.writeEndArray();
      json.writeEndObject();
      json.writeEndArray();
      json.writeEndObject();
    }
    return out.toByteArray();
  }

  private static void write(JsonGenerator json, Span span) throws IOException {
    json.writeStartObject();
    json.writeStringField("traceId", span.context().traceId());
    json.writeStringField("spanId", span.context().spanId());
    @Nullable TraceContext parent = span.parent();
    if (parent != null) {
      json.writeStringField("parentSpanId", parent.spanId());
    }
    json.writeStringField("name", span.name());
    json.writeNumberField("kind", span.kind().number());
    // 64-bit numbers are strings in protobuf's JSON.
    json.writeStringField("startTimeUnixNano", String.valueOf(span.beginMicros() * 1_000));
    json.writeStringField("endTimeUnixNano", String.valueOf(span.endNanosOfEpoch()));
    attributes(json, span.attributes());
    if (span.hasFailed()) {
      json.writeObjectFieldStart("status");
      json.writeNumberField("code", STATUS_ERROR);
      json.writeEndObject();
    }
    json.writeEndObject();
  }

  private static void attributes(JsonGenerator json, Map<String, ?> attributes) throws IOException {
    json.writeArrayFieldStart("attributes");
    for (Map.Entry<String, ?> one : attributes.entrySet()) {
      json.writeStartObject();
      json.writeStringField("key", one.getKey());
      json.writeObjectFieldStart("value");
      if (one.getValue() instanceof Long number) {
        json.writeStringField("intValue", String.valueOf(number));
      } else {
        json.writeStringField("stringValue", String.valueOf(one.getValue()));
      }
      json.writeEndObject();
      json.writeEndObject();
    }
    json.writeEndArray();
  }
}
