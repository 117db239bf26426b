package dev.waybill;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * How long this machine stood still, for a test that says how long something may take: somebody who
 * writes and commits all the time beside it, to a table that nobody else knows. What holds him up
 * as well is not the fault of what is tested; a lock, or a wake-up that does not come, is.
 */
public final class Stalls implements AutoCloseable {

  /** Less is the usual give and take on few cores. */
  private static final long LEAST_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  private record Stall(long beginNanos, long endNanos) {}

  private final TestDatabase db;
  private final List<Stall> stalls = new ArrayList<>();
  private final Thread thread;
  private long beginNanos = System.nanoTime();
  private @Nullable SQLException failure;
  private volatile boolean over;

  public Stalls(TestDatabase db) throws SQLException {
    this.db = db;
    db.execute("CREATE TABLE IF NOT EXISTS public.beside (n bigint)");
    db.execute("TRUNCATE public.beside");
    db.execute("INSERT INTO public.beside VALUES (0)");
    thread = Thread.ofPlatform().daemon().name("beside").start(this::turn);
  }

  private void turn() {
    try (Connection connection = db.connect()) {
      while (!over) {
        int _ = TestDatabase.execute(connection, "UPDATE public.beside SET n = n + 1");
        turned();
        LockSupport.parkNanos(PAUSE_NANOS);
      }
    } catch (SQLException broken) {
      failed(broken);
    }
  }

  private synchronized void turned() {
    long now = System.nanoTime();
    if (now - beginNanos > LEAST_NANOS) {
      stalls.add(new Stall(beginNanos, now));
    }
    beginNanos = now;
  }

  private synchronized void failed(SQLException broken) {
    failure = broken;
  }

  /** How much of the time between these two it stood still, with what is not over yet. */
  public synchronized long millisWithin(long fromNanos, long toNanos) {
    if (failure != null) {
      throw new IllegalStateException(failure);
    }
    long nanos = 0;
    for (Stall stall : stalls) {
      nanos += shared(stall, fromNanos, toNanos);
    }
    var last = new Stall(beginNanos, System.nanoTime());
    if (!over && last.endNanos() - last.beginNanos() > LEAST_NANOS) {
      nanos += shared(last, fromNanos, toNanos);
    }
    return TimeUnit.NANOSECONDS.toMillis(nanos);
  }

  private static long shared(Stall stall, long fromNanos, long toNanos) {
    long from = Math.max(0, stall.beginNanos() - fromNanos);
    long to = Math.min(toNanos, stall.endNanos()) - fromNanos;
    return Math.max(0, to - from);
  }

  /** What it saw can still be asked for. */
  @Override
  public void close() {
    over = true;
    try {
      thread.join();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(interrupted);
    }
  }
}
