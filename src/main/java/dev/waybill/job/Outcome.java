package dev.waybill.job;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** How an attempt ends. A handler returns one; a handler that throws is retried. */
public sealed interface Outcome {

  /**
   * The work is done.
   *
   * @param result kept with the job: a value that Jackson can write, or null
   */
  record Done(@Nullable Object result) implements Outcome {}

  /**
   * The work failed and shall be tried again; on the last attempt the job becomes a dead letter.
   *
   * @param delay how long to wait, or null for the kind's backoff
   */
  record Retry(@Nullable Duration delay, String reason) implements Outcome {
    public Retry {
      delay = delay == null ? null : bounded(delay);
    }
  }

  /** Nothing failed, it is just too early. Burns no attempt. */
  record Snooze(Duration delay) implements Outcome {
    public Snooze {
      delay = bounded(delay);
    }
  }

  /** Another worker shall have it, now. Burns no attempt. */
  record Release() implements Outcome {}

  /** Trying again is of no use. */
  record Dead(String reason) implements Outcome {}

  /** The handler settled the job in its own transaction, see {@code JobContext.settleIn}. */
  record Settled() implements Outcome {}

  /** No job waits longer: a wait that no timestamp can hold would spoil the batch it settles in. */
  Duration DELAY_MAX = Duration.ofDays(3_650);

  private static Duration bounded(Duration delay) {
    if (delay.isNegative()) {
      return Duration.ZERO;
    }
    return delay.compareTo(DELAY_MAX) > 0 ? DELAY_MAX : delay;
  }

  static Outcome done() {
    return new Done(null);
  }

  static Outcome done(@Nullable Object result) {
    return new Done(result);
  }

  static Outcome retry(String reason) {
    return new Retry(null, reason);
  }

  static Outcome retry(Duration delay, String reason) {
    return new Retry(delay, reason);
  }

  static Outcome snooze(Duration delay) {
    return new Snooze(delay);
  }

  static Outcome dead(String reason) {
    return new Dead(reason);
  }

  /** The word for it in metrics, in the history of attempts, and on the pull door. */
  default String word() {
    return switch (this) {
      case Done _, Settled _ -> "done";
      case Retry _ -> "retry";
      case Snooze _ -> "snooze";
      case Release _ -> "release";
      case Dead _ -> "dead";
    };
  }
}
