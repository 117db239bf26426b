package dev.waybill.claim;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Collection;
import java.util.UUID;

/**
 * The rows of {@code waybill.claims}: each says which jobs one claim took, so that what runs is
 * found without an index that every claim would have to write to. A row is deleted only when none
 * of its jobs has its token any more: what still runs stays where the reaper and the caps find it.
 */
public final class Claims {

  /**
   * Nobody waits here, since others may be at the same rows. Plan hazard: {@code OFFSET 0} keeps
   * the question a look by the primary key for each claim; as a join it may read all jobs.
   */
  private static final String FORGET =
      """
      DELETE FROM waybill.claims c WHERE c.token = ANY (ARRAY(
        SELECT e.token FROM waybill.claims e
        WHERE NOT EXISTS (SELECT FROM waybill.jobs j WHERE j.id = ANY (e.ids) AND j.token = e.token OFFSET 0)
          AND %s
        FOR UPDATE SKIP LOCKED))
      """;

  private static final String FORGET_THESE = FORGET.formatted("e.token = ANY (?)");
  private static final String FORGET_ALL = FORGET.formatted("true");

  /**
   * A page of all jobs, by id: the whole table in one statement may take longer than a statement
   * may. The token of a claim has one row: what that one does not name is added to it.
   */
  private static final String FIND_STRAYS =
      """
      WITH page AS MATERIALIZED (
        SELECT j.id, j.token, j.state, j.kind FROM waybill.jobs j WHERE j.id > ? ORDER BY j.id LIMIT ?
      ), found AS (
        INSERT INTO waybill.claims AS c (token, ids, kinds)
        SELECT p.token, array_agg(p.id), array_agg(DISTINCT p.kind) FROM page p
        WHERE p.state = 'running' AND p.token IS NOT NULL
          AND NOT EXISTS (SELECT FROM waybill.claims k WHERE k.token = p.token AND p.id = ANY (k.ids) AND p.kind = ANY (k.kinds))
        GROUP BY p.token
        ON CONFLICT (token) DO UPDATE SET ids = c.ids || excluded.ids, kinds = c.kinds || excluded.kinds
        RETURNING token
      )
      SELECT (SELECT count(*) FROM found), count(*), max(id) FROM page
      """;

  private static final int STRAY_PAGE = 50_000;

  private Claims() {}

  /** Deletes those of these claims whose jobs have all ended, in the caller's transaction. */
  public static int forget(Connection connection, Collection<UUID> tokens) throws SQLException {
    if (tokens.isEmpty()) {
      return 0;
    }
    try (PreparedStatement statement = connection.prepareStatement(FORGET_THESE)) {
      statement.setArray(1, connection.createArrayOf("uuid", tokens.toArray()));
      return statement.executeUpdate();
    }
  }

  /** The same with all claims: what no settle has deleted. */
  public static int forget(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(FORGET_ALL)) {
      return statement.executeUpdate();
    }
  }

  /**
   * Finds running jobs that no claim names, which nobody would ever reap. There are none, unless
   * somebody wrote into the tables by hand or restored one without the other.
   */
  public static int findStrays(Connection connection) throws SQLException {
    return findStrays(connection, STRAY_PAGE);
  }

  static int findStrays(Connection connection, int page) throws SQLException {
    int found = 0;
    long after = Long.MIN_VALUE;
    int looked = page;
    try (PreparedStatement statement = connection.prepareStatement(FIND_STRAYS)) {
      while (looked == page) {
        statement.setLong(1, after);
        statement.setInt(2, page);
        try (ResultSet row = statement.executeQuery()) {
          row.next();
          found += row.getInt(1);
          looked = row.getInt(2);
          after = row.getLong(3);
        }
      }
    }
    return found;
  }
}
