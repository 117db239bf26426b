package dev.waybill.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class CrewTest {

  private static List<Integer> numbers(int n) {
    return IntStream.range(0, n).boxed().toList();
  }

  @Test
  void one_that_waits_keeps_no_other_from_beginning() throws InterruptedException {
    var allBegan = new CountDownLatch(1_000);
    var allEnded = new CountDownLatch(1_000);
    new Crew<>(
            "crew",
            numbers(1_000),
            _ -> {
              allBegan.countDown();
              await(allBegan);
              allEnded.countDown();
            })
        .start();
    assertTrue(allEnded.await(1, TimeUnit.MINUTES));
  }

  @Test
  void each_is_begun_once_and_those_that_do_not_wait_share_threads() throws InterruptedException {
    int n = 100_000;
    var begun = new AtomicIntegerArray(n);
    Set<Thread> threads = ConcurrentHashMap.newKeySet();
    var ended = new CountDownLatch(n);
    new Crew<>(
            "crew",
            numbers(n),
            i -> {
              begun.incrementAndGet(i);
              threads.add(Thread.currentThread());
              ended.countDown();
            })
        .start();
    assertTrue(ended.await(1, TimeUnit.MINUTES));
    for (int i = 0; i < n; i++) {
      assertEquals(1, begun.get(i));
    }
    assertTrue(threads.size() < n / 2, () -> "threads: " + threads.size());
  }

  /** Of those that ran on the thread before, and of those that started it. */
  @Test
  void a_thread_inherits_nothing_of_a_handler() throws InterruptedException {
    int n = 100_000;
    var own = new ThreadLocal<@Nullable Boolean>();
    var inherited = new InheritableThreadLocal<@Nullable Boolean>();
    ClassLoader usual = Thread.currentThread().getContextClassLoader();
    var another = new ClassLoader() {};
    var wrong = new AtomicInteger();
    var ended = new CountDownLatch(n);
    new Crew<>(
            "crew",
            numbers(n),
            _ -> {
              Thread thread = Thread.currentThread();
              if ((own.get() == null && inherited.get() != null)
                  || !usual.equals(thread.getContextClassLoader())) {
                wrong.incrementAndGet();
              }
              own.set(true);
              inherited.set(true);
              thread.setContextClassLoader(another);
              ended.countDown();
            })
        .start();
    assertTrue(ended.await(1, TimeUnit.MINUTES));
    assertEquals(0, wrong.get());
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
