package dev.waybill.retain;

import dev.waybill.db.Beat;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jboss.logging.Logger;

/**
 * The clockwork of this room. Errors of the database are said once and tried again at the next
 * beat.
 */
@Singleton
public final class Maintenance {

  private static final Logger LOG = Logger.getLogger(Maintenance.class);

  /** As for a claim loop. A statement of a beat ends within its limits. */
  private static final Duration WEDGED_AFTER = Duration.ofSeconds(30);

  private final Reaper reaper;
  private final Partitions partitions;
  private final TallyFolder tally;
  private final ArmedKinds armed;
  private final Retention retention;
  private final Vacuum vacuum;
  private final RetainEvents events;
  private volatile boolean on;

  /** Of looking for strays, which reads all jobs. */
  private final Rest strayRest = new Rest(500);

  private final Beat beat = new Beat(LOG, Logger.Level.ERROR, "maintenance failed, trying again");

  @Inject
  Maintenance(
      Reaper reaper,
      Partitions partitions,
      TallyFolder tally,
      ArmedKinds armed,
      Retention retention,
      Vacuum vacuum,
      RetainEvents events) {
    this.reaper = reaper;
    this.partitions = partitions;
    this.tally = tally;
    this.armed = armed;
    this.retention = retention;
    this.vacuum = vacuum;
    this.events = events;
  }

  /** The schema is there, and this process has the role. Refuses a wrong setting. */
  public void start() throws SQLException {
    retention.open();
    reaper.turned();
    on = true;
  }

  public void stop() {
    on = false;
  }

  /**
   * The reaper's beat turns, or gets on with all that is overdue; failed tries count as turning.
   * The others may take long rightly: an archive is written for minutes.
   */
  public boolean live() {
    return !on || reaper.turnsWithin(WEDGED_AFTER);
  }

  /** Together with the lease this bounds how long a job of a vanished holder waits. */
  @Scheduled(every = "5s", delayed = "1s", concurrentExecution = ConcurrentExecution.SKIP)
  void reap() {
    try {
      beat(() -> {
        Map<String, Long> reaped = reaper.reap();
        reaped.forEach((kind, n) -> {
          events.reaped(kind, n);
          LOG.warnf("reaped jobs of vanished holders kind=%s jobs=%d", kind, n);
        });
      });
    } finally {
      reaper.turned();
    }
  }

  /** Reads all jobs, so it rests long after it took long. */
  @Scheduled(every = "1m", delayed = "10s", concurrentExecution = ConcurrentExecution.SKIP)
  void findStrays() {
    if (!strayRest.isOver()) {
      return;
    }
    long begin = System.nanoTime();
    beat(() -> {
      int found = reaper.findStrays();
      if (found > 0) {
        LOG.errorf("running jobs were in no claim, the reaper sees them again claims=%d", found);
      }
    });
    strayRest.begin(begin);
  }

  @Scheduled(every = "1h", concurrentExecution = ConcurrentExecution.SKIP)
  void makePartitions() {
    beat(() -> {
      List<String> made = partitions.makeAhead();
      if (!made.isEmpty()) {
        LOG.infof("partitions made n=%d last=%s", made.size(), made.getLast());
      }
    });
  }

  @Scheduled(every = "10s", delayed = "10s", concurrentExecution = ConcurrentExecution.SKIP)
  void foldTally() {
    beat(tally::fold);
  }

  @Scheduled(every = "30s", delayed = "10s", concurrentExecution = ConcurrentExecution.SKIP)
  void markArmed() {
    beat(armed::mark);
  }

  @Scheduled(every = "1s", delayed = "3s", concurrentExecution = ConcurrentExecution.SKIP)
  void vacuum() {
    beat(vacuum::run);
  }

  /** One process at a time: see {@link Turn}. */
  @Scheduled(
      every = "${waybill.retain-every:1m}",
      delayed = "5s",
      concurrentExecution = ConcurrentExecution.SKIP)
  void retain() {
    beat(() -> retention.turn(() -> on));
  }

  private void beat(Beat.Work work) {
    if (on) {
      beat.run(work);
    }
  }
}
