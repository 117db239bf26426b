package dev.waybill.retain;

import dev.waybill.db.Database;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
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
      ), page AS MATERIALIZED (
        SELECT ctid AS tid FROM waybill.tally WHERE (SELECT mine FROM turn) LIMIT ?
      ), gone AS (
        DELETE FROM waybill.tally t WHERE t.ctid = ANY (ARRAY(SELECT tid FROM page)) RETURNING kind, what, n,
          CASE WHEN slot > now() - interval '25 hours' THEN slot END AS slot
      ), folded AS (
        INSERT INTO waybill.tally (kind, what, n, slot) SELECT kind, what, sum(n), slot FROM gone GROUP BY kind, what, slot
      )
      SELECT count(*) FROM page
      """;

  /** One statement folds so many rows: when nobody did for a day, millions wait. */
  private static final int PAGE = 50_000;

  private static final int PAGES_MAX = 100;

  private final Database database;

  public TallyFolder(Database database) {
    this.database = database;
  }

  public void fold() throws SQLException {
    for (int page = 0; page < PAGES_MAX; page++) {
      if (database.run(TallyFolder::foldPage) < PAGE) {
        return;
      }
    }
  }

  private static int foldPage(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(FOLD)) {
      statement.setInt(1, PAGE);
      try (ResultSet row = statement.executeQuery()) {
        row.next();
        return row.getInt(1);
      }
    }
  }
}
