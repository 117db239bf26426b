package dev.waybill.claim;

import java.sql.Connection;
import java.sql.PreparedStatement;
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
   * Reads all jobs. The token of a claim has one row: what that one does not name is added to it.
   */
  private static final String FIND_STRAYS =
      """
      INSERT INTO waybill.claims AS c (token, ids)
      SELECT j.token, array_agg(j.id) FROM waybill.jobs j
      WHERE j.state = 'running' AND NOT EXISTS (SELECT FROM waybill.claims k WHERE k.token = j.token AND j.id = ANY (k.ids))
      GROUP BY j.token
      ON CONFLICT (token) DO UPDATE SET ids = c.ids || excluded.ids
      """;

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
    try (PreparedStatement statement = connection.prepareStatement(FIND_STRAYS)) {
      return statement.executeUpdate();
    }
  }
}
