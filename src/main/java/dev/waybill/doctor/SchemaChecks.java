package dev.waybill.doctor;

import dev.waybill.db.Schema;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;

/** The schema as the migrations left it. */
final class SchemaChecks {

  /** The newest migration of this build; a test compares it with the files. */
  static final int NEWEST = 20;

  private static final String IS_THERE =
      """
      SELECT count(*) = 2 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'waybill' AND c.relname IN ('schema_history', 'jobs')
      """;

  private static final String MAY_NOT =
      """
      SELECT NOT has_schema_privilege('waybill', 'USAGE') OR NOT has_table_privilege(c.oid, 'SELECT')
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'waybill' AND c.relname = 'schema_history'
      """;

  private static final String AT =
      "SELECT coalesce(max(h.version::int) FILTER (WHERE h.success), 0) FROM waybill.schema_history h WHERE h.version IS NOT NULL";

  private static final String FAILED =
      "SELECT h.version FROM waybill.schema_history h WHERE NOT h.success ORDER BY h.installed_rank";

  private static final String MIGRATE = "run this build once with WAYBILL_MIGRATE=only";

  private SchemaChecks() {}

  static List<Finding> version(Connection connection, Patient patient) throws SQLException {
    if (!Ask.truth(connection, IS_THERE)) {
      return List.of(
          Finding.wrong(
              "schema",
              "the database is not migrated: there is no schema waybill in it",
              MIGRATE + " as a role that may create in this database"));
    }
    if (Ask.truth(connection, MAY_NOT)) {
      String role = patient.login().user();
      return List.of(
          Finding.wrong(
              "schema",
              "role " + role + " may not use the schema waybill",
              "GRANT USAGE ON SCHEMA waybill TO "
                  + role
                  + "; GRANT SELECT ON waybill.schema_history TO "
                  + role
                  + "; -- and see README.md for the other rights of the service's role"));
    }
    List<String> failed = Ask.rows(connection, row -> row.getString(1), FAILED);
    if (!failed.isEmpty()) {
      return List.of(
          Finding.wrong("schema", "migration " + failed.getFirst() + " failed half-way", MIGRATE));
    }
    int at = Integer.parseInt(Ask.text(connection, AT));
    return at < NEWEST
        ? List.of(
            Finding.wrong(
                "schema", "is at version " + at + ", this build needs " + NEWEST, MIGRATE))
        : List.of(
            Finding.ok(
                "schema",
                "version " + at + (at > NEWEST ? ", of a newer build than this one" : "")));
  }

  static List<Finding> storage(Connection connection, Patient patient) throws SQLException {
    List<Finding> lost =
        Schema.missingOptions(connection).stream()
            .filter(option -> option.startsWith("waybill."))
            .map(option ->
                Finding.wrong(
                    "storage",
                    option.substring(0, option.indexOf(' '))
                        + " lost a setting that keeps vacuum ahead of the dead rows",
                    "ALTER TABLE " + option + ";"))
            .toList();
    return lost.isEmpty()
        ? List.of(Finding.ok("storage", "autovacuum settings of the hot tables are in place"))
        : lost;
  }
}
