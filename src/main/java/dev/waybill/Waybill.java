package dev.waybill;

import dev.waybill.embedded.EmbeddedDatabase;
import dev.waybill.embedded.Refused;
import io.quarkus.runtime.ImageMode;
import io.quarkus.runtime.Quarkus;
import io.quarkus.runtime.annotations.QuarkusMain;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The entrance. Before Quarkus starts it sees to the database: the one that {@code WAYBILL_DB_URL}
 * names, or, on the JVM, an embedded one with its data in {@code ./data}.
 */
@QuarkusMain
public final class Waybill {

  static final int EXIT_REFUSED = 2;

  /** Counted down when the service has drained; the embedded database stops after that. */
  private static final CountDownLatch OVER = new CountDownLatch(1);

  private static volatile boolean serving;
  private static @Nullable String embeddedPsql;

  private Waybill() {}

  public static void main(String... args) {
    try {
      chooseDatabase();
    } catch (Refused | DatabaseUrl.Refused | PortTaken refused) {
      System.err.println("waybill: " + refused.getMessage());
      System.exit(EXIT_REFUSED);
    }
    Quarkus.run(Service.class, args);
  }

  private static void chooseDatabase() throws Refused, DatabaseUrl.Refused, PortTaken {
    String url = setting("waybill.db.url", "");
    if (!url.isEmpty()) {
      DatabaseUrl.parse(url).apply();
      return;
    }
    if (ImageMode.current() != ImageMode.JVM) {
      throw new DatabaseUrl.Refused(
          "set WAYBILL_DB_URL, for example postgresql://waybill:secret@localhost:5432/waybill"
              + " (the native binary brings no database of its own)");
    }
    refuseTakenPort(
        setting("waybill.http.host", "127.0.0.1"), setting("waybill.http.port", "8080"));
    EmbeddedDatabase database = EmbeddedDatabase.start(Path.of(setting("waybill.data", "data")));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(database), "embedded-stop"));
    System.setProperty("quarkus.datasource.jdbc.url", database.jdbcUrl());
    System.setProperty("quarkus.datasource.username", database.user());
    System.setProperty("quarkus.datasource.password", database.password());
    embeddedPsql = database.psqlCommand();
  }

  /**
   * The configuration proper is there only when Quarkus has started, and needs to know the database
   * by then.
   */
  private static String setting(String name, String otherwise) {
    String variable = name.toUpperCase(Locale.ROOT).replace('.', '_');
    @Nullable String value = System.getProperty(name, System.getenv(variable));
    return value == null || value.isBlank() ? otherwise : value.strip();
  }

  /** Nothing can listen there. */
  private static final class PortTaken extends Exception {
    private static final long serialVersionUID = 1L;

    PortTaken(String message) {
      super(message);
    }
  }

  /**
   * Before the embedded database starts, so that a second start by mistake says one line and
   * touches nothing.
   */
  private static void refuseTakenPort(String host, String port) throws PortTaken {
    try (var probe = new ServerSocket()) {
      probe.setReuseAddress(true);
      probe.bind(new InetSocketAddress(host, Integer.parseInt(port)));
    } catch (IllegalArgumentException _) {
      throw new PortTaken("WAYBILL_HTTP_PORT: '" + port + "' is no port; right would be 8080");
    } catch (IOException _) {
      throw new PortTaken(
          "port " + port + " is taken: stop what listens there, or set WAYBILL_HTTP_PORT");
    }
  }

  /** The service begins to serve: from now on the database waits for it. */
  static void serving() {
    serving = true;
  }

  static void over() {
    OVER.countDown();
  }

  private static void stop(EmbeddedDatabase database) {
    try {
      if (serving) {
        boolean _ = OVER.await(60, TimeUnit.SECONDS);
      }
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
    database.close();
  }

  static @Nullable String embeddedPsql() {
    return embeddedPsql;
  }
}
