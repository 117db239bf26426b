package dev.waybill.retain;

import java.util.concurrent.TimeUnit;

/** Rests as long as the last step took, so that a long read takes half of a disk at most. */
final class Pace {

  private static final long REST_NANOS_MAX = TimeUnit.SECONDS.toNanos(2);

  private long stepNanos = System.nanoTime();

  /** After each step. An interrupt stays set, and ends the rest. */
  void rest() {
    sleep(Math.min(System.nanoTime() - stepNanos, REST_NANOS_MAX));
    stepNanos = System.nanoTime();
  }

  static void sleep(long nanos) {
    try {
      TimeUnit.NANOSECONDS.sleep(nanos);
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
  }
}
