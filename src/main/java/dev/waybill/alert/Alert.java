package dev.waybill.alert;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.OffsetDateTime;

/**
 * One thing to tell, as {@code waybill.dead_alerts} has it.
 *
 * @param told JSON text: the kinds and their groups
 */
record Alert(
    long id, String what, OffsetDateTime createdAt, String told, String state, int attempts) {

  static Alert read(ResultSet row) throws SQLException {
    return new Alert(
        row.getLong("id"),
        row.getString("what"),
        row.getObject("created_at", OffsetDateTime.class),
        row.getString("told"),
        row.getString("state"),
        row.getInt("attempts"));
  }

  boolean isDaily() {
    return what.equals("daily");
  }
}
