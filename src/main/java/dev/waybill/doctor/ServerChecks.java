package dev.waybill.doctor;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** The server, whether Waybill's schema is in it or not. */
final class ServerChecks {

  private static final int VERSION_MIN = 15;

  private static final String PRIMARY =
      "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'";

  /** A NULL is a server that does not know it. */
  private static final String SETTING = "SELECT current_setting(?, true)";

  private static final String TLS =
      "SELECT coalesce((SELECT s.ssl FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()), false)";

  private static final String LOCAL =
      "SELECT inet_client_addr() IS NULL OR inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1'";

  /** Where this session has it from, which is where it has to be changed. */
  private static final String HOW =
      """
      SELECT CASE s.source
        WHEN 'database' THEN format('ALTER DATABASE %I SET %I = %L;', current_database(), s.name, ?::text)
        WHEN 'user' THEN format('ALTER ROLE %I SET %I = %L;', current_user, s.name, ?::text)
        WHEN 'database user' THEN format('ALTER ROLE %I IN DATABASE %I SET %I = %L;', current_user, current_database(), s.name, ?::text)
        WHEN 'client' THEN format('take options=-c %s out of WAYBILL_DB_URL', s.name)
        WHEN 'command line' THEN format('start the server without -c %s=%s', s.name, s.setting)
        ELSE format('ALTER SYSTEM SET %I = %L; ', s.name, ?::text)
          || CASE WHEN s.context = 'postmaster' THEN '-- then restart the server' ELSE 'SELECT pg_reload_conf();' END
      END
      FROM pg_settings s WHERE s.name = ?
      """;

  private record Wanted(
      String name, String wrongValue, Verdict verdict, String why, String right) {}

  /** What must not be so. */
  private static final List<Wanted> NOT =
      List.of(
          new Wanted(
              "fsync",
              "off",
              Verdict.WRONG,
              "a power cut or a crash of the machine can lose or damage everything",
              "on"),
          new Wanted(
              "full_page_writes",
              "off",
              Verdict.WRONG,
              "a crash in the middle of a page's write damages it beyond repair",
              "on"),
          new Wanted(
              "synchronous_commit",
              "off",
              Verdict.WRONG,
              "a crash of the server loses jobs whose enqueue was acknowledged",
              "on"),
          new Wanted(
              "autovacuum",
              "off",
              Verdict.WRONG,
              "dead rows pile up and claims become slower by the hour",
              "on"),
          new Wanted(
              "track_counts",
              "off",
              Verdict.WRONG,
              "autovacuum does not see which tables need it",
              "on"),
          new Wanted(
              "wal_level",
              "minimal",
              Verdict.WARN,
              "no replica and no point-in-time recovery is possible",
              "replica"),
          new Wanted(
              "idle_in_transaction_session_timeout",
              "0",
              Verdict.WARN,
              "a transaction that an application forgot holds vacuum back for as long as it lives"
                  + " (the engine's own sessions have a limit)",
              "10min"));

  private ServerChecks() {}

  static List<Finding> version(Connection connection, Patient patient) throws SQLException {
    int major = connection.getMetaData().getDatabaseMajorVersion();
    int minor = connection.getMetaData().getDatabaseMinorVersion();
    String version = "PostgreSQL " + major + "." + minor;
    if (major < VERSION_MIN) {
      return List.of(
          Finding.wrong(
              "version",
              version + " is too old, Waybill needs " + VERSION_MIN + " or newer",
              "upgrade the server"));
    }
    if (major == 18 && minor < 2) {
      return List.of(
          Finding.warn(
              "version",
              version + " can lose rows of concurrent updates",
              "upgrade to 18.2 or newer"));
    }
    return List.of(Finding.ok("version", version));
  }

  static List<Finding> primary(Connection connection, Patient patient) throws SQLException {
    return Ask.truth(connection, PRIMARY)
        ? List.of(
            Finding.wrong(
                "primary",
                "a standby, or default_transaction_read_only is on: nothing can be claimed or settled",
                "let WAYBILL_DB_URL lead to the primary; with several hosts in it add"
                    + " targetServerType=primary"))
        : List.of(Finding.ok("primary", "takes writes"));
  }

  static List<Finding> settings(Connection connection, Patient patient) throws SQLException {
    var findings = new ArrayList<Finding>();
    for (Wanted wanted : NOT) {
      if (Ask.text(connection, SETTING, wanted.name()).equals(wanted.wrongValue())) {
        findings.add(
            new Finding(
                wanted.verdict(),
                "settings",
                wanted.name() + " = " + wanted.wrongValue() + ": " + wanted.why(),
                mend(connection, wanted)));
      }
    }
    if (findings.isEmpty()) {
      findings.add(
          Finding.ok(
              "settings",
              String.join(", ", NOT.stream().map(Wanted::name).toList()) + " are as they should"));
    }
    return findings;
  }

  private static String mend(Connection connection, Wanted wanted) throws SQLException {
    String right = wanted.right();
    return Ask.text(connection, HOW, right, right, right, right, wanted.name());
  }

  static List<Finding> tls(Connection connection, Patient patient) throws SQLException {
    if (Ask.truth(connection, TLS)) {
      return List.of(Finding.ok("tls", "the connection is encrypted"));
    }
    return Ask.truth(connection, LOCAL)
        ? List.of(Finding.ok("tls", "not encrypted, and does not leave this machine"))
        : List.of(
            Finding.warn(
                "tls",
                "the connection crosses a network in the clear, payloads and password with it",
                "add sslmode=verify-full to WAYBILL_DB_URL, see README.md"));
  }
}
