package dev.waybill.doctor;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** What the role may do, asked of the catalogue: nothing is tried. */
final class Rights {

  /** A log is only added to, and who may read tokens need not change them. */
  private static final String TABLES =
      """
      SELECT format('GRANT %s ON %s TO %I;', string_agg(r.word, ', ' ORDER BY r.n), c.oid::regclass, current_user)
      FROM pg_class c CROSS JOIN (VALUES (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE'), (4, 'DELETE')) AS r(n, word)
      WHERE c.relnamespace = 'waybill'::regnamespace
        AND c.relname IN ('jobs', 'jobs_done', 'jobs_dead', 'claims', 'tally', 'arrivals', 'arrivals_whole', 'counts', 'kinds', 'waiting', 'rates', 'turns', 'workers', 'figures_past', 'idempotency')
        AND NOT has_table_privilege(c.oid, r.word)
      GROUP BY c.oid ORDER BY c.oid
      """;

  /** What gives the others their rights is for the owner alone. */
  private static final String FUNCTIONS =
      """
      SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I;', p.oid::regprocedure, current_user) FROM pg_proc p
      WHERE p.pronamespace = 'waybill'::regnamespace AND p.prorettype <> 'trigger'::regtype
        AND p.proname <> 'give_roles_their_rights' AND NOT has_function_privilege(p.oid, 'EXECUTE')
      ORDER BY p.proname
      """;

  private static final String OWNER =
      """
      SELECT pg_get_userbyid(c.relowner) FROM pg_class c
      WHERE c.oid = 'waybill.jobs_done'::regclass AND NOT pg_has_role(c.relowner, 'USAGE')
      """;

  /** EXECUTE is PUBLIC's for each new function; the migrations take it away. */
  private static final String PUBLIC =
      """
      SELECT p.oid::regprocedure FROM pg_proc p
      WHERE p.pronamespace = 'waybill'::regnamespace AND p.prosecdef AND has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY 1
      """;

  private static final int NAMED_MAX = 3;

  private Rights() {}

  static List<Finding> look(Connection connection, Patient patient) throws SQLException {
    String role = patient.login().user();
    var findings = new ArrayList<Finding>();
    List<String> tables = Ask.rows(connection, row -> row.getString(1), TABLES);
    if (!tables.isEmpty()) {
      findings.add(
          Finding.wrong(
              "rights",
              "role " + role + " may not do with the tables what claiming and settling does",
              some(tables)));
    }
    List<String> functions = Ask.rows(connection, row -> row.getString(1), FUNCTIONS);
    if (!functions.isEmpty()) {
      findings.add(
          Finding.wrong(
              "rights",
              "role " + role + " may not call " + functions.size() + " of waybill's functions",
              some(functions)));
    }
    List<String> owner = Ask.rows(connection, row -> row.getString(1), OWNER);
    if (!owner.isEmpty() && patient.maintains()) {
      findings.add(
          Finding.wrong(
              "rights",
              "role "
                  + role
                  + " is not the owner of waybill.jobs_done: past days cannot be dropped",
              "GRANT "
                  + owner.getFirst()
                  + " TO "
                  + role
                  + "; or leave maintenance out of WAYBILL_ROLES here"));
    }
    List<String> open = Ask.rows(connection, row -> row.getString(1), PUBLIC);
    if (!open.isEmpty()) {
      findings.add(
          Finding.warn(
              "rights",
              "every role of this database may call " + open.getFirst(),
              "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA waybill FROM PUBLIC;"));
    }
    return findings.isEmpty()
        ? List.of(
            Finding.ok(
                "rights",
                "role "
                    + role
                    + (owner.isEmpty()
                        ? " may claim, settle and keep house"
                        : " may claim and settle; keeping house is for " + owner.getFirst())))
        : findings;
  }

  private static String some(List<String> grants) {
    String named = String.join(" ", grants.subList(0, Math.min(NAMED_MAX, grants.size())));
    return grants.size() <= NAMED_MAX
        ? named
        : named + " -- and " + (grants.size() - NAMED_MAX) + " more";
  }
}
