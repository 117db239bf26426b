package dev.waybill.deadletter;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/**
 * Statements with a filter of which most is usually absent: planned for what was asked, each time,
 * or the plan would fit none. For the transaction only.
 */
final class Plans {

  private static final String FOR_WHAT_WAS_ASKED =
      """
      SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('lock_timeout', '1s', true)
      """;

  /**
   * Kind, tenant and fingerprint go together, which the planner does not know: it expects a handful
   * of rows where there is a million, and would read and sort them all for one page. The index that
   * is in the order of the page is right in any case.
   */
  private static final String IN_ORDER =
      """
      SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)
      """;

  private Plans() {}

  /**
   * @param filter one by ids is better sorted: a walk in order would look for them everywhere
   */
  static void inOrder(Connection connection, DeadFilter filter) throws SQLException {
    forWhatWasAsked(connection);
    if (filter.ids() == null) {
      try (PreparedStatement statement = connection.prepareStatement(IN_ORDER)) {
        boolean _ = statement.execute();
      }
    }
  }

  static void forWhatWasAsked(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(FOR_WHAT_WAS_ASKED)) {
      boolean _ = statement.execute();
    }
  }
}
