package dev.waybill.api;

import dev.waybill.access.Caller;
import dev.waybill.audit.Act;
import dev.waybill.audit.Audit;
import dev.waybill.db.Database;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** What a caller may do to a job that lives. */
@Singleton
final class JobActs {

  /** A settle of the same job waits, or is waited for; either way it is decided once. */
  private static final String LOCK =
      """
      SELECT j.state, j.tenant FROM waybill.jobs j WHERE j.id = ? AND waybill.visible(j.tenant, j.kind, ?, ?) FOR UPDATE
      """;

  private static final String CANCEL = "SELECT waybill.cancel(?)";
  private static final String RUN_NOW = "SELECT waybill.run_now(?)";

  private final Database database;

  @Inject
  JobActs(DataSource dataSource) {
    this.database = new Database(dataSource);
  }

  /** Whatever it was waiting for or doing; its holder loses the lease with the row. */
  JobView cancel(long id, Caller caller) throws SQLException {
    return database.transaction(connection -> {
      @Nullable Live live = lock(connection, id, caller);
      if (live == null) {
        // Whoever got no answer asks again, and is told the same.
        @Nullable JobView before = JobReader.read(connection, id, caller);
        if (before != null && before.state().equals("cancelled")) {
          return before;
        }
        throw gone(connection, id, caller);
      }
      execute(connection, CANCEL, id);
      record(connection, caller, Act.CANCEL, id, live);
      return read(connection, id, caller);
    });
  }

  /** Ready already is as good; running or ended is not. */
  JobView runNow(long id, Caller caller) throws SQLException {
    return database.transaction(connection -> {
      @Nullable Live live = lock(connection, id, caller);
      if (live == null) {
        throw gone(connection, id, caller);
      }
      if (live.state().equals("running")) {
        throw Problem.conflict("running", "The job is running", "An attempt is under way.");
      }
      execute(connection, RUN_NOW, id);
      if (live.state().equals("scheduled")) {
        record(connection, caller, Act.RUN_NOW, id, live);
      }
      return read(connection, id, caller);
    });
  }

  private record Live(String state, String tenant) {}

  private static void record(Connection connection, Caller caller, Act what, long id, Live live)
      throws SQLException {
    Audit.record(connection, caller.name(), what, String.valueOf(id), live.tenant(), 1);
  }

  private static @Nullable Live lock(Connection connection, long id, Caller caller)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LOCK)) {
      statement.setLong(1, id);
      int _ = caller.bindScope(statement, 2);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? new Live(row.getString(1), row.getString(2)) : null;
      }
    }
  }

  private static Problem.Thrown gone(Connection connection, long id, Caller caller)
      throws SQLException {
    @Nullable JobView view = JobReader.read(connection, id, caller);
    return view == null
        ? Problem.notFound("job")
        : Problem.conflict("ended", "The job has ended", "Its state is " + view.state() + ".");
  }

  private static JobView read(Connection connection, long id, Caller caller) throws SQLException {
    @Nullable JobView view = JobReader.read(connection, id, caller);
    if (view == null) {
      throw Problem.notFound("job");
    }
    return view;
  }

  private static void execute(Connection connection, String sql, long id) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      statement.setLong(1, id);
      boolean _ = statement.execute();
    }
  }
}
