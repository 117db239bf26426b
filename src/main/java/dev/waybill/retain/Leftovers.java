package dev.waybill.retain;

import dev.waybill.db.Database;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.function.BooleanSupplier;
import org.jboss.logging.Logger;

/**
 * What nobody needs any more, apart from jobs: lines of the audit log past their time, sequences of
 * limits that were changed or taken away.
 */
@Singleton
final class Leftovers {

  private static final Logger LOG = Logger.getLogger(Leftovers.class);

  private static final String FORGET_AUDIT = "SELECT waybill.forget_audit()";
  private static final String DROP_SEQUENCE = "SELECT waybill.drop_spent_sequence()::int";

  /** At a time; the rest is for the next beat. */
  private static final int PAGES_MAX = 20;

  private static final int SEQUENCES_MAX = 100;

  private final Database database;

  @Inject
  Leftovers(Database database) {
    this.database = database;
  }

  /** Answers how many lines of the log are gone. */
  long sweep(BooleanSupplier goOn) throws SQLException {
    long lines = 0;
    for (int page = 0; page < PAGES_MAX && goOn.getAsBoolean(); page++) {
      long some = database.run(c -> number(c, FORGET_AUDIT));
      lines += some;
      if (some == 0) {
        break;
      }
    }
    if (lines > 0) {
      LOG.infof("audit log past its retention forgotten lines=%d", lines);
    }
    dropSequences(goOn);
    return lines;
  }

  /** One a statement: each may wait a second for whoever holds it. None is worth a failed turn. */
  private void dropSequences(BooleanSupplier goOn) {
    try {
      for (int i = 0; i < SEQUENCES_MAX && goOn.getAsBoolean(); i++) {
        if (database.run(c -> number(c, DROP_SEQUENCE)) == 0) {
          return;
        }
      }
    } catch (SQLException failure) {
      LOG.warnf("sequences of old limits not dropped sqlstate=%s", failure.getSQLState());
    }
  }

  private static long number(Connection connection, String sql) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql);
        ResultSet row = statement.executeQuery()) {
      return row.next() ? row.getLong(1) : 0;
    }
  }
}
