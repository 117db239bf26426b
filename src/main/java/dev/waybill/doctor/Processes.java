package dev.waybill.doctor;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** Who works on this queue. */
final class Processes {

  private static final String ROLES =
      """
      SELECT r.role, count(w.process) FROM (VALUES ('api'), ('worker'), ('maintenance')) AS r(role)
      LEFT JOIN waybill.workers w ON r.role = ANY (w.roles) AND w.seen_at > now() - interval '20 seconds' AND NOT w.draining
      GROUP BY r.role ORDER BY r.role
      """;

  private static final String LIVE =
      "SELECT count(*) FROM waybill.workers w WHERE w.seen_at > now() - interval '20 seconds'";

  private static final String CAPACITY =
      """
      SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(nullif(current_setting('reserved_connections', true), '')::int, 0)
      """;

  private static final String BOUND =
      """
      SELECT least(nullif(r.rolconnlimit, -1), nullif(d.datconnlimit, -1)) FROM pg_roles r, pg_database d
      WHERE r.rolname = current_user AND d.datname = current_database()
      """;

  private record Role(String name, long processes) {}

  private Processes() {}

  static List<Finding> look(Connection connection, Patient patient) throws SQLException {
    List<Role> roles =
        Ask.rows(connection, row -> new Role(row.getString(1), row.getLong(2)), ROLES);
    long all = roles.stream().mapToLong(Role::processes).sum();
    if (all == 0) {
      return List.of(
          Finding.warn(
              "processes",
              "no process of Waybill told of itself in the last 20 seconds: nothing is run",
              "start the service on this database"));
    }
    var findings = new ArrayList<Finding>();
    for (Role role : roles) {
      if (role.processes() == 0 && !role.name().equals("api")) {
        findings.add(
            new Finding(
                role.name().equals("maintenance") ? Verdict.WRONG : Verdict.WARN,
                "processes",
                "none has the role "
                    + role.name()
                    + (role.name().equals("maintenance")
                        ? ": lost leases are not taken back, no partition is made or dropped"
                        : ": only workers elsewhere, by /v1/leases, run jobs"),
                "start one with WAYBILL_ROLES=" + role.name()));
      }
    }
    if (findings.isEmpty()) {
      var words = roles.stream().map(role -> role.processes() + " " + role.name()).toList();
      findings.add(Finding.ok("processes", String.join(", ", words)));
    }
    return findings;
  }

  /** Each process is taken to be set up like this one. */
  static List<Finding> connections(Connection connection, Patient patient) throws SQLException {
    long processes = Math.max(1, Long.parseLong(Ask.text(connection, LIVE)));
    long capacity = Long.parseLong(Ask.text(connection, CAPACITY));
    String bound = Ask.text(connection, BOUND);
    if (!bound.equals("null")) {
      capacity = Math.min(capacity, Long.parseLong(bound));
    }
    long each = patient.connections();
    String says =
        processes
            + (processes == 1 ? " process" : " processes")
            + " of up to "
            + each
            + " connections each, the server grants "
            + capacity;
    String mend =
        "fewer by WAYBILL_DB_CONNECTIONS and WAYBILL_DB_ENGINE_CONNECTIONS, a higher"
            + " max_connections, or PgBouncer between";
    if (processes * each > capacity) {
      return List.of(
          Finding.wrong("connections", says + ": some are refused under full load", mend));
    }
    if ((processes + 1) * each > capacity) {
      return List.of(
          Finding.warn(
              "connections", says + ": not enough for one more, as a rolling update has it", mend));
    }
    return List.of(Finding.ok("connections", says));
  }
}
