package dev.waybill.settle;

import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * An outcome on its way to the database.
 *
 * @param outcome never Settled, and never a Retry of the last attempt: that is a Dead by now
 * @param resultJson the result of a Done as JSON text, or null
 * @param leaseEndNanos when to give up, by nanoTime
 * @param told hears, exactly once, how it went
 */
record Settlement(
    Claimed job,
    Outcome outcome,
    @Nullable String resultJson,
    long leaseEndNanos,
    Consumer<Settled> told) {

  boolean leaseIsOver() {
    return System.nanoTime() - leaseEndNanos >= 0;
  }
}
