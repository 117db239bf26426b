package dev.waybill.retain;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The clockwork; that Quarkus turns it is seen by the black-box tests, where jobs are reaped. */
class MaintenanceTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Map<String, Long> reaped = new ConcurrentSkipListMap<>();

  /** Whoever counts waits here. */
  private volatile CountDownLatch holding = new CountDownLatch(0);

  private final RetainEvents events =
      new RetainEvents() {
        @Override
        public void reaped(String kind, long n) {
          reaped.merge(kind, n, Long::sum);
          try {
            holding.await();
          } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
          }
        }

        @Override
        public void purged(String kind, long n) {}
      };

  private final Maintenance maintenance = maintenance();

  private Maintenance maintenance() {
    var database = DB.database();
    var archive = new Archive(database, Optional::empty);
    return new Maintenance(
        new Reaper(database),
        new Partitions(database),
        new TallyFolder(database),
        new ArmedKinds(database),
        new Retention(
            new Turn(database),
            archive,
            new Expiry(database, events),
            new Dropper(database, archive, events),
            new Leftovers(database)),
        new Vacuum(database, new ArchiveTest.Given("", 0)),
        events);
  }

  @AfterEach
  void audit() throws SQLException {
    DB.execute("SELECT waybill.make_partitions()");
    DB.auditIsClean();
  }

  private Claimed orphan() throws SQLException {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    return job;
  }

  private static void dropTheLastPartition() throws SQLException {
    DB.execute(
        "DROP TABLE "
            + DB.text(
                """
                SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'waybill.jobs_done'::regclass ORDER BY 1 DESC LIMIT 1
                """));
  }

  @Test
  void nothing_is_done_before_the_start_and_after_the_stop() throws SQLException {
    Claimed job = orphan();
    maintenance.reap();
    assertEquals("running", DB.state(job.id()));
    maintenance.start();
    maintenance.stop();
    maintenance.reap();
    assertEquals("running", DB.state(job.id()));
    assertEquals(Map.of(), reaped);
  }

  @Test
  void each_beat_does_its_part_and_tells() throws SQLException {
    maintenance.start();
    Claimed job = orphan();
    maintenance.reap();
    assertEquals("ready", DB.state(job.id()));
    assertEquals(Map.of("k", 1L), reaped);

    DB.enqueue("k");
    DB.enqueue("k");
    maintenance.foldTally();
    assertEquals(
        1, DB.number("SELECT count(*) FROM waybill.counts WHERE kind = 'k' AND what = 'enqueued'"));

    dropTheLastPartition();
    maintenance.makePartitions();
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.make_partitions()"));
  }

  @Test
  void a_beat_that_the_database_fails_is_tried_again_at_the_next() throws SQLException {
    maintenance.start();
    Claimed job = orphan();
    DB.execute("ALTER TABLE waybill.kinds RENAME TO away");
    try {
      assertDoesNotThrow(maintenance::reap);
      assertDoesNotThrow(maintenance::reap);
      assertEquals("running", DB.state(job.id()));
    } finally {
      DB.execute("ALTER TABLE waybill.away RENAME TO kinds");
    }
    maintenance.reap();
    assertEquals("ready", DB.state(job.id()));
  }

  /**
   * A process that only keeps house has no other loop, and one that nobody restarts would take no
   * lease back any more.
   */
  @Test
  void a_reaper_that_hangs_is_not_live_and_one_that_goes_on_is() throws Exception {
    assertTrue(maintenance.live(), "who does not keep house is not asked");
    maintenance.start();
    var _ = orphan();
    var wedge = new CountDownLatch(1);
    holding = wedge;
    Thread beat = Thread.ofPlatform().start(maintenance::reap);
    try {
      await().until(() -> reaped.containsKey("k"));
      assertTrue(maintenance.live(), "a slow beat is no wedge");
      await().atMost(Duration.ofSeconds(60)).until(() -> !maintenance.live());
    } finally {
      wedge.countDown();
      beat.join();
    }
    assertTrue(maintenance.live());
  }

  /** What the documents promise; a slow beat is not joined by the next one. */
  @Test
  void the_schedule() {
    Map<String, String> every =
        Arrays.stream(Maintenance.class.getDeclaredMethods())
            .filter(method -> method.isAnnotationPresent(Scheduled.class))
            .collect(
                Collectors.toMap(
                    method -> method.getName(),
                    method -> method.getAnnotation(Scheduled.class).every()));
    assertEquals("5s", every.get("reap"));
    assertEquals("10s", every.get("foldTally"));
    assertEquals("1h", every.get("makePartitions"));
    assertTrue(
        Arrays.stream(Maintenance.class.getDeclaredMethods())
            .filter(method -> method.isAnnotationPresent(Scheduled.class))
            .allMatch(method ->
                method.getAnnotation(Scheduled.class).concurrentExecution()
                    == ConcurrentExecution.SKIP));
  }
}
