package dev.waybill.retain;

/** So many times as long as the work took: however dear it gets, it has no more of the time. */
final class Rest {

  private final int times;
  private volatile long untilNanos = System.nanoTime();

  Rest(int times) {
    this.times = times;
  }

  boolean isOver() {
    return System.nanoTime() - untilNanos >= 0;
  }

  /** After work that began then. */
  void begin(long workBeganNanos) {
    long now = System.nanoTime();
    untilNanos = now + times * (now - workBeganNanos);
  }
}
