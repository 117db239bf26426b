package dev.waybill.db;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import java.sql.SQLException;
import java.util.List;
import org.flywaydb.core.api.FlywayException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class DatabaseTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final String INSERT = "INSERT INTO waybill.jobs (kind) VALUES ('k')";

  private static long jobs() throws SQLException {
    return DB.number("SELECT count(*) FROM waybill.jobs");
  }

  @Test
  void a_transaction_that_ends_well_commits() throws SQLException {
    DB.database().transaction(connection -> TestDatabase.execute(connection, INSERT));
    assertEquals(1, jobs());
  }

  @Test
  void a_transaction_that_throws_rolls_back_whatever_it_throws() throws SQLException {
    for (Throwable failure :
        new Throwable[] {
          new SQLException("x"), new IllegalStateException("x"), new StackOverflowError("x")
        }) {
      assertThrows(
          failure.getClass(),
          () ->
              DB.database()
                  .transaction(connection -> {
                    TestDatabase.execute(connection, INSERT);
                    switch (failure) {
                      case SQLException e -> throw e;
                      case RuntimeException e -> throw e;
                      case Error e -> throw e;
                      default -> throw new IllegalStateException(failure);
                    }
                  }));
      assertEquals(0, jobs(), failure.toString());
    }
  }

  @Test
  void a_storage_setting_that_somebody_reset_is_missed_at_start() throws SQLException {
    assertEquals(List.of(), DB.database().run(Schema::missingOptions));
    assertEquals(
        List.of("waybill.jobs SET (autovacuum_vacuum_threshold=2000)"),
        DB.database()
            .transaction(connection -> {
              TestDatabase.execute(
                  connection, "ALTER TABLE waybill.jobs RESET (autovacuum_vacuum_threshold)");
              List<String> missing = Schema.missingOptions(connection);
              TestDatabase.execute(
                  connection, "ALTER TABLE waybill.jobs SET (autovacuum_vacuum_threshold = 2000)");
              return missing;
            }));
  }

  @Test
  void every_setting_of_the_engines_sessions_is_in_force() throws SQLException {
    String settings = TestDatabase.sessionSettings();
    assertTrue(settings.split("SET ", -1).length > 10, settings);
    assertEquals(List.of(), DB.database().transaction(c -> Session.missing(c, settings)));
  }

  @Test
  void a_setting_that_a_pooler_lost_is_missed() throws SQLException {
    assertEquals(
        List.of("plan_cache_mode = force_generic_plan", "statement_timeout = '8s'"),
        DB.database()
            .transaction(connection -> {
              TestDatabase.execute(connection, "SET LOCAL statement_timeout = '9s'");
              TestDatabase.execute(connection, "SET LOCAL plan_cache_mode = auto");
              return Session.missing(connection, TestDatabase.sessionSettings()).stream()
                  .sorted()
                  .toList();
            }));
  }

  @Test
  void what_the_server_refused_is_said_with_its_hint() {
    var refused =
        assertThrows(
            SQLException.class,
            () ->
                DB.execute(
                    "DO $$ BEGIN RAISE EXCEPTION 'the role is not there' USING HINT = 'Let an administrator make it.'; END $$"));
    assertEquals(
        "the role is not there. Let an administrator make it.",
        Schema.firstLine(new FlywayException("Script V1__waybill.sql failed", refused)));
    assertEquals("no luck", Schema.firstLine(new FlywayException("no luck\nat all")));
  }

  @Test
  void errors_are_known_by_their_code() {
    assertEquals(SqlState.UNREACHABLE, SqlState.of(new SQLException("x")));
    assertEquals(SqlState.UNREACHABLE, SqlState.of(new SQLException("x", "57P01")));
    assertEquals(SqlState.TIMED_OUT, SqlState.of(new SQLException("x", "57014")));
    assertEquals(SqlState.TRY_AGAIN, SqlState.of(new SQLException("x", "40P01")));
    assertEquals(SqlState.TRY_AGAIN, SqlState.of(new SQLException("x", "53300")));
    assertEquals(SqlState.DUPLICATE, SqlState.of(new SQLException("x", "23505")));
    assertEquals(SqlState.BAD_VALUE, SqlState.of(new SQLException("x", "22P05")));
    assertEquals(SqlState.BROKEN, SqlState.of(new SQLException("x", "42P01")));
    assertEquals(SqlState.BROKEN, SqlState.of(new SQLException("x", "28P01")));
    assertEquals(SqlState.UNKNOWN, SqlState.of(new SQLException("x", "P0001")));
    assertEquals(SqlState.UNKNOWN, SqlState.of(new SQLException("x", "XX001")));
    assertEquals(SqlState.TRY_AGAIN, SqlState.of(new SQLException("x", "58030")));
    assertEquals(
        SqlState.UNREACHABLE, SqlState.of(new SQLException("read-only after failover", "25006")));
  }

  @Test
  void a_missing_partition_is_known_from_a_broken_check() throws SQLException {
    for (var name :
        DB.column(
            """
            SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'waybill.jobs_done'::regclass
            """)) {
      DB.execute("DROP TABLE " + name);
    }
    var missing =
        assertThrows(
            SQLException.class,
            () ->
                DB.execute(
                    """
                    INSERT INTO waybill.jobs_done (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, state, kind,
                      tenant, payload)
                    VALUES (1, now(), now(), now(), 0, 1, 0, 1, 'done', 'k', '', '{}')
                    """));
    assertEquals(SqlState.NO_PARTITION, SqlState.of(missing));
    var check =
        assertThrows(
            SQLException.class, () -> DB.execute("INSERT INTO waybill.kinds (kind) VALUES ('K')"));
    assertEquals(SqlState.BAD_VALUE, SqlState.of(check));
    DB.execute("SELECT waybill.make_partitions()");
  }
}
