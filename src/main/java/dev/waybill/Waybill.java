package dev.waybill;

import dev.waybill.embedded.EmbeddedDatabase;
import dev.waybill.embedded.Refused;
import io.quarkus.runtime.ImageMode;
import io.quarkus.runtime.Quarkus;
import io.quarkus.runtime.annotations.QuarkusMain;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
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

  /**
   * A constant when the native image is built, so that neither the embedded room nor the archive of
   * the server gets into it.
   */
  static final boolean EMBEDS = ImageMode.current() == ImageMode.JVM;

  /** Counted down when the service has drained; the embedded database stops after that. */
  private static final CountDownLatch OVER = new CountDownLatch(1);

  private static volatile boolean serving;
  private static @Nullable String embeddedPsql;

  private Waybill() {}

  public static void main(String... args) {
    if (!EMBEDS) {
      pollSocketsByPlatformThreads();
    }
    if (args.length > 0 && args[0].equals(Checkup.WORD)) {
      System.exit(Checkup.run(List.of(args).subList(1, args.length)));
    }
    try {
      SecretFiles.read();
      Preflight.check();
      System.setProperty("quarkus.log.console.json.enabled", String.valueOf(Preflight.logsJson()));
      Duration stops = Preflight.stopsWithin();
      System.setProperty("quarkus.shutdown.timeout", stops.toSeconds() + "S");
      System.setProperty(
          "waybill.db.engine-connections", String.valueOf(Preflight.engineConnections()));
      chooseDatabase(stops);
    } catch (Refused | DatabaseUrl.Refused | Preflight.Refused refused) {
      System.err.println("waybill: " + refused.getMessage());
      System.exit(EXIT_REFUSED);
    }
    Quarkus.run(Service.class, args);
  }

  /**
   * Of the virtual threads that poll sockets for the others, one of the binary's was seen to stop
   * for good: each request whose connection to the database was its to poll waited for its time
   * limit. Threads of the platform do it there, as they do where a JDK has no other way.
   */
  private static void pollSocketsByPlatformThreads() {
    if (System.getProperty("jdk.pollerMode") == null) {
      System.setProperty("jdk.pollerMode", "1");
    }
  }

  private static void chooseDatabase(Duration stops) throws Refused, DatabaseUrl.Refused {
    String url = Preflight.setting("waybill.db.url", "");
    if (!url.isEmpty()) {
      DatabaseUrl.parse(url).apply();
      return;
    }
    if (!EMBEDS) {
      throw new DatabaseUrl.Refused(
          "set WAYBILL_DB_URL, for example postgresql://waybill:secret@localhost:5432/waybill"
              + " (the native binary brings no database of its own)");
    }
    EmbeddedDatabase database =
        EmbeddedDatabase.start(Path.of(Preflight.setting("waybill.data", "data")));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(database, stops), "embedded-stop"));
    System.setProperty("quarkus.datasource.jdbc.url", database.jdbcUrl());
    System.setProperty("quarkus.datasource.username", database.user());
    System.setProperty("quarkus.datasource.password", database.password());
    embeddedPsql = database.psqlCommand();
  }

  /** The service begins to serve: from now on the database waits for it. */
  static void serving() {
    serving = true;
  }

  static void over() {
    OVER.countDown();
  }

  private static void stop(EmbeddedDatabase database, Duration limit) {
    try {
      if (serving) {
        boolean _ = OVER.await(limit.toMillis(), TimeUnit.MILLISECONDS);
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
