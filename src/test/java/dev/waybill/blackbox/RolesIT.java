package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The roles of deploy/postgresql/roles.sql. The service runs as waybill_runtime, here and in every
 * other black-box test; this class shows what is special: days come and go, and what each role may
 * not do.
 */
@ExtendWith(Processes.class)
final class RolesIT {

  private static final String INSUFFICIENT = "42501";

  private TestDatabase database = TestPostgres.shared().database("postgres");

  @BeforeEach
  void newDatabase() throws SQLException {
    database = TestPostgres.shared().newDatabase();
  }

  private void as(String role, String sql) throws SQLException {
    try (Connection connection =
            DriverManager.getConnection(database.url(), TestDatabase.USER, "");
        Statement statement = connection.createStatement()) {
      statement.execute("SET SESSION AUTHORIZATION " + role);
      statement.execute(sql);
    }
  }

  private boolean owns(String role) throws SQLException {
    return database.truth(
        "SELECT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'waybill'::regnamespace AND c.relowner = ?::regrole)",
        role);
  }

  private String day(int daysAgo) throws SQLException {
    return database.text(
        "SELECT to_char((now() AT TIME ZONE 'UTC')::date - ?, 'YYYYMMDD')", daysAgo);
  }

  /** Makes a day of the past with finished jobs in it, as the owner would have. */
  private void pastDay(int daysAgo, int jobs) throws SQLException {
    String day = day(daysAgo);
    as(
        "waybill",
        "CREATE TABLE waybill.jobs_done_" + day + " (LIKE waybill.jobs_done INCLUDING INDEXES)");
    as(
        "waybill",
        String.format(
            "ALTER TABLE waybill.jobs_done ATTACH PARTITION waybill.jobs_done_%s FOR VALUES FROM ('%s UTC') TO ('%s UTC')",
            day, day, day(daysAgo - 1)));
    database.execute(
        """
        INSERT INTO waybill.jobs_done (id, run_at, created_at, started_at, finished_at, priority, attempt, crashes, payload_version,
          state, kind, tenant, payload)
        SELECT nextval('waybill.jobs_id_seq'), t, t, t, t, 0, 1, 0, 1, 'done', 'echo', '', '{}'
        FROM generate_series(1, ?) n, (SELECT (((now() AT TIME ZONE 'UTC')::date - ?)::timestamp + interval '12 hours') AT TIME ZONE 'UTC') d(t)
        """,
        jobs,
        daysAgo);
    database.execute(
        "INSERT INTO waybill.tally (kind, what, n) VALUES ('echo', 'enqueued', ?), ('echo', 'done', ?)",
        jobs,
        jobs);
  }

