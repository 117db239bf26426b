package dev.waybill.run;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Runs the attempts of a batch on virtual threads: on as many as there are handlers that wait, and
 * not on one each, which is dear for the shortest of jobs. A thread takes one attempt after
 * another; before each it sees to it that another thread is on its way, which goes on with the rest
 * as soon as a carrier has time for it: because a handler waits, or because there are several
 * carriers. So a handler that waits keeps no other from beginning.
 */
final class Crew<T> {

  /**
   * After so long a thread takes no other attempt. So whatever else is ready to run gets its turn,
   * and a handler that reads or writes anything has its thread to itself: what it left there, such
   * as a transaction that it did not end, nobody else finds.
   */
  private static final long TURN_NANOS = 100_000;

  private final String name;

  /** Nulls where they were begun: a handler that waits for long must not hold on to the others. */
  private final List<@Nullable T> attempts;

  private final Consumer<T> work;
  private final @Nullable ClassLoader loader = Thread.currentThread().getContextClassLoader();
  private final AtomicInteger begun = new AtomicInteger();

  /** A thread was started and has not begun. */
  private final AtomicBoolean coming = new AtomicBoolean();

  /**
   * @param work does not throw
   */
  Crew(String name, List<T> attempts, Consumer<T> work) {
    this.name = name;
    this.attempts = new ArrayList<>(attempts);
    this.work = work;
  }

  /**
   * What it throws says that no thread could be had: nothing was begun then. A thread that was
   * started by another one of the crew inherits nothing of it: handlers have been there.
   */
  void start() {
    if (begun.get() < attempts.size() && coming.compareAndSet(false, true)) {
      try {
        Thread.ofVirtual().name(name).inheritInheritableThreadLocals(false).start(this::turn);
      } catch (RuntimeException | Error refused) {
        coming.set(false);
        throw refused;
      }
    }
  }

  private void turn() {
    coming.set(false);
    long endNanos = System.nanoTime() + TURN_NANOS;
    for (int i = begun.getAndIncrement(); i < attempts.size(); i = begun.getAndIncrement()) {
      boolean _ = relieved();
      Thread.currentThread().setContextClassLoader(loader);
      work.accept(Objects.requireNonNull(attempts.set(i, null)));
      if (System.nanoTime() - endNanos > 0 && relieved()) {
        return;
      }
    }
  }

  /** Whether others take care of what is left, if anything is. */
  private boolean relieved() {
    try {
      start();
      return true;
    } catch (RuntimeException | Error _) {
      return false; // It goes on alone.
    }
  }
}
