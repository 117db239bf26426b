package dev.waybill.settle;

import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * An outcome on its way to the database.
 *
 * @param outcome never Settled, and never a Retry of the last attempt: that is a Dead by now
 * @param resultJson the result of a Done as JSON text, or null
 */
record Settlement(Claimed job, Outcome outcome, @Nullable String resultJson, Holder holder) {

  /**
   * The fence makes it safe to try for as long as one likes: once somebody has the job, nothing is
   * written. But the slot is taken meanwhile, and nobody may be reaping.
   */
  private static final long AFTER_LEASE_NANOS = TimeUnit.MINUTES.toNanos(10);

  boolean isHopeless() {
    return System.nanoTime() - holder.leaseEndNanos() >= AFTER_LEASE_NANOS;
  }

  Settlement instead(Outcome other) {
    return new Settlement(job, other, null, holder);
  }
}
