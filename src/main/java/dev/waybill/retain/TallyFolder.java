package dev.waybill.retain;

import dev.waybill.db.Database;
import jakarta.inject.Singleton;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/** Sums up the tally, whose rows are only ever added. */
@Singleton
public final class TallyFolder {

  /**
   * One folder at a time, or two would fold each other's sums; {@code SKIP LOCKED} is not needed
   * then. What died keeps its quarter of an hour for a day, which the figures ask for.
   */
  private static final String FOLD =
      """
      WITH turn AS MATERIALIZED (
        SELECT pg_try_advisory_xact_lock(7733810, 2) AS mine
      ), gone AS (
        DELETE FROM waybill.tally WHERE (SELECT mine FROM turn) RETURNING kind, what, n,
          CASE WHEN slot > now() - interval '25 hours' THEN slot END AS slot
      )
      INSERT INTO waybill.tally (kind, what, n, slot) SELECT kind, what, sum(n), slot FROM gone GROUP BY kind, what, slot
      """;

  private final Database database;

  public TallyFolder(Database database) {
    this.database = database;
  }

  public void fold() throws SQLException {
    database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(FOLD)) {
        return statement.executeUpdate();
      }
    });
  }
}
