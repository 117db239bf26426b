package dev.waybill.retain;

import dev.waybill.db.Database;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/** Sums up what came and what happened to it, in rows that are only ever added. */
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
      ), arrived_page AS MATERIALIZED (
        SELECT ctid AS tid FROM waybill.arrivals WHERE (SELECT mine FROM turn) LIMIT ?
      ), gone AS (
        DELETE FROM waybill.tally t WHERE t.ctid = ANY (ARRAY(SELECT tid FROM page)) RETURNING kind, what, n,
          CASE WHEN slot > now() - interval '25 hours' THEN slot END AS slot
      ), arrived AS (
        DELETE FROM waybill.arrivals a WHERE a.ctid = ANY (ARRAY(SELECT tid FROM arrived_page)) RETURNING kind, n
      ), folded AS (
        INSERT INTO waybill.tally (kind, what, n, slot)
        SELECT kind, what, sum(n), slot
        FROM (SELECT kind, what, n, slot FROM gone UNION ALL SELECT kind, 'enqueued', n, NULL FROM arrived) f GROUP BY kind, what, slot
      )
      SELECT greatest((SELECT count(*) FROM page), (SELECT count(*) FROM arrived_page)), EXISTS (SELECT FROM waybill.arrivals_whole)
      """;

  /** One statement folds so many rows: when nobody did for a day, millions wait. */
  private static final int PAGE = 50_000;

  private static final int PAGES_MAX = 100;

  private record Folded(int rows, boolean whole) {}

  private final Database database;
  private final Recount recount;

  public TallyFolder(Database database) {
    this.database = database;
    this.recount = new Recount(database);
  }

  public void fold() throws SQLException {
    boolean whole = true;
    for (int page = 0; page < PAGES_MAX; page++) {
      Folded folded = database.run(TallyFolder::foldPage);
      whole = folded.whole();
      if (folded.rows() < PAGE) {
        break;
      }
    }
    if (!whole) {
      recount.run();
    }
  }

  private static Folded foldPage(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(FOLD)) {
      statement.setInt(1, PAGE);
      statement.setInt(2, PAGE);
      try (ResultSet row = statement.executeQuery()) {
        row.next();
        return new Folded(row.getInt(1), row.getBoolean(2));
      }
    }
  }
}
