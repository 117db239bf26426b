package dev.waybill.retain;

import dev.waybill.db.Database;
import jakarta.inject.Singleton;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** Makes the partitions of the days ahead. */
@Singleton
public final class Partitions {

  /**
   * The function takes a lock of its own, and attaches instead of creating in place, so that no
   * settle waits for it.
   */
  private static final String MAKE = "SELECT waybill.make_partitions(?)";

  private static final int DAYS_AHEAD = 14;

  private final Database database;

  public Partitions(Database database) {
    this.database = database;
  }

  /** Answers the names of those made. */
  public List<String> makeAhead() throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(MAKE)) {
        statement.setInt(1, DAYS_AHEAD);
        var made = new ArrayList<String>();
        try (ResultSet rows = statement.executeQuery()) {
          while (rows.next()) {
            made.add(rows.getString(1));
          }
        }
        return made;
      }
    });
  }
}
