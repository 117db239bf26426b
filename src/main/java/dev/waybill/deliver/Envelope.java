package dev.waybill.deliver;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import dev.waybill.job.Claimed;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/** What is posted: the job, with its payload in it as it is stored. */
final class Envelope {

  private static final JsonFactory JSON = new JsonFactory();

  private Envelope() {}

  static byte[] of(Claimed job) {
    var bytes = new ByteArrayOutputStream(256 + job.payload().length());
    try (JsonGenerator json = JSON.createGenerator(bytes)) {
      json.writeStartObject();
      json.writeNumberField("id", job.id());
      json.writeStringField("kind", job.kind());
      json.writeStringField("tenant", job.tenant());
      json.writeNumberField("attempt", job.attempt());
      json.writeNumberField("maxAttempts", job.maxAttempts());
      json.writeNumberField("payloadVersion", job.payloadVersion());
      json.writeArrayFieldStart("tags");
      for (String tag : job.tags()) {
        json.writeString(tag);
      }
      json.writeEndArray();
      json.writeFieldName("payload");
      json.writeRawValue(job.payload());
      json.writeEndObject();
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
    return bytes.toByteArray();
  }
}
