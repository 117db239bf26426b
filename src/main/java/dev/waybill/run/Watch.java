package dev.waybill.run;

import dev.waybill.claim.Leases;
import dev.waybill.job.Outcome;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jboss.logging.Logger;

/**
 * Looks after the attempts under way: extends leases before they end, notices those that are lost,
 * enforces time limits. One thread a process. Its database calls are one statement each for all
 * attempts, and only for those that have run for a while: short jobs cost it nothing.
 */
final class Watch {

  private static final Logger LOG = Logger.getLogger(Watch.class);
  private static final long TICK_MILLIS = 100;
  private static final long ASK_EVERY_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final Collection<Pool> pools;
  private final Leases leases;
  private final Pulse pulse = new Pulse();
  private final AtomicBoolean asking = new AtomicBoolean();
  private final ExecutorService asker =
      Executors.newSingleThreadExecutor(Thread.ofPlatform().daemon().name("heartbeat").factory());
  private volatile boolean stopping;
  private long askedNanos = System.nanoTime();
  private Thread thread = Thread.currentThread();

  Watch(Collection<Pool> pools, Leases leases) {
    this.pools = pools;
    this.leases = leases;
  }

  void start() {
    thread = Thread.ofPlatform().daemon().name("lease-watch").start(this::turn);
  }

  void stop() throws InterruptedException {
    stopping = true;
    thread.join();
    asker.shutdown();
  }

  Pulse pulse() {
    return pulse;
  }

  private void turn() {
    while (!stopping) {
      pulse.turned();
      try {
        look(System.nanoTime());
        TimeUnit.MILLISECONDS.sleep(TICK_MILLIS);
      } catch (InterruptedException _) {
        return;
      } catch (RuntimeException | Error bug) {
        // Nobody else keeps the leases: whatever it was, the next look is made.
        LOG.error("lease watch failed", bug);
      }
    }
  }

  /**
   * Its first call for an attempt asks nothing of the database: that is for those that have run a
   * second.
   */
  private void look(long now) {
    var due = new ArrayList<Running>();
    var old = new ArrayList<Running>();
    for (Pool pool : pools) {
      for (Running attempt : pool.running()) {
        if (attempt.abandoned()) {
          continue;
        }
        if (attempt.timedOut(now)) {
          attempt.stop(Running.Stop.TIMEOUT);
        }
        long leftNanos = attempt.leaseEndNanos() - now;
        boolean lost = leftNanos <= 0 && attempt.stop(Running.Stop.LEASE_LOST);
        if (lost) {
          LOG.warnf("lease not extended in time, attempt stopped %s", attempt.job());
        }
        if (attempt.neverBegins()) {
          pool.leaveUnbegun(attempt);
        } else if (attempt.overdue(now) && !attempt.returned()) {
          pool.abandon(
              attempt, Outcome.retry("timeout, and the handler did not heed its interrupt"));
        } else if (!lost && leftNanos < leaseNanos(attempt) * 2 / 3) {
          due.add(attempt);
        } else if (!lost && now - attempt.startNanos() > ASK_EVERY_NANOS) {
          old.add(attempt);
        }
      }
    }
    if (now - askedNanos >= pauseNanos(due) && !(due.isEmpty() && old.isEmpty())) {
      askedNanos = now;
      if (asking.compareAndSet(false, true)) {
        asker.execute(() -> askAndSay(due, old));
      }
    }
  }

  /** A second, or less for short leases: each gets several tries before it ends. */
  private static long pauseNanos(List<Running> due) {
    long shortest = due.stream().mapToLong(Watch::leaseNanos).min().orElse(Long.MAX_VALUE);
    return Math.min(ASK_EVERY_NANOS, shortest / 5);
  }

  /**
   * On a thread of its own: a database that does not answer must not keep this one from noticing
   * that leases and time limits are over.
   */
  private void askAndSay(List<Running> due, List<Running> old) {
    try {
      ask(due, old);
    } catch (SQLException failure) {
      if (pulse.failed()) {
        LOG.errorf("heartbeat failed, trying again sqlstate=%s", failure.getSQLState());
      }
    } catch (RuntimeException bug) {
      LOG.error("heartbeat failed", bug);
    } finally {
      asking.set(false);
    }
  }

  private void ask(List<Running> due, List<Running> old) throws SQLException {
    if (!due.isEmpty()) {
      long sent = System.nanoTime();
      List<Leases.Held> held = due.stream().map(Watch::held).toList();
      Set<Long> extended = leases.extend(held);
      for (int i = 0; i < held.size(); i++) {
        Running attempt = due.get(i);
        if (extended.contains(attempt.id())) {
          attempt.leaseExtendedTo(sent + leaseNanos(attempt));
          attempt.progressWritten(held.get(i).progress());
        } else {
          old.add(attempt);
        }
      }
    }
    if (!old.isEmpty()) {
      Set<Long> ours = leases.ours(old.stream().map(Watch::held).toList());
      old.stream().filter(attempt -> !ours.contains(attempt.id())).forEach(Watch::taken);
    }
    pulse.claimed();
  }

  /**
   * Whether it was lost or cancelled, the settler finds out and says. An attempt that is being
   * settled right now is not ours any more either: it is only told, and then it has ended already.
   */
  private static void taken(Running attempt) {
    if (attempt.stop(Running.Stop.LEASE_LOST)) {
      LOG.debugf("not ours any more, handler interrupted %s", attempt.job());
    }
  }

  private static Leases.Held held(Running attempt) {
    return new Leases.Held(
        attempt.id(), attempt.job().token(), attempt.job().leaseMillis(), attempt.progress());
  }

  private static long leaseNanos(Running attempt) {
    return TimeUnit.MILLISECONDS.toNanos(attempt.job().leaseMillis());
  }
}
