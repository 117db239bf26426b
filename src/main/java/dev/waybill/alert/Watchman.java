package dev.waybill.alert;

import dev.waybill.db.Database;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;

/** Looks for growth, and whether the day's alert is due. */
final class Watchman {

  /**
   * One process at a time does it, and the marks move in the same transaction as the alert is
   * written: whoever comes next sees no growth.
   */
  private static final String WATCH =
      """
      SELECT a.id, a.what, a.created_at, a.told::text AS told, a.state, a.attempts
      FROM waybill.watch_dead(?, ? * interval '1 millisecond', ?::time, ?) a ORDER BY a.id
      """;

  private final Database database;
  private final AlertPlan plan;

  Watchman(Database database, AlertPlan plan) {
    this.database = database;
    this.plan = plan;
  }

  /**
   * What is new, what nobody knows of any more whether it arrived, and what is too old to be sent.
   */
  List<Alert> look() throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(WATCH)) {
        statement.setLong(1, plan.growth());
        statement.setLong(2, plan.window().toMillis() / 2);
        if (plan.daily() == null) {
          statement.setNull(3, Types.VARCHAR);
        } else {
          statement.setString(3, plan.daily().toString());
        }
        statement.setBoolean(4, plan.webhook() != null);
        var alerts = new ArrayList<Alert>();
        try (ResultSet rows = statement.executeQuery()) {
          while (rows.next()) {
            alerts.add(Alert.read(rows));
          }
        }
        return alerts;
      }
    });
  }
}
