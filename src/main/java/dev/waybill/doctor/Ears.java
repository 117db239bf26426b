package dev.waybill.doctor;

import dev.waybill.doctor.Patient.Login;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/**
 * Whether wake-ups arrive. A pooler in transaction mode accepts LISTEN and hears nothing, and by
 * the same sign drops what the engine sets for its sessions.
 */
final class Ears {

  private static final String CHANNEL = "waybill_doctor";
  private static final String LISTEN = "LISTEN waybill_doctor";
  private static final String NOTIFY = "SELECT pg_notify(?, ?)";
  private static final int WITHIN_MILLIS = 1_500;

  /**
   * What keeps the engine's plans from flipping, and its locks from being held for ever. Where a
   * pooler drops what a session sets, the role has to have it. Of the time limit any will do:
   * handlers share the role.
   */
  static final List<String> ENGINE =
      List.of(
          "plan_cache_mode = force_generic_plan",
          "enable_seqscan = off",
          "enable_sort = off",
          "enable_bitmapscan = off",
          "jit = off");

  private static final String LIMIT = "statement_timeout = '30s'";

  private static final String IN_FORCE = "SELECT current_setting(?)";

  private Ears() {}

  static List<Finding> look(Connection connection, Patient patient) {
    if (!patient.listens()) {
      return List.of(Finding.ok("listen", "WAYBILL_LISTEN_URL=none: polls, as it was told"));
    }
    @Nullable Login other = patient.listenLogin();
    try {
      if (hears(connection, other == null ? patient.login() : other)) {
        return List.of(Finding.ok("listen", "wake-ups arrive"));
      }
      var findings = new ArrayList<Finding>();
      findings.add(
          Finding.warn(
              "listen",
              "LISTEN is accepted and nothing arrives (PgBouncer in transaction mode?): an idle"
                  + " pool finds new work up to half a second later",
              "let WAYBILL_LISTEN_URL name the database itself, or none"));
      pooled(connection, patient, findings);
      return findings;
    } catch (SQLException failure) {
      return List.of(
          Finding.warn(
              "listen",
              "not connected to listen: " + Ask.reason(failure) + "; pools poll meanwhile",
              "see WAYBILL_LISTEN_URL"));
    }
  }

  private static boolean hears(Connection connection, Login login) throws SQLException {
    String word = Long.toHexString(ThreadLocalRandom.current().nextLong());
    try (Connection ear = Doctor.connect(login);
        Statement listen = ear.createStatement()) {
      boolean _ = listen.execute(LISTEN);
      say(connection, word);
      PGNotification[] heard = ear.unwrap(PGConnection.class).getNotifications(WITHIN_MILLIS);
      for (PGNotification one : heard == null ? new PGNotification[0] : heard) {
        if (one.getParameter().equals(word)) {
          return true;
        }
      }
      return false;
    }
  }

  private static void say(Connection connection, String word) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(NOTIFY)) {
      statement.setString(1, CHANNEL);
      statement.setString(2, word);
      boolean _ = statement.execute();
    }
    connection.commit();
  }

  private static void pooled(Connection connection, Patient patient, List<Finding> findings)
      throws SQLException {
    var lost = new ArrayList<String>();
    for (String setting : ENGINE) {
      String[] parts = setting.split(" = ", 2);
      if (!Ask.text(connection, IN_FORCE, parts[0]).equals(parts[1])) {
        lost.add("ALTER ROLE " + patient.login().user() + " SET " + setting + ";");
      }
    }
    if (Ask.text(connection, IN_FORCE, "statement_timeout").equals("0")) {
      lost.add("ALTER ROLE " + patient.login().user() + " SET " + LIMIT + ";");
    }
    connection.rollback();
    if (!lost.isEmpty()) {
      findings.add(
          Finding.wrong(
              "listen",
              "behind this pooler the role lacks "
                  + lost.size()
                  + " of the engine's settings: plans may flip and locks be held for long",
              String.join(" ", lost)));
    }
  }
}
