package dev.waybill.job;

import java.time.Duration;

/** How jobs of one kind are treated. */
public record Policy(
    int maxAttempts,
    Backoff backoff,
    Duration lease,
    Duration timeout,
    Duration retention,
    boolean paused) {

  /** For a kind about which nobody said anything. */
  public static final Policy DEFAULT =
      new Policy(
          10,
          Backoff.DEFAULT,
          Duration.ofSeconds(30),
          Duration.ofMinutes(10),
          Duration.ofDays(7),
          false);

  /** A done job of such a kind leaves nothing behind. */
  public boolean keepsNothing() {
    return retention.isZero();
  }
}
