package dev.waybill.enqueue;

import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A job to be.
 *
 * @param payload JSON text
 * @param delay instead of runAt: counted from now by the database's clock
 * @param maxAttempts null for the kind's own
 */
public record NewJob(
    String kind,
    String payload,
    String tenant,
    int priority,
    @Nullable OffsetDateTime runAt,
    @Nullable Duration delay,
    @Nullable String dedupeKey,
    @Nullable Integer maxAttempts,
    List<String> tags,
    int payloadVersion,
    @Nullable String traceparent) {

  public NewJob {
    tags = List.copyOf(tags);
  }

  /** With nothing but kind and payload; the {@code with} methods add the rest. */
  public static NewJob of(String kind, String payload) {
    return new NewJob(kind, payload, "", 0, null, null, null, null, List.of(), 1, null);
  }

  public NewJob withTenant(String value) {
    return new NewJob(
        kind,
        payload,
        value,
        priority,
        runAt,
        delay,
        dedupeKey,
        maxAttempts,
        tags,
        payloadVersion,
        traceparent);
  }

  public NewJob withPriority(int value) {
    return new NewJob(
        kind,
        payload,
        tenant,
        value,
        runAt,
        delay,
        dedupeKey,
        maxAttempts,
        tags,
        payloadVersion,
        traceparent);
  }

  public NewJob withRunAt(OffsetDateTime value) {
    return new NewJob(
        kind,
        payload,
        tenant,
        priority,
        value,
        null,
        dedupeKey,
        maxAttempts,
        tags,
        payloadVersion,
        traceparent);
  }

  public NewJob withDelay(Duration value) {
    return new NewJob(
        kind,
        payload,
        tenant,
        priority,
        null,
        value,
        dedupeKey,
        maxAttempts,
        tags,
        payloadVersion,
        traceparent);
  }

  public NewJob withDedupeKey(String value) {
    return new NewJob(
        kind,
        payload,
        tenant,
        priority,
        runAt,
        delay,
        value,
        maxAttempts,
        tags,
        payloadVersion,
        traceparent);
  }

  public NewJob withMaxAttempts(int value) {
    return new NewJob(
        kind,
        payload,
        tenant,
        priority,
        runAt,
        delay,
        dedupeKey,
        value,
        tags,
        payloadVersion,
        traceparent);
  }

  public NewJob withTags(List<String> value) {
    return new NewJob(
        kind,
        payload,
        tenant,
        priority,
        runAt,
        delay,
        dedupeKey,
        maxAttempts,
        value,
        payloadVersion,
        traceparent);
  }

  public NewJob withTraceparent(@Nullable String value) {
    return new NewJob(
        kind,
        payload,
        tenant,
        priority,
        runAt,
        delay,
        dedupeKey,
        maxAttempts,
        tags,
        payloadVersion,
        value);
  }

  public NewJob withPayloadVersion(int value) {
    return new NewJob(
        kind,
        payload,
        tenant,
        priority,
        runAt,
        delay,
        dedupeKey,
        maxAttempts,
        tags,
        value,
        traceparent);
  }
}
