package dev.waybill.job;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How jobs of one kind are treated.
 *
 * @param retention how long a done or cancelled job is kept; zero: a done job is deleted at once
 * @param deadRetention how long a dead letter is kept
 * @param pushUrl where jobs are posted to, when {@code delivery} is {@link Delivery#HTTP}
 * @param pushSecret the name of the secret that signs them
 * @param archive write finished jobs to cold storage before they are dropped
 */
public record Policy(
    int maxAttempts,
    Backoff backoff,
    Duration lease,
    Duration timeout,
    Duration retention,
    Duration deadRetention,
    Caps caps,
    boolean paused,
    Delivery delivery,
    @Nullable String pushUrl,
    @Nullable String pushSecret,
    boolean archive) {

  /** For a kind about which nobody said anything. */
  public static final Policy DEFAULT =
      new Policy(
          10,
          Backoff.DEFAULT,
          Duration.ofSeconds(30),
          Duration.ofMinutes(10),
          Duration.ofDays(7),
          Duration.ofDays(30),
          Caps.NONE,
          false,
          Delivery.BEAN,
          null,
          null,
          false);

  /** A done job of such a kind leaves nothing behind. One that is archived stays until it was. */
  public boolean keepsNothing() {
    return retention.isZero() && !archive;
  }
}
