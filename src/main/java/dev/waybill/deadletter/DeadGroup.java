package dev.waybill.deadletter;

import java.time.OffsetDateTime;
import org.jspecify.annotations.Nullable;

/**
 * Dead letters of one kind that died of the same failure.
 *
 * @param sampleId the one that died last; null when it left between the count and the look
 */
public record DeadGroup(
    String kind,
    String fingerprint,
    long count,
    @Nullable OffsetDateTime first,
    @Nullable OffsetDateTime last,
    @Nullable Long sampleId,
    @Nullable String sampleError) {

  /** Where the next page goes on: groups are in the order of their counts. */
  public record After(long count, String kind, String fingerprint) {}
}
