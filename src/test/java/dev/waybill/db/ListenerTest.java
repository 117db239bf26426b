package dev.waybill.db;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.sql.SQLException;
import java.time.Duration;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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

  /**
   * It asks every five seconds by itself. Five within a second before three that are not: with no
   * more than that it would pass once in two hundred runs, and a machine that stands still twice
   * does no harm.
   */
  @Test
  void what_is_notified_is_heard_at_once() throws SQLException {
    int times = 1;
    int slow = 0;
    while (times - slow < 6) {
      int next = ++times;
      long begin = System.nanoTime();
      DB.execute("SELECT pg_notify('waybill', 'k')");
      await().until(() -> heard.get() == next);
      slow += System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(1) ? 0 : 1;
      assertTrue(slow < 3, "heard, and not at once");
    }
    int last = times + 1;
    DB.execute("SELECT pg_notify('another', 'k')");
    DB.execute("SELECT pg_notify('waybill', 'k')");
    await().until(() -> heard.get() == last);
    assertEquals(last, heard.get());
  }

  @Test
  void a_broken_connection_is_noticed_and_replaced_and_something_may_have_been_missed()
      throws SQLException {
    breakIt();
    await().until(() -> heard.get() == 2);
    assertTrue(listener.connected());
    DB.execute("SELECT pg_notify('waybill', 'k')");
    await().until(() -> heard.get() == 3);
  }

  /** Its packets go nowhere and nobody says so, as behind a firewall that forgot the connection. */
  @Test
  void a_connection_that_is_dead_and_looks_alive_is_found_and_replaced() throws Exception {
    var heardThere = new AtomicInteger();
    try (var wire = new Wire(DB.url())) {
      var there =
          new Listener(wire.url(), "postgres", "postgres", "waybill", heardThere::incrementAndGet);
      there.start();
      try {
        await().until(() -> heardThere.get() == 1);
        wire.goDead();
        DB.execute("SELECT pg_notify('waybill', 'lost')");
        assertTrue(there.connected(), "nothing to be seen of it yet");
        await().until(() -> !there.connected());
        wire.letIn();
        await().until(there::connected);
        await().until(() -> heardThere.get() == 2);
        DB.execute("SELECT pg_notify('waybill', 'k')");
        await().until(() -> heardThere.get() == 3);
      } finally {
        there.stop();
      }
    }
  }

  /** As when the machine stands still while it asks whether it hears others. */
  @Test
  void one_that_heard_nothing_once_soon_asks_again() throws Exception {
    try (var wire = new Wire(DB.url())) {
      wire.echoesToLose.set(1);
      var there = new Listener(wire.url(), "postgres", "postgres", "waybill", () -> {});
      there.start();
      try {
        await().atMost(Duration.ofSeconds(45)).until(there::connected);
        assertEquals(0, wire.echoesToLose.get());
      } finally {
        there.stop();
      }
    }
  }

  /**
   * Passes on what is sent, until it is told to swallow all of it; connections made later live,
   * once they are let in: so it is seen that there is none, however slow the one is who looks.
   */
  private static final class Wire implements AutoCloseable {
    private static final Pattern PORT = Pattern.compile(":(\\d+)/");

    private final String url;
    private final int serverPort;
    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final ConcurrentLinkedQueue<Socket> open = new ConcurrentLinkedQueue<>();
    private final AtomicInteger alive = new AtomicInteger();
    private final Semaphore gate = new Semaphore(1);

    /** Notifications by which a listener asks whether it hears others. */
    final AtomicInteger echoesToLose = new AtomicInteger();

    Wire(String url) throws IOException {
      Matcher port = PORT.matcher(url);
      assertTrue(port.find(), url);
      this.url = port.replaceFirst(":" + door.getLocalPort() + "/");
      this.serverPort = Integer.parseInt(port.group(1));
      Thread.ofVirtual().start(this::accept);
    }

    String url() {
      return url;
    }

    void goDead() {
      gate.acquireUninterruptibly();
      alive.incrementAndGet();
    }

    void letIn() {
      gate.release();
    }

    private void accept() {
      try {
        while (true) {
          Socket client = door.accept();
          gate.acquireUninterruptibly();
          gate.release();
          var server = new Socket(door.getInetAddress(), serverPort);
          open.add(client);
          open.add(server);
          int life = alive.get();
          Thread.ofVirtual().start(() -> pass(client, server, life));
          Thread.ofVirtual().start(() -> pass(server, client, life));
        }
      } catch (IOException _) {
        // Closed.
      }
    }

    private void pass(Socket from, Socket to, int life) {
      byte[] buffer = new byte[8192];
      try (from;
          to) {
        for (int n = from.getInputStream().read(buffer);
            n >= 0;
            n = from.getInputStream().read(buffer)) {
          boolean lost =
              from.getPort() == serverPort
                  && new String(buffer, 0, n, ISO_8859_1).contains("_echo_")
                  && echoesToLose.getAndUpdate(left -> Math.max(0, left - 1)) > 0;
          if (life == alive.get() && !lost) {
            to.getOutputStream().write(buffer, 0, n);
          }
        }
      } catch (IOException _) {
        // Closed by the other direction.
      }
    }

    @Override
    public void close() throws IOException {
      door.close();
      for (Socket socket : open) {
        socket.close();
      }
    }
  }

  @Test
  void it_does_not_end_with_the_connection_and_it_ends_when_told() throws Exception {
    breakIt();
    assertTimeout(Duration.ofSeconds(20), listener::stop);
    // A backend ends a moment after its connection.
    await().until(() -> DB.number("SELECT count(*) FROM pg_stat_activity WHERE " + OURS) == 0);
    assertFalse(
        Thread.getAllStackTraces().keySet().stream()
            .anyMatch(thread -> thread.getName().equals("listener")));
  }
}
