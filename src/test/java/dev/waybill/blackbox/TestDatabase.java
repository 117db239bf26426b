package dev.waybill.blackbox;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** One database, as an application or an operator sees it: plain JDBC. */
record TestDatabase(String host, int port, String name) {

  /** An administrator: tests look at everything and break things. */
  static final String USER = "postgres";

  /** Owns the schema where there are roles, and runs the migration only. */
  static final String OWNER = "waybill";

  static final String WITH_ROLES = "it_";

  private static final Path ROLES = Path.of("deploy", "postgresql", "roles.sql");

  /**
   * Whom the service runs as: where there are roles the one that owns nothing, so that every test
   * shows that its rights suffice.
   */
  String serviceUser() {
    return name.startsWith(WITH_ROLES) ? "waybill_runtime" : USER;
  }

  /** As an administrator does it, by the file that is shipped. */
  void makeRoles() throws SQLException {
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      boolean _ = statement.execute(Files.readString(ROLES));
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  String url() {
    return "jdbc:postgresql://" + host + ":" + port + "/" + name + "?sslmode=disable";
  }

  /** The same database through something that listens elsewhere. */
  TestDatabase through(int otherPort) {
    return new TestDatabase(host, otherPort, name);
  }

  Connection connect() throws SQLException {
    return DriverManager.getConnection(url(), USER, "");
  }

  int execute(String sql, @Nullable Object... values) throws SQLException {
    try (Connection connection = connect();
        PreparedStatement statement = bound(connection, sql, values)) {
      boolean rows = statement.execute();
      return rows ? 0 : statement.getUpdateCount();
    }
  }

  long number(String sql, @Nullable Object... values) throws SQLException {
    return Long.parseLong(text(sql, values));
  }

  boolean truth(String sql, @Nullable Object... values) throws SQLException {
    return text(sql, values).equals("t");
  }

  /** The first column of the only row; "null" for a NULL, "nothing" when there is no row. */
  String text(String sql, @Nullable Object... values) throws SQLException {
    List<String> rows = texts(sql, values);
    return rows.isEmpty() ? "nothing" : rows.getFirst();
  }

  /** The first column of every row. */
  List<String> texts(String sql, @Nullable Object... values) throws SQLException {
    try (Connection connection = connect();
        PreparedStatement statement = bound(connection, sql, values);
        ResultSet row = statement.executeQuery()) {
      var texts = new ArrayList<String>();
      while (row.next()) {
        texts.add(String.valueOf(row.getString(1)));
      }
      return texts;
    }
  }

  List<Long> ids(String sql, @Nullable Object... values) throws SQLException {
    return texts(sql, values).stream().map(Long::valueOf).toList();
  }

  long enqueue(String kind, String payload) throws SQLException {
    return number("SELECT waybill.enqueue(?, ?::jsonb)", kind, payload);
  }

  /** {@code n} jobs with the same payload, in one call. */
  List<Long> enqueueMany(String kind, String payload, int n) throws SQLException {
    return ids("SELECT waybill.enqueue_many(?, array_fill(?::jsonb, ARRAY[?]))", kind, payload, n);
  }

  String state(long id) throws SQLException {
    return text("SELECT state FROM waybill.all_jobs WHERE id = ?", id);
  }

  /** Sets columns of a kind's policy, whether the kind has its row yet or not. */
  void policy(String kind, String assignments) throws SQLException {
    execute("INSERT INTO waybill.kinds (kind) VALUES (?) ON CONFLICT DO NOTHING", kind);
    execute("UPDATE waybill.kinds SET " + assignments + " WHERE kind = ?", kind);
  }

  private static PreparedStatement bound(
      Connection connection, String sql, @Nullable Object... values) throws SQLException {
    PreparedStatement statement = connection.prepareStatement(sql);
    for (int i = 0; i < values.length; i++) {
      statement.setObject(i + 1, values[i]);
    }
    return statement;
  }
}
