package dev.waybill.deadletter;

import java.time.OffsetDateTime;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A dead letter as lists show it: without its payload and its history.
 *
 * @param position where the next page goes on behind it
 */
public record DeadLetter(
    long id,
    String kind,
    String tenant,
    int priority,
    int attempt,
    @Nullable Integer maxAttempts,
    int crashes,
    OffsetDateTime createdAt,
    OffsetDateTime diedAt,
    @Nullable String worker,
    String lastError,
    String fingerprint,
    List<String> tags,
    @Nullable String dedupeKey,
    Position position) {

  public DeadLetter {
    tags = List.copyOf(tags);
  }
}
