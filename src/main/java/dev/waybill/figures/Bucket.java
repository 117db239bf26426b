package dev.waybill.figures;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * Durations in buckets: four to each power of two of microseconds, so a bucket's upper end is at
 * most a quarter above anything in it. The numbers are stored, and may not change their meaning.
 */
final class Bucket {

  private static final int PARTS = 4;
  private static final int PART_BITS = 2;

  /** 2^43 us: three months, longer than any time limit. */
  static final int COUNT = PARTS * 43;

  /** Shorter ones are all the same. */
  private static final long MICROS_MIN = PARTS;

  private Bucket() {}

  static int of(long nanos) {
    long micros = Math.max(MICROS_MIN, TimeUnit.NANOSECONDS.toMicros(nanos));
    int power = Long.SIZE - 1 - Long.numberOfLeadingZeros(micros);
    int part = (int) (micros >>> (power - PART_BITS)) & (PARTS - 1);
    return Math.min(COUNT - 1, PARTS * power + part);
  }

  /** Nothing in it took longer; but for the last one. */
  static Duration end(int bucket) {
    long step = 1L << (bucket / PARTS - PART_BITS);
    long micros = step * (PARTS + bucket % PARTS + 1);
    return Duration.ofNanos(TimeUnit.MICROSECONDS.toNanos(micros));
  }
}