  @Test
  void the_service_makes_days_and_drops_them_without_owning_the_schema() throws Exception {
    assertFalse(owns("waybill_runtime"));
    assertEquals(
        List.of("jobs_done"),
        database.texts(
            "SELECT relname FROM pg_class WHERE relowner = 'waybill_history'::regrole AND relkind IN ('r', 'p')"));
    pastDay(30, 20);
    pastDay(31, 5);
    String last =
        database.text("SELECT name FROM waybill.done_partitions() ORDER BY ends DESC LIMIT 1");
    database.execute("DROP TABLE waybill." + last);
    ServiceProcess service =
        ServiceProcess.on(database)
            .with("WAYBILL_MIGRATE", "never")
            .with("WAYBILL_RETAIN_EVERY", "1s")
            .startReady();
    assertEquals(
        "waybill_runtime",
        database.text(
            "SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name = 'waybill engine' AND datname = current_database()"));
    assertTrue(
        database.truth("SELECT to_regclass('waybill.' || ?) IS NOT NULL", last),
        last + " was made again");
    Awaitility.await("both days are dropped")
        .atMost(ServiceProcess.PATIENCE)
        .until(() ->
            database.number(
                    "SELECT count(*) FROM waybill.done_partitions() WHERE ends < now() - interval '2 days'")
                == 0);
    Awaitility.await("their jobs are counted as purged")
        .atMost(ServiceProcess.PATIENCE)
        .until(() ->
            database.number("SELECT coalesce(sum(n), 0) FROM waybill.tally WHERE what = 'purged'")
                == 25);
    long id = database.enqueue("echo", "{}");
    Awaitility.await("work goes on")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> database.state(id).equals("done"));
    assertEquals(
        List.of(),
        database.texts("SELECT guarantee || ': ' || detail FROM waybill.audit() WHERE NOT ok"));
    assertEquals(
        List.of(),
        service.lines().stream()
            .filter(line -> line.contains("ERROR") || line.contains("WARN"))
            .toList());
  }

  /** A vacuum that is not permitted is a warning and no error: it would not be noticed. */
  @Test
  void the_service_vacuums_its_hot_tables_itself() throws Exception {
    ServiceProcess.on(database).with("WAYBILL_VACUUM_DEAD", "1").startReady();
    List<Long> ids = database.enqueueMany("echo", "{}", 2000);
    Invariants.check(database, EnqueueLog.of(ids));
    Awaitility.await("jobs was vacuumed")
        .atMost(ServiceProcess.PATIENCE)
        .until(() ->
            database.truth(
                "SELECT vacuum_count > 0 FROM pg_stat_user_tables WHERE relid = 'waybill.jobs'::regclass"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiterString = " | ",
      value = {
        "waybill_runtime  | DROP TABLE waybill.jobs",
        "waybill_runtime  | ALTER TABLE waybill.jobs ADD COLUMN x integer",
        "waybill_runtime  | ALTER TABLE waybill.jobs SET (autovacuum_enabled = false)",
        "waybill_runtime  | CREATE TABLE waybill.mine (x integer)",
        "waybill_runtime  | CREATE OR REPLACE FUNCTION waybill.wake(kind text) RETURNS void LANGUAGE sql AS 'SELECT'",
        "waybill_runtime  | DELETE FROM waybill.schema_history",
        "waybill_runtime  | DELETE FROM waybill.audit_log",
        "waybill_runtime  | SELECT waybill.give_roles_their_rights()",
        "waybill_runtime  | SET ROLE waybill",
        "waybill_viewer   | DELETE FROM waybill.jobs",
        "waybill_viewer   | SELECT waybill.enqueue('echo')",
        "waybill_viewer   | SELECT hash FROM waybill.tokens",
        "waybill_viewer   | SELECT token FROM waybill.jobs",
        "waybill_producer | SELECT id FROM waybill.jobs",
        "waybill_producer | SELECT id FROM waybill.all_jobs",
        "waybill_producer | INSERT INTO waybill.jobs (kind) VALUES ('echo')",
        "waybill_producer | SELECT waybill.make_partitions()",
      })
  void what_a_role_may_not_do_is_refused(String role, String sql) {
    var refused = assertThrows(SQLException.class, () -> as(role, sql));
    assertEquals(INSUFFICIENT, refused.getSQLState(), refused.getMessage());
  }

  @Test
  void a_viewer_sees_and_a_producer_enqueues() throws SQLException {
    as("waybill_producer", "SELECT waybill.enqueue('echo')");
    as("waybill_viewer", "SELECT id, payload FROM waybill.all_jobs");
    as("waybill_viewer", "SELECT * FROM waybill.figures_past");
  }

  /** Whoever may write into waybill.leaving may not have any table dropped by it. */
  @Test
  void the_functions_that_act_by_the_owners_right_touch_days_of_the_history_only()
      throws SQLException {
    as("waybill_runtime", "SELECT waybill.close_partition('waybill.jobs')");
    as("waybill_runtime", "SELECT waybill.freeze_partition('waybill.jobs')");
    assertEquals(0, database.number("SELECT count(*) FROM waybill.leaving"));
    assertEquals(
        0,
        database.number(
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'waybill.jobs'::regclass AND tgname IN ('closed', 'frozen')"));
    as(
        "waybill_runtime",
        "INSERT INTO waybill.leaving (partition, name, jobs) VALUES ('waybill.jobs_dead', 'jobs_dead', '{}')");
    as("waybill_runtime", "SELECT * FROM waybill.drop_left('waybill.jobs_dead')");
    assertTrue(database.truth("SELECT to_regclass('waybill.jobs_dead') IS NOT NULL"));
  }

  /** It owns the history table, and may hang on it what it likes; producers write into it. */
  @Test
  void what_the_service_hangs_on_the_history_runs_by_no_right_of_the_owner() throws SQLException {
    var refused =
        assertThrows(
            SQLException.class,
            () ->
                as(
                    "waybill_runtime",
                    """
                    CREATE FUNCTION pg_temp.evil() RETURNS trigger LANGUAGE plpgsql AS
                      'BEGIN DELETE FROM waybill.audit_log; RETURN NULL; END';
                    CREATE TRIGGER evil AFTER INSERT ON waybill.jobs_done
                      FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.evil();
                    SELECT waybill.cancel(waybill.enqueue('echo'))
                    """));
    assertTrue(
        String.valueOf(refused.getMessage()).contains("permission denied for table audit_log"),
        refused::getMessage);
  }

  /** The way of an installation that had one role so far. */
  @Test
  void roles_may_come_after_the_schema_and_the_script_may_run_again() throws Exception {
    TestDatabase late = TestPostgres.shared().emptyDatabase();
    late.execute("CREATE ROLE waybill_of_before LOGIN SUPERUSER");
    try (ServiceProcess migration =
        ServiceProcess.on(late)
            .with("WAYBILL_DB_USER", "waybill_of_before")
            .with("WAYBILL_MIGRATE", "only")
            .start()) {
      assertEquals(0, migration.exitCode(), migration.output());
    }
    late.execute("REASSIGN OWNED BY waybill_of_before TO waybill");
    late.makeRoles();
    late.makeRoles();
    ServiceProcess.on(late)
        .with("WAYBILL_DB_USER", "waybill_runtime")
        .with("WAYBILL_MIGRATE", "never")
        .startReady();
    long id = late.enqueue("echo", "{}");
    Awaitility.await().atMost(ServiceProcess.PATIENCE).until(() -> late.state(id).equals("done"));
  }
}
