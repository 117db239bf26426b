package dev.waybill.audit;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import org.jspecify.annotations.Nullable;

/**
 * Writes the log of what operators did. Call it on the connection of the act, inside its
 * transaction: an act that rolls back leaves no line, and no act is without one.
 */
public final class Audit {

  private static final String RECORD =
      """
      INSERT INTO waybill.audit_log (who, what, target, tenant, filter, jobs) VALUES (left(?, 256), ?, ?, ?, ?::jsonb, ?)
      """;

  private static final String ACTS_FOR = "SELECT set_config('waybill.who', left(?, 256), true)";

  private Audit() {}

  /**
   * For the rest of this transaction: changes of policies, limits and tokens are logged by triggers
   * on their tables, which is why SQL is logged as well; this says whose they are.
   */
  public static void actsFor(Connection connection, String who) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ACTS_FOR)) {
      statement.setString(1, who);
      boolean _ = statement.execute();
    }
  }

  /** An act on one thing: a job's id, a kind, a token's name. */
  public static void record(
      Connection connection,
      String who,
      Act what,
      String target,
      @Nullable String tenant,
      long jobs)
      throws SQLException {
    record(connection, who, what, target, tenant, null, jobs);
  }

  /**
   * @param who the name of the credential
   * @param target what it was done to: a job's id, a kind, a replay's id; null when the filter says
   *     it
   * @param tenant whose jobs, when it is one tenant's; a caller bound to a tenant reads only those
   * @param filter JSON: which jobs, when it is more than one. Never a payload
   * @param jobs how many jobs were changed by it, or are about to be
   */
  public static void record(
      Connection connection,
      String who,
      Act what,
      @Nullable String target,
      @Nullable String tenant,
      @Nullable String filter,
      long jobs)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(RECORD)) {
      statement.setString(1, who);
      statement.setString(2, what.word());
      statement.setString(3, target);
      statement.setString(4, tenant);
      statement.setString(5, filter);
      statement.setLong(6, jobs);
      statement.executeUpdate();
    }
  }
}
