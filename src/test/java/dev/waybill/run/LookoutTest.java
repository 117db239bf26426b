package dev.waybill.run;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.claim.Claimer;
import dev.waybill.job.Claimed;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class LookoutTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  /** A sweep beside the claims waits here. */
  private final CountDownLatch holding = new CountDownLatch(1);

  private final AtomicInteger ended = new AtomicInteger();
  private final Claimer claimer =
      new Claimer(DB.database(), new TestJobs(DB).policies(), "tester", this::kinds);
  private final Lookout lookout = new Lookout("p", claimer, ended::incrementAndGet);

  /** Asked by each sweep, which is dear by it. */
  private Map<String, Integer> kinds() {
    try {
      TimeUnit.MILLISECONDS.sleep(10);
      if (Thread.currentThread().getName().equals("sweep-p")) {
        holding.await();
      }
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    }
    return Map.of("k", 1);
  }

  /** It stands still, so that no sweep is due because this machine was slow. */
  private final long now = System.nanoTime();

  private List<Claimed> look() throws SQLException {
    return lookout.look(1, now);
  }

  private void lookUntilASweepIsUnderWay() throws SQLException {
    for (int looks = 0; looks < 3; looks++) {
      assertEquals(List.of(), look());
    }
    assertTrue(lookout.putOff());
  }

  /** Or the pool would look each millisecond while a sweep takes longer than its turn. */
  @Test
  void while_a_sweep_is_under_way_none_is_due() throws Exception {
    lookUntilASweepIsUnderWay();
    assertEquals(Long.MAX_VALUE, lookout.dueMillis());
    holding.countDown();
    await().until(() -> ended.get() == 1);
    assertEquals(List.of(), look());
    assertTrue(lookout.dueMillis() < 2_000);
  }

  /** What came may have been committed too late for that sweep: no long sleep before the next. */
  @Test
  void who_was_told_while_a_sweep_was_under_way_sweeps_again() throws Exception {
    lookUntilASweepIsUnderWay();
    lookout.told();
    assertEquals(List.of(), look());
    holding.countDown();
    await().until(() -> ended.get() == 1);
    assertEquals(List.of(), look());
    assertTrue(lookout.putOff());
    assertTrue(lookout.dueMillis() < 2_000);
  }
}
