package dev.waybill.claim;

import dev.waybill.db.Database;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.concurrent.TimeUnit;

/**
 * Makes scheduled jobs ready when their time has come. It remembers how far it got: each thread
 * that promotes has its own.
 */
public final class Promoter {

  /**
   * Any number of pods may run it at once: they pass each other's rows by. A page bounds the
   * transaction, when a million jobs were scheduled for nine o'clock. The second column says how
   * far it got, the third when the next is due, so that it is promoted on time and not at the next
   * poll.
   *
   * <p>Plan hazard: both parts walk {@code jobs_scheduled} from a bound, which needs {@code NOT
   * due}. The bound is a hint, as that of a lane: while a snapshot is held the entries of promoted
   * jobs stay, and each round would walk them all again.
   */
  private static final String PROMOTE =
      """
      WITH due AS MATERIALIZED (
        SELECT id FROM waybill.jobs WHERE NOT due AND run_at <= now()
          AND run_at >= 'epoch'::timestamptz + ?::bigint * interval '1 microsecond'
        ORDER BY run_at LIMIT ? FOR NO KEY UPDATE SKIP LOCKED
      ), promoted AS (
        UPDATE waybill.jobs j SET due = true, state = 'ready' WHERE j.id = ANY (ARRAY(SELECT id FROM due)) RETURNING j.kind, j.run_at
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'scheduled', -count(*) FROM promoted GROUP BY kind
      )
      SELECT (SELECT count(*) FROM promoted), (SELECT (extract(epoch FROM max(run_at)) * 1000000)::bigint FROM promoted),
        (SELECT ceil(extract(epoch FROM run_at - now()) * 1000)::bigint FROM waybill.jobs
          WHERE NOT due AND run_at > now() ORDER BY run_at LIMIT 1)
      """;

  private static final int PAGE = 1_000;

  /** So often a round begins at the head, where jobs turn up late or come back with an old time. */
  private static final long WHOLE_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final Database database;
  private long wholeNanos = System.nanoTime() - WHOLE_NANOS;
  private long lowMicros;

  public Promoter(Database database) {
    this.database = database;
  }

  /**
   * What one round did.
   *
   * @param promoted jobs that are ready now
   * @param full the page was full, so more are due
   * @param nextMillis until the next is due, or {@link Long#MAX_VALUE} when none is scheduled
   */
  public record Round(int promoted, boolean full, long nextMillis) {}

  /** Called by one thread. */
  public Round promote() throws SQLException {
    long now = System.nanoTime();
    boolean whole = now - wholeNanos >= WHOLE_NANOS;
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(PROMOTE)) {
        statement.setLong(1, whole ? 0 : lowMicros);
        statement.setInt(2, PAGE);
        try (ResultSet row = statement.executeQuery()) {
          row.next();
          int promoted = row.getInt(1);
          boolean full = promoted == PAGE;
          if (promoted > 0) {
            // What a whole round left lies behind its last one, however long before the bound.
            lowMicros = whole && full ? row.getLong(2) : Math.max(lowMicros, row.getLong(2));
          }
          if (whole) {
            wholeNanos = now;
          }
          long next = row.getLong(3);
          return new Round(promoted, full, row.wasNull() ? Long.MAX_VALUE : next);
        }
      }
    });
  }
}
