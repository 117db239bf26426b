package dev.waybill.run;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The free slots of a pool. Any thread gives them back; one takes them. While that one waits for
 * some it is woken once, when there are as many: a semaphore wakes it at each that comes.
 */
final class Slots {

  /** While nobody waits. */
  private static final int NONE_WANTED = Integer.MAX_VALUE;

  private final AtomicInteger free;
  private volatile int wanted = NONE_WANTED;
  private volatile @Nullable Thread taker;

  Slots(int all) {
    this.free = new AtomicInteger(all);
  }

  void giveBack(int slots) {
    int now = free.addAndGet(slots);
    // Read after the count was raised, as the taker reads the count after this was set.
    int enough = wanted;
    if (now >= enough && now - slots < enough) {
      LockSupport.unpark(taker);
    }
  }

  /** Whether so many came within the time. By the thread that takes. */
  boolean await(int slots, long time, TimeUnit unit) throws InterruptedException {
    if (free.get() >= slots) {
      return true;
    }
    long endNanos = System.nanoTime() + unit.toNanos(time);
    taker = Thread.currentThread();
    wanted = slots;
    try {
      while (free.get() < slots) {
        long leftNanos = endNanos - System.nanoTime();
        if (leftNanos <= 0) {
          return false;
        }
        LockSupport.parkNanos(this, leftNanos);
        if (Thread.interrupted()) {
          throw new InterruptedException();
        }
      }
      return true;
    } finally {
      wanted = NONE_WANTED;
    }
  }

  /** Takes what is free, up to so many; answers how many. */
  int take(int most) {
    int slots = Math.min(most, free.get()); // Others only add to it.
    int _ = free.addAndGet(-slots);
    return slots;
  }
}
