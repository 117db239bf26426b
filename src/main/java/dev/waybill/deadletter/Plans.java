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

  private Plans() {}

  static void forWhatWasAsked(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(FOR_WHAT_WAS_ASKED)) {
      boolean _ = statement.execute();
    }
  }
}
