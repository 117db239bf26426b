package dev.waybill.deadletter;

import dev.waybill.db.Beat;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.util.concurrent.atomic.AtomicInteger;
import org.jboss.logging.Logger;

/**
 * The clockwork of this room, in processes that keep house. Errors of the database are said once
 * and tried again at the next beat.
 */
@Singleton
public final class Beats {

  private static final Logger LOG = Logger.getLogger(Beats.class);

  private static final int RESTS = 2;

  private final ReplayRunner replays;
  private final DeadCounts counts;
  private volatile boolean on;

  /** While there is no replay, so many beats are left out. */
  private final AtomicInteger rests = new AtomicInteger();

  private final Beat beat =
      new Beat(LOG, Logger.Level.ERROR, "dead letters: beat failed, trying again");

  @Inject
  Beats(ReplayRunner replays, DeadCounts counts) {
    this.replays = replays;
    this.counts = counts;
  }

  /** The schema is there, and this process has the role. */
  public void start() {
    on = true;
  }

  public void stop() {
    on = false;
  }

  @Scheduled(every = "1s", delayed = "1s", concurrentExecution = ConcurrentExecution.SKIP)
  void replay() {
    if (rests.getAndDecrement() <= 0) {
      rests.set(0);
      beat(() -> rests.set(replays.beat() ? 0 : RESTS));
    }
  }

  @Scheduled(every = "10s", delayed = "10s", concurrentExecution = ConcurrentExecution.SKIP)
  void fold() {
    beat(counts::fold);
  }

  private void beat(Beat.Work work) {
    if (on) {
      beat.run(work);
    }
  }
}
