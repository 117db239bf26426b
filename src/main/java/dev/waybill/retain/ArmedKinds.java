package dev.waybill.retain;

import dev.waybill.db.Database;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/**
 * Producers ask who waits for their kind where a bit says that somebody may: see {@code
 * waybill.armed}. Who arms clears old bits, but a pool that is busy or gone arms nothing.
 */
@Singleton
public final class ArmedKinds {

  private static final String MARK = "SELECT waybill.mark_armed()";

  private final Database database;

  public ArmedKinds(Database database) {
    this.database = database;
  }

  public void mark() throws SQLException {
    database.run(ArmedKinds::mark);
  }

  private static boolean mark(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(MARK)) {
      return statement.execute();
    }
  }
}
