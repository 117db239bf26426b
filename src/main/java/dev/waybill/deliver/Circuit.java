package dev.waybill.deliver;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Whether a target is up. After some failures in a row it is left alone for a while, twice as long
 * each time; then one post tries it. Failures are those that say something of the target and not of
 * the job: no connection, no answer in time, 429, 502, 503, 504.
 */
final class Circuit {

  private static final int FAILURES_MAX = 5;
  private static final long PAUSE_MILLIS_MIN = 5_000;
  private static final long PAUSE_MILLIS_MAX = 300_000;

  private final long pauseMillisMin;
  private int failures;
  private int pauses;
  private boolean trying;
  private long openUntilNanos;

  Circuit() {
    this(PAUSE_MILLIS_MIN);
  }

  Circuit(long pauseMillisMin) {
    this.pauseMillisMin = pauseMillisMin;
  }

  /** How many posts may be begun beside those in hand. */
  synchronized int room(int concurrency, int inHand) {
    if (failures < FAILURES_MAX) {
      return Math.max(0, concurrency - inHand);
    }
    return millisLeft() > 0 || inHand > 0 ? 0 : 1;
  }

  /** 0: go on. Otherwise how long to stay away; nothing was begun. */
  synchronized long begin() {
    if (failures < FAILURES_MAX) {
      return 0;
    }
    long left = millisLeft();
    if (left > 0) {
      return left;
    }
    if (trying) {
      return pauseMillisMin;
    }
    trying = true;
    return 0;
  }

  private long millisLeft() {
    return Math.max(0, TimeUnit.NANOSECONDS.toMillis(openUntilNanos - System.nanoTime()));
  }

  /** True when it was down and is up again. */
  synchronized boolean succeeded() {
    boolean wasDown = failures >= FAILURES_MAX;
    failures = 0;
    pauses = 0;
    trying = false;
    return wasDown;
  }

  /** How many milliseconds the target is left alone from now on, when this made it so; or 0. */
  synchronized long failed() {
    trying = false;
    failures = Math.min(FAILURES_MAX, failures + 1);
    if (failures < FAILURES_MAX || millisLeft() > 0) {
      return 0;
    }
    long pause = Math.min(PAUSE_MILLIS_MAX, pauseMillisMin << Math.min(pauses++, 10));
    pause = pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2 + 1);
    openUntilNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause);
    return pause;
  }

  /** It ended without a word about the target: interrupted, or refused. */
  synchronized void ended() {
    trying = false;
  }
}
