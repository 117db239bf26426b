package dev.waybill.blackbox;

import java.io.IOException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Enqueues steadily, by SQL and by REST, and writes down what was acknowledged. */
final class Load implements AutoCloseable {

  private final EnqueueLog log;
  private final String kind;
  private final String fields;
  private final ScheduledExecutorService executor = Executors.newScheduledThreadPool(2);
  private @Nullable Connection connection;

  /**
   * @param fields more of the payload, as {@code "\"ms\": 5"}
   */
  Load(EnqueueLog log, String kind, String fields) {
    this.log = log;
    this.kind = kind;
    this.fields = fields;
  }

  Load bySql(TestDatabase database, int everyMillis) {
    return repeat(() -> oneBySql(database), everyMillis);
  }

  /** The supplier names the process to use: it may change, as a load balancer's choice does. */
  Load byRest(Supplier<ServiceProcess> service, int everyMillis) {
    return repeat(() -> oneByRest(service.get().rest()), everyMillis);
  }

  private Load repeat(Runnable one, int everyMillis) {
    Future<?> _ = executor.scheduleWithFixedDelay(one, 0, everyMillis, TimeUnit.MILLISECONDS);
    return this;
  }

  private String payload(int number) {
    return "{\"n\": " + number + (fields.isEmpty() ? "" : ", " + fields) + "}";
  }

  private void oneBySql(TestDatabase database) {
    try {
      Connection open = connection;
      if (open == null || open.isClosed()) {
        open = database.connect();
        connection = open;
      }
      int number = log.sent();
      try (PreparedStatement statement =
          open.prepareStatement("SELECT waybill.enqueue(?, ?::jsonb)")) {
        statement.setString(1, kind);
        statement.setString(2, payload(number));
        try (ResultSet row = statement.executeQuery()) {
          row.next();
          log.acknowledged(row.getLong(1), number);
        }
      }
    } catch (SQLException _) {
      connection = null; // The outcome is unknown; the log knows that it was sent.
    }
  }

  private void oneByRest(Rest rest) {
    int number = log.sent();
    try {
      Rest.Answer answer =
          rest.post(
              "/v1/jobs", "{\"kind\": \"" + kind + "\", \"payload\": " + payload(number) + "}");
      if (answer.status() == 201) {
        log.acknowledged(answer.json().get("id").asLong(), number);
      }
    } catch (IOException | RuntimeException _) {
      // As above.
    }
  }

  @Override
  public void close() {
    executor.shutdown();
    try {
      if (!executor.awaitTermination(60, TimeUnit.SECONDS)) {
        throw new IllegalStateException("the load does not end");
      }
      if (connection != null) {
        connection.close();
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(interrupted);
    } catch (SQLException _) {
      // It is of no use any more.
    }
  }
}
