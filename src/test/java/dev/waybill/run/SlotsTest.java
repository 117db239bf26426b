package dev.waybill.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class SlotsTest {

  @Test
  void takes_what_is_free_and_no_more() {
    var slots = new Slots(5);
    assertEquals(3, slots.take(3));
    assertEquals(2, slots.take(3));
    assertEquals(0, slots.take(3));
    slots.giveBack(4);
    assertEquals(4, slots.take(10));
  }

  @Test
  void waits_in_vain_for_more_than_come() throws InterruptedException {
    var slots = new Slots(1);
    assertTrue(slots.await(1, 1, TimeUnit.MINUTES));
    assertFalse(slots.await(2, 10, TimeUnit.MILLISECONDS));
    assertEquals(1, slots.take(2));
  }

  @Test
  void an_interrupt_ends_the_wait() {
    var slots = new Slots(0);
    Thread.currentThread().interrupt();
    assertThrows(InterruptedException.class, () -> slots.await(1, 1, TimeUnit.MINUTES));
  }

  /** A lost wake-up would make it wait for a minute. */
  @Test
  void whoever_waits_is_woken_by_the_one_that_completes_the_number() throws InterruptedException {
    var slots = new Slots(8);
    var taken = new Semaphore(0);
    var givers = new ArrayList<Thread>();
    for (int giver = 0; giver < 4; giver++) {
      givers.add(
          Thread.ofPlatform()
              .start(() -> {
                for (int i = 0; i < 20_000; i++) {
                  taken.acquireUninterruptibly();
                  slots.giveBack(1);
                }
              }));
    }
    int left = 80_000;
    while (left > 0) {
      assertTrue(slots.await(Math.min(5, left), 1, TimeUnit.MINUTES));
      int some = slots.take(Math.min(8, left));
      left -= some;
      taken.release(some);
    }
    for (Thread giver : givers) {
      giver.join();
    }
    assertEquals(8, slots.take(100));
  }
}
