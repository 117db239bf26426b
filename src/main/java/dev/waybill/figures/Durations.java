package dev.waybill.figures;

import dev.waybill.db.Beat;
import dev.waybill.db.Database;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLongArray;
import org.jboss.logging.Logger;

/**
 * Counts how long attempts took, in memory; once a minute what was counted goes to the database. An
 * attempt pays a look-up and an increment.
 */
@Singleton
public final class Durations {

  private static final Logger LOG = Logger.getLogger(Durations.class);

  /**
   * In one order, so that two processes that add at once wait for each other and do not lock up.
   */
  private static final String ADD =
      """
      INSERT INTO waybill.durations AS d (day, kind, bucket, n)
      SELECT (now() AT TIME ZONE 'UTC')::date, c.kind, c.bucket, c.n FROM unnest(?::text[], ?::smallint[], ?::bigint[]) AS c(kind, bucket, n)
      ORDER BY c.kind, c.bucket
      ON CONFLICT (day, kind, bucket) DO UPDATE SET n = d.n + excluded.n
      """;

  private static final String FORGET =
      "DELETE FROM waybill.durations WHERE day < (now() AT TIME ZONE 'UTC')::date - 8";

  private record Count(String kind, short bucket, long n) {}

  private final Database database;
  private final ConcurrentHashMap<String, AtomicLongArray> counts = new ConcurrentHashMap<>();
  private final Beat beat =
      new Beat(LOG, Logger.Level.WARN, "durations not written, kept for the next time");

  @Inject
  public Durations(Database database) {
    this.database = database;
  }

  /** An attempt was over after so long. */
  public void took(String kind, long nanos) {
    long _ = buckets(kind).incrementAndGet(Bucket.of(nanos));
  }

  private AtomicLongArray buckets(String kind) {
    return counts.computeIfAbsent(kind, _ -> new AtomicLongArray(Bucket.COUNT));
  }

  @Scheduled(every = "1m", delayed = "1m", concurrentExecution = ConcurrentExecution.SKIP)
  void write() {
    beat.run(this::flush);
  }

  /** Writes what was counted since the last time; keeps it where that fails. */
  public synchronized void flush() throws SQLException {
    List<Count> taken = take();
    if (taken.isEmpty()) {
      return;
    }
    try {
      // Together: what failed in part would be added a second time.
      int _ = database.transaction(connection -> add(connection, taken));
    } catch (SQLException failure) {
      for (Count one : taken) {
        long _ = buckets(one.kind()).addAndGet(one.bucket(), one.n());
      }
      throw failure;
    }
  }

  private List<Count> take() {
    var taken = new ArrayList<Count>();
    for (Map.Entry<String, AtomicLongArray> one : new TreeMap<>(counts).entrySet()) {
      for (int bucket = 0; bucket < Bucket.COUNT; bucket++) {
        long n = one.getValue().getAndSet(bucket, 0);
        if (n > 0) {
          taken.add(new Count(one.getKey(), (short) bucket, n));
        }
      }
    }
    return taken;
  }

  private static int add(Connection connection, List<Count> taken) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ADD)) {
      statement.setArray(
          1, connection.createArrayOf("text", taken.stream().map(Count::kind).toArray()));
      statement.setArray(
          2, connection.createArrayOf("int2", taken.stream().map(Count::bucket).toArray()));
      statement.setArray(
          3, connection.createArrayOf("int8", taken.stream().map(Count::n).toArray()));
      statement.executeUpdate();
    }
    try (PreparedStatement statement = connection.prepareStatement(FORGET)) {
      return statement.executeUpdate();
    }
  }
}
