package dev.waybill.alert;

import dev.waybill.db.Database;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** Alerts that are to be sent: each is claimed by one process before it sends it. */
final class Outbox {

  /** Committed before anything is sent: a process that dies then leaves it 'sending'. */
  private static final String CLAIM =
      """
      UPDATE waybill.dead_alerts a SET state = 'sending', attempts = a.attempts + 1, claimed_at = now()
      WHERE a.id = (
        SELECT o.id FROM waybill.dead_alerts o
        WHERE o.state = 'open' AND o.next_at <= now() AND o.created_at >= now() - interval '1 day'
        ORDER BY o.id LIMIT 1 FOR UPDATE SKIP LOCKED
      )
      RETURNING a.id, a.what, a.created_at, a.told::text AS told, a.state, a.attempts
      """;

  /** By the number of the attempt, so that nobody ends what is not his any more. */
  private static final String END =
      """
      UPDATE waybill.dead_alerts SET state = ?, next_at = now() + ? * interval '1 millisecond'
      WHERE id = ? AND state = 'sending' AND attempts = ?
      """;

  private final Database database;

  Outbox(Database database) {
    this.database = database;
  }

  /** The oldest that is due; null: none is. */
  @Nullable Alert claim() throws SQLException {
    return database.<@Nullable Alert>run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(CLAIM);
          ResultSet row = statement.executeQuery()) {
        return row.next() ? Alert.read(row) : null;
      }
    });
  }

  void end(Alert alert, String state) throws SQLException {
    write(alert, state, Duration.ZERO);
  }

  void again(Alert alert, Duration in) throws SQLException {
    write(alert, "open", in);
  }

  private void write(Alert alert, String state, Duration in) throws SQLException {
    int _ =
        database.run(connection -> {
          try (PreparedStatement statement = connection.prepareStatement(END)) {
            statement.setString(1, state);
            statement.setLong(2, in.toMillis());
            statement.setLong(3, alert.id());
            statement.setInt(4, alert.attempts());
            return statement.executeUpdate();
          }
        });
  }
}
