package dev.waybill.run;

import dev.waybill.claim.Promoter;
import java.sql.SQLException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jboss.logging.Logger;

/** Turns the promoter: once a second, or sooner when it knows that a job is due sooner. */
final class Promotion {

  private static final Logger LOG = Logger.getLogger(Promotion.class);
  private static final long PAUSE_MILLIS_MAX = 1_000;

  /** After some were promoted: where one is due each millisecond, one round takes several. */
  private static final long TOGETHER_MILLIS = 5;

  private final Promoter promoter;
  private final Runnable promoted;
  private final Pulse pulse = new Pulse();
  private volatile boolean stopping;
  private Thread thread = Thread.currentThread();

  Promotion(Promoter promoter, Runnable promoted) {
    this.promoter = promoter;
    this.promoted = promoted;
  }

  void start() {
    thread = Thread.ofPlatform().daemon().name("promotion").start(this::turn);
  }

  void stop() throws InterruptedException {
    stopping = true;
    LockSupport.unpark(thread);
    thread.join();
  }

  Pulse pulse() {
    return pulse;
  }

  private void turn() {
    while (!stopping) {
      pulse.turned();
      long pauseMillis = PAUSE_MILLIS_MAX;
      try {
        Promoter.Round round = promoter.promote();
        pulse.claimed();
        if (round.promoted() > 0) {
          promoted.run();
        }
        long least = round.promoted() > 0 ? TOGETHER_MILLIS : 1;
        pauseMillis = round.full() ? 0 : Math.clamp(round.nextMillis(), least, PAUSE_MILLIS_MAX);
      } catch (SQLException failure) {
        if (pulse.failed()) {
          LOG.errorf("promotion failed, trying again sqlstate=%s", failure.getSQLState());
        }
      } catch (RuntimeException bug) {
        LOG.error("promotion failed", bug);
      }
      if (pauseMillis > 0 && !stopping) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(pauseMillis));
      }
    }
  }
}
