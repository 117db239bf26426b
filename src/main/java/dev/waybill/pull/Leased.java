package dev.waybill.pull;

import dev.waybill.job.Claimed;
import java.time.OffsetDateTime;
import java.util.UUID;

/**
 * A job for a worker elsewhere.
 *
 * @param token proves the lease; not that of the claim, which jobs of other workers share
 */
public record Leased(Claimed job, UUID token, OffsetDateTime leaseUntil) {

  /** The job as its new token knows it. */
  Claimed held() {
    return job.withToken(token);
  }
}
