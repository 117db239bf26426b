package dev.waybill.job;

import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * One attempt that this process holds the lease of.
 *
 * @param attempt the number of this attempt, from 1
 * @param exhausted the job had no attempt left when it was claimed (its limit was lowered
 *     meanwhile): bury it, do not run it
 * @param token proves the lease; every write by the holder is checked against it
 * @param payload JSON text
 * @param pickupMicros how long the job had been ready when it was claimed, by the database's clock
 * @param leaseMillis how long a lease of this job is
 * @param leaseEndNanos when the lease ends by {@link System#nanoTime}, measured from before the
 *     claim was sent: never too late
 */
public record Claimed(
    long id,
    String kind,
    String tenant,
    int priority,
    int attempt,
    int maxAttempts,
    boolean exhausted,
    UUID token,
    String payload,
    int payloadVersion,
    List<String> tags,
    @Nullable String traceparent,
    long pickupMicros,
    long leaseMillis,
    long leaseEndNanos) {

  public boolean lastAttempt() {
    return attempt >= maxAttempts;
  }

  /** The same attempt, proven by another token. */
  public Claimed withToken(UUID other) {
    return new Claimed(
        id,
        kind,
        tenant,
        priority,
        attempt,
        maxAttempts,
        exhausted,
        other,
        payload,
        payloadVersion,
        tags,
        traceparent,
        pickupMicros,
        leaseMillis,
        leaseEndNanos);
  }

  /** Without the payload, which belongs in no log. */
  @Override
  public String toString() {
    return "job=" + id + " kind=" + kind + " attempt=" + attempt;
  }
}
