package dev.waybill.claim;

import dev.waybill.db.Database;
import jakarta.inject.Singleton;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/** Makes scheduled jobs ready when their time has come. */
@Singleton
public final class Promoter {

  /**
   * Any number of pods may run it at once: they pass each other's rows by. A page bounds the
   * transaction, when a million jobs were scheduled for nine o'clock. The second column says when
   * the next is due, so that it is promoted on time and not at the next poll.
   *
   * <p>Plan hazard: both parts walk the head of {@code jobs_scheduled}, which needs the literal
   * {@code state = 'scheduled'}.
   */
  private static final String PROMOTE =
      """
      WITH due AS MATERIALIZED (
        SELECT id FROM waybill.jobs WHERE state = 'scheduled' AND run_at <= now()
        ORDER BY run_at LIMIT ? FOR NO KEY UPDATE SKIP LOCKED
      ), promoted AS (
        UPDATE waybill.jobs j SET state = 'ready' FROM due WHERE j.id = ANY (ARRAY(SELECT id FROM due)) AND j.id = due.id RETURNING j.kind
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'scheduled', -count(*) FROM promoted GROUP BY kind
      )
      SELECT (SELECT count(*) FROM promoted),
        (SELECT ceil(extract(epoch FROM run_at - now()) * 1000)::bigint FROM waybill.jobs
          WHERE state = 'scheduled' AND run_at > now() ORDER BY run_at LIMIT 1)
      """;

  private static final int PAGE = 1_000;

  private final Database database;

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

  public Round promote() throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(PROMOTE)) {
        statement.setInt(1, PAGE);
        try (ResultSet row = statement.executeQuery()) {
          row.next();
          int promoted = row.getInt(1);
          long next = row.getLong(2);
          return new Round(promoted, promoted == PAGE, row.wasNull() ? Long.MAX_VALUE : next);
        }
      }
    });
  }
}
