package dev.waybill.doctor;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** One question to the database. */
final class Ask {

  /** Reads one row. */
  @FunctionalInterface
  interface Row<T> {
    T read(ResultSet row) throws SQLException;
  }

  private Ask() {}

  static <T> List<T> rows(Connection connection, Row<T> reader, String sql, Object... values)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      for (int i = 0; i < values.length; i++) {
        statement.setObject(i + 1, values[i]);
      }
      var rows = new ArrayList<T>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          rows.add(reader.read(row));
        }
      }
      return rows;
    }
  }

  static String text(Connection connection, String sql, Object... values) throws SQLException {
    return rows(connection, row -> String.valueOf(row.getString(1)), sql, values).getFirst();
  }

  static boolean truth(Connection connection, String sql, Object... values) throws SQLException {
    return rows(connection, row -> row.getBoolean(1), sql, values).getFirst();
  }

  /** The cause alone, in one line. */
  static String reason(@Nullable Throwable failure) {
    String message = failure == null ? "" : String.valueOf(failure.getMessage());
    return message.strip().lines().findFirst().orElse("no reason given");
  }
}
