package dev.waybill.db;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;
import org.postgresql.Driver;
import org.postgresql.PGConnection;

/**
 * Hears NOTIFY on a connection of its own, outside of the pool. A dead socket looks like silence,
 * so the connection is asked from time to time; whoever depends on it goes on polling, since what
 * was notified in between is lost.
 */
public final class Listener {

  private static final Logger LOG = Logger.getLogger(Listener.class);
  private static final int ASK_EVERY_MILLIS = 5_000;
  private static final int SOCKET_TIMEOUT_SECONDS = 10;
  private static final int ECHO_WITHIN_MILLIS = 2_000;

  /** Nothing arrived in time: a stall, or so by configuration. */
  private static final int DEAF_ONCE_PAUSE_SECONDS = 5;

  /** Nothing arrives: that is so by configuration, and does not change by the minute. */
  private static final int DEAF_PAUSE_SECONDS = 60;

  /** LISTEN was accepted, and yet a notification does not arrive. */
  private static final class Deaf extends Exception {
    private static final long serialVersionUID = 1L;
  }

  private final String url;
  private final Properties properties = new Properties();
  private final String channel;
  private final Runnable heard;
  private volatile boolean stopping;
  private volatile boolean connected;
  private volatile @Nullable Connection open;
  private Thread thread = Thread.currentThread();

  /**
   * @param heard called for what was notified, and after each new connection: something may have
   *     been missed
   */
  public Listener(String url, String user, String password, String channel, Runnable heard) {
    this.url = url;
    this.channel = channel;
    this.heard = heard;
    properties.setProperty("user", user);
    properties.setProperty("password", password);
    properties.setProperty("ApplicationName", "waybill listener");
    properties.setProperty("connectTimeout", "5");
    properties.setProperty("loginTimeout", "5");
    properties.setProperty("socketTimeout", String.valueOf(SOCKET_TIMEOUT_SECONDS));
    properties.setProperty("tcpKeepAlive", "true");
    if (driverSees(PromptSockets.class)) {
      properties.setProperty("socketFactory", PromptSockets.class.getName());
    }
  }

  /** In Quarkus' development mode it does not: another class loader. */
  private static boolean driverSees(Class<?> ours) {
    try {
      return Class.forName(ours.getName(), false, Driver.class.getClassLoader()) == ours;
    } catch (ClassNotFoundException _) {
      return false;
    }
  }

  public void start() {
    thread = Thread.ofPlatform().daemon().name("listener").start(this::turn);
  }

  public void stop() throws InterruptedException {
    stopping = true;
    close();
    thread.interrupt();
    thread.join();
  }

  public boolean connected() {
    return connected;
  }

  private void turn() {
    boolean said = false;
    int deaf = 0;
    while (!stopping) {
      try {
        listen();
      } catch (Deaf _) {
        deaf++;
        if (deaf == 2) {
          LOG.warn(
              "notifications do not arrive, polling: behind PgBouncer in transaction mode, WAYBILL_LISTEN_URL is to name the database itself");
        }
        close();
        pause(TimeUnit.SECONDS.toMillis(deaf == 1 ? DEAF_ONCE_PAUSE_SECONDS : DEAF_PAUSE_SECONDS));
      } catch (SQLException | RuntimeException | Error failure) {
        // An Error too: without this thread the pools would go on relying on being woken.
        if (!stopping && !said) {
          LOG.warnf("not listening, polling meanwhile: %s", failure.getClass().getSimpleName());
        }
        said = !connected;
        deaf = connected ? 0 : deaf;
        connected = false;
        close();
        pause(ThreadLocalRandom.current().nextLong(500, 3_000));
      }
    }
  }

  private void listen() throws SQLException, Deaf {
    Connection connection = connect();
    open = connection;
    execute(connection, "LISTEN " + channel);
    PGConnection notified = connection.unwrap(PGConnection.class);
    if (!hearsOthers(connection, notified)) {
      throw new Deaf();
    }
    connected = true;
    heard.run();
    while (!stopping) {
      var some = notified.getNotifications(ASK_EVERY_MILLIS);
      if (some != null && some.length > 0) {
        heard.run();
      } else {
        execute(connection, "SELECT 1");
      }
    }
  }

  private Connection connect() throws SQLException {
    @Nullable Connection connection = new Driver().connect(url, properties);
    if (connection == null) {
      throw new SQLException("not a PostgreSQL URL", "08001");
    }
    return connection;
  }

  /**
   * PgBouncer in transaction mode takes LISTEN and then lets nothing through, without a word. Only
   * a notification that another connection sent proves that we hear.
   */
  private boolean hearsOthers(Connection connection, PGConnection notified) throws SQLException {
    String echo = channel + "_echo_" + Long.toHexString(ThreadLocalRandom.current().nextLong());
    execute(connection, "LISTEN " + echo);
    try (Connection other = connect()) {
      execute(other, "NOTIFY " + echo);
    }
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ECHO_WITHIN_MILLIS);
    boolean heardIt = false;
    for (long left = ECHO_WITHIN_MILLIS;
        left > 0 && !heardIt;
        left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())) {
      var some = notified.getNotifications((int) left);
      heardIt = some != null && Arrays.stream(some).anyMatch(one -> one.getName().equals(echo));
    }
    execute(connection, "UNLISTEN " + echo);
    return heardIt;
  }

  private static void execute(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      boolean _ = statement.execute(sql);
    }
  }

  private void close() {
    @Nullable Connection closing = open;
    open = null;
    if (closing != null) {
      try {
        closing.close();
      } catch (SQLException broken) {
        LOG.debugf(broken, "closing a broken connection");
      }
    }
  }

  private static void pause(long millis) {
    try {
      TimeUnit.MILLISECONDS.sleep(millis);
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
  }
}
