package dev.waybill.db;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import io.agroal.api.AgroalDataSource;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.SocketFactory;
import org.awaitility.Awaitility;
import org.flywaydb.core.api.FlywayException;
import org.jspecify.annotations.Nullable;
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

  /** Sockets on which the next read may find no stack any more. */
  public static final class Shallow extends SocketFactory {

    static final AtomicBoolean NEXT = new AtomicBoolean();

    @Override
    public Socket createSocket() {
      return new Socket() {
        @Override
        public InputStream getInputStream() throws IOException {
          return new FilterInputStream(super.getInputStream()) {
            @Override
            public int read(byte[] buffer, int from, int length) throws IOException {
              if (NEXT.compareAndSet(true, false)) {
                throw new StackOverflowError("in the middle of an answer");
              }
              return super.read(buffer, from, length);
            }
          };
        }
      };
    }

    @Override
    public Socket createSocket(String host, int port) {
      throw new UnsupportedOperationException();
    }

    @Override
    public Socket createSocket(String host, int port, InetAddress from, int fromPort) {
      throw new UnsupportedOperationException();
    }

    @Override
    public Socket createSocket(InetAddress host, int port) {
      throw new UnsupportedOperationException();
    }

    @Override
    public Socket createSocket(InetAddress host, int port, InetAddress from, int fromPort) {
      throw new UnsupportedOperationException();
    }
  }

  private static List<@Nullable String> say(Connection connection, String what)
      throws SQLException {
    return TestDatabase.column(connection, "SELECT ?", what);
  }

  @Test
  void nobody_reads_the_answer_that_an_error_cut_off() throws SQLException {
    try (AgroalDataSource pool = DB.over(Shallow.class)) {
      var database = new Database(pool);
      assertEquals(List.of("before"), database.run(c -> say(c, "before")));
      for (int i = 0; i < 100; i++) { // More than the pool has: each has its place there again.
        String theirs = "theirs " + i;
        String ours = "ours " + i;
        Shallow.NEXT.set(true);
        StackOverflowError _ =
            assertThrows(
                StackOverflowError.class,
                i % 2 == 0
                    ? () -> database.run(c -> say(c, theirs))
                    : () -> database.transaction(c -> say(c, theirs)));
        assertEquals(List.of(ours), database.run(c -> say(c, ours)));
      }
    }
  }

  @Test
  void a_connection_on_which_an_error_came_is_used_by_nobody_else() throws SQLException {
    try (AgroalDataSource pool = DB.apart("errors")) {
      var database = new Database(pool);
      Database.Work<String> pid =
          c -> String.valueOf(TestDatabase.column(c, "SELECT pg_backend_pid()").getFirst());
      String first = database.run(pid);
      var pids = new ArrayList<>(List.of(first));
      OutOfMemoryError _ =
          assertThrows(
              OutOfMemoryError.class,
              () ->
                  database.transaction(c -> {
                    TestDatabase.execute(c, INSERT);
                    pids.add(pid.on(c));
                    throw new OutOfMemoryError("x");
                  }));
      assertEquals(List.of(first, first), pids, "the pool gives the same again");
      assertNotEquals(first, database.run(pid));
      Awaitility.await("its backend ends")
          .until(() ->
              DB.is("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ?::int)", first));
      assertEquals(0, jobs());
      // What the work itself refuses costs no connection.
      String second = database.run(pid);
      IllegalStateException _ =
          assertThrows(
              IllegalStateException.class,
              () ->
                  database.transaction(c -> {
                    throw new IllegalStateException("x");
                  }));
      assertEquals(second, database.run(pid));
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
