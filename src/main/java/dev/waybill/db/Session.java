package dev.waybill.db;

import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.jboss.logging.Logger;

/**
 * The settings that each session of the engine begins with. They stand in one place, {@code
 * microprofile-config.properties}; here it is seen to that they are in force, which a pooler in
 * transaction mode prevents without a word.
 */
@Singleton
final class Session {

  private static final Logger LOG = Logger.getLogger(Session.class);
  private static final Pattern SET = Pattern.compile("SET (\\w+) = ('[^']*'|\\w+)");

  private static final String SO = "SELECT current_setting(?)";

  /** By the server's own reading, so that 10 and 10s are the same. Local: it ends with this. */
  private static final String SHOULD_BE = "SELECT set_config(?, ?, true)";

  private final Database database;
  private final String settings;

  @Inject
  Session(
      Database database,
      @ConfigProperty(name = "quarkus.datasource.engine.jdbc.new-connection-sql") String settings) {
    this.database = database;
    this.settings = settings;
  }

  /** Says what is missing, and how to mend it. */
  void check() throws SQLException {
    for (String missing : database.transaction(c -> missing(c, settings))) {
      LOG.warnf(
          "the engine's sessions lack a setting (a pooler in between?), give it to their role: ALTER ROLE ... SET %s",
          missing);
    }
  }

  /** Inside of a transaction. */
  static List<String> missing(Connection connection, String settings) throws SQLException {
    var missing = new ArrayList<String>();
    for (MatchResult set : SET.matcher(settings).results().toList()) {
      String name = set.group(1);
      String value = set.group(2).replace("'", "");
      if (!inForce(connection, name, value)) {
        missing.add(name + " = " + set.group(2));
      }
    }
    return missing;
  }

  private static boolean inForce(Connection connection, String name, String value)
      throws SQLException {
    String is = text(connection, SO, name);
    return is.equals(text(connection, SHOULD_BE, name, value));
  }

  private static String text(Connection connection, String sql, String... values)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      for (int i = 0; i < values.length; i++) {
        statement.setString(i + 1, values[i]);
      }
      try (ResultSet row = statement.executeQuery()) {
        row.next();
        return String.valueOf(row.getString(1));
      }
    }
  }
}
