package dev.waybill.db;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTimeout;

import dev.waybill.TestDatabase;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class ListenerTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final String OURS =
      "datname = current_database() AND application_name = 'waybill listener'";

  private final AtomicInteger heard = new AtomicInteger();
  private final Listener listener =
      new Listener(DB.url(), "postgres", "postgres", "waybill", heard::incrementAndGet);

  @BeforeEach
  void start() {
    listener.start();
    await().until(listener::connected);
    await().until(() -> heard.get() == 1); // What came before it listened may have been missed.
  }

  @AfterEach
  void stop() throws InterruptedException {
    listener.stop();
  }

  private static void breakIt() throws SQLException {
    DB.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " + OURS);
  }

  @Test
  void what_is_notified_is_heard_at_once() throws SQLException {
    for (int i = 2; i <= 4; i++) {
      int times = i;
      DB.execute("SELECT pg_notify('waybill', 'k')");
      await().atMost(Duration.ofSeconds(2)).until(() -> heard.get() == times);
    }
    DB.execute("SELECT pg_notify('another', 'k')");
    DB.execute("SELECT pg_notify('waybill', 'k')");
    await().until(() -> heard.get() == 5);
    assertEquals(5, heard.get());
  }

  @Test
  void a_broken_connection_is_noticed_and_replaced_and_something_may_have_been_missed()
      throws SQLException {
    breakIt();
    await().until(() -> !listener.connected());
    await().until(listener::connected);
    await().until(() -> heard.get() == 2);
    DB.execute("SELECT pg_notify('waybill', 'k')");
    await().until(() -> heard.get() == 3);
  }

  @Test
  void it_does_not_end_with_the_connection_and_it_ends_when_told() throws Exception {
    breakIt();
    assertTimeout(Duration.ofSeconds(5), listener::stop);
    // A backend ends a moment after its connection.
    await().until(() -> DB.number("SELECT count(*) FROM pg_stat_activity WHERE " + OURS) == 0);
    assertFalse(
        Thread.getAllStackTraces().keySet().stream()
            .anyMatch(thread -> thread.getName().equals("listener")));
  }
}
