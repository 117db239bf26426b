package dev.waybill.retain;

import dev.waybill.db.Database;
import jakarta.inject.Singleton;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.UUID;

/**
 * One process at a time, by a lease in the database. Not a session's advisory lock: behind
 * PgBouncer in transaction mode that would outlive whoever took it.
 */
@Singleton
public final class Turn {

  /** One row a name, by primary key. The row lock decides between two who come at once. */
  private static final String TAKE =
      """
      INSERT INTO waybill.turns AS t (name, holder, until) VALUES (?, ?, now() + interval '2 minutes')
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
      WHERE t.holder = excluded.holder OR t.until < now()
      """;

  private static final String GIVE_BACK = "DELETE FROM waybill.turns WHERE name = ? AND holder = ?";

  private final Database database;
  private final String holder = UUID.randomUUID().toString();

  public Turn(Database database) {
    this.database = database;
  }

  /** Takes or keeps it; false when another process has it. */
  public boolean mine(String name) throws SQLException {
    return execute(TAKE, name) == 1;
  }

  public void over(String name) throws SQLException {
    int _ = execute(GIVE_BACK, name);
  }

  private int execute(String sql, String name) throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        statement.setString(1, name);
        statement.setString(2, holder);
        return statement.executeUpdate();
      }
    });
  }
}
