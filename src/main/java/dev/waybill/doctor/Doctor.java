package dev.waybill.doctor;

import dev.waybill.doctor.Patient.Login;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.jspecify.annotations.Nullable;
import org.postgresql.Driver;

/**
 * Examines a database. Each check stands alone, in a read-only transaction with a time limit: one
 * that cannot be made (a right is missing, it takes too long) is said, and the others go on.
 */
public final class Doctor {

  /** Nothing could be looked at. */
  public static final class Unreachable extends Exception {
    private static final long serialVersionUID = 1L;

    Unreachable(String message) {
      super(message);
    }
  }

  /** One look. */
  @FunctionalInterface
  interface Check {
    List<Finding> look(Connection connection, Patient patient) throws SQLException;
  }

  private record Named(String about, Check check) {}

  private static final List<Named> SERVER =
      List.of(
          new Named("version", ServerChecks::version),
          new Named("primary", ServerChecks::primary),
          new Named("settings", ServerChecks::settings),
          new Named("tls", ServerChecks::tls),
          new Named("clock", Clocks::compare));

  /** All others need the schema. */
  private static final Named SCHEMA = new Named("schema", SchemaChecks::version);

  private static final List<Named> QUEUE =
      List.of(
          new Named("rights", Rights::look),
          new Named("storage", SchemaChecks::storage),
          new Named("partitions", Partitions::look),
          new Named("processes", Processes::look),
          new Named("connections", Processes::connections),
          new Named("lag", Lag::look),
          new Named("leases", Lag::orphans),
          new Named("durations", Lengths::look),
          new Named("dead", Lag::dead),
          new Named("snapshots", Snapshots::sessions),
          new Named("slots", Snapshots::slots),
          new Named("prepared", Snapshots::prepared),
          new Named("vacuum", VacuumDebt::look),
          new Named("wraparound", VacuumDebt::wraparound));

  private static final String LIMITS =
      "SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '1s'";

  private Doctor() {}

  public static Report examine(Patient patient) throws Unreachable {
    var findings = new ArrayList<Finding>();
    long begin = System.nanoTime();
    try (Connection connection = connect(patient.login())) {
      double seconds = (System.nanoTime() - begin) / 1e9;
      findings.add(
          Finding.ok("connection", patient.login() + ", connected in " + Spans.of(seconds)));
      connection.setAutoCommit(false);
      connection.setReadOnly(true);
      SERVER.forEach(check -> findings.addAll(look(connection, patient, check)));
      List<Finding> schema = look(connection, patient, SCHEMA);
      findings.addAll(schema);
      if (schema.stream().noneMatch(finding -> finding.verdict() == Verdict.WRONG)) {
        QUEUE.forEach(check -> findings.addAll(look(connection, patient, check)));
        findings.addAll(Ears.look(connection, patient));
      }
    } catch (SQLException failure) {
      throw new Unreachable(
          "the database cannot be reached: "
              + patient.login()
              + " (SQLSTATE "
              + failure.getSQLState()
              + ", "
              + Ask.reason(failure)
              + "): see WAYBILL_DB_URL, WAYBILL_DB_USER and WAYBILL_DB_PASSWORD");
    }
    return new Report(findings);
  }

  private static List<Finding> look(Connection connection, Patient patient, Named named) {
    try (Statement limits = connection.createStatement()) {
      boolean _ = limits.execute(LIMITS);
      return named.check().look(connection, patient);
    } catch (SQLException failure) {
      return List.of(notChecked(named.about(), patient.login().user(), failure));
    } finally {
      rollback(connection);
    }
  }

  private static void rollback(Connection connection) {
    try {
      connection.rollback();
    } catch (SQLException _) {
      // The next check says that the connection is gone.
    }
  }

  static Finding notChecked(String about, String user, SQLException failure) {
    String why = Ask.reason(failure);
    return "42501".equals(failure.getSQLState())
        ? Finding.warn(
            about,
            "not checked, role " + user + " lacks a right: " + why,
            "let the doctor run as the role of the service, or grant it")
        : Finding.warn(about, "not checked: " + why, "run the doctor again; see the server's log");
  }

  static Connection connect(Login login) throws SQLException {
    var properties = new Properties();
    properties.setProperty("user", login.user());
    properties.setProperty("password", login.password());
    properties.setProperty("ApplicationName", "waybill doctor");
    properties.setProperty("connectTimeout", "5");
    properties.setProperty("loginTimeout", "5");
    properties.setProperty("socketTimeout", "15");
    // A pooler in transaction mode hands each transaction to another server process, which does
    // not know what was prepared before.
    properties.setProperty("prepareThreshold", "0");
    @Nullable Connection connection = new Driver().connect(login.jdbcUrl(), properties);
    if (connection == null) {
      throw new SQLException("not a PostgreSQL URL", "08001");
    }
    return connection;
  }
}
