package dev.waybill.job;

import java.time.Duration;

/**
 * How long a failed job waits: {@code base * factor^(attempt - 1)}, at most {@code cap}; with
 * jitter a random part of that ("full jitter"), so that jobs that failed together do not come back
 * together. The database computes it, from its own clock.
 */
public record Backoff(Duration base, double factor, Duration cap, boolean jitter) {

  public static final Backoff DEFAULT =
      new Backoff(Duration.ofSeconds(5), 3.0, Duration.ofHours(1), true);
}
