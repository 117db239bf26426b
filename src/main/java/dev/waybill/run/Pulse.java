package dev.waybill.run;

import java.time.Duration;

/** Whether a loop turns, and whether it succeeds: the first is liveness, the second readiness. */
final class Pulse {

  private volatile long turnedNanos = System.nanoTime();
  private volatile long claimedNanos;
  private volatile boolean everClaimed;
  private volatile boolean failing;

  void turned() {
    turnedNanos = System.nanoTime();
  }

  void claimed() {
    claimedNanos = System.nanoTime();
    everClaimed = true;
    failing = false;
  }

  /** True for the first failure of a row: one line in the log, not one a second. */
  boolean failed() {
    boolean first = !failing;
    failing = true;
    return first;
  }

  boolean turnsWithin(Duration limit) {
    return System.nanoTime() - turnedNanos <= limit.toNanos();
  }

  boolean claimsWithin(Duration limit) {
    return everClaimed && System.nanoTime() - claimedNanos <= limit.toNanos();
  }
}
