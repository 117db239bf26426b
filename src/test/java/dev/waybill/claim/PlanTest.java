package dev.waybill.claim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import java.lang.reflect.Field;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The statements of the engine under the worst statistics: the table was analyzed while it was
 * empty, then 50,000 jobs came. Their generic plans must still read by index or by row address.
 */
class PlanTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);

  @BeforeEach
  void fifty_thousand_jobs_after_the_statistics() throws SQLException {
    DB.execute("ALTER TABLE waybill.jobs SET (autovacuum_enabled = off)");
    DB.execute("ANALYZE waybill.jobs");
    DB.execute(
        """
        INSERT INTO waybill.jobs (plain, kind, tenant, run_at)
        SELECT false, 'k', 't' || n % 7, now() - interval '1 minute' FROM generate_series(1, 50000) n
        """);
  }

  @Test
  void a_claim_takes_no_more_than_asked_for() throws SQLException {
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    // More often than the driver's threshold for server-prepared statements.
    for (int i = 1; i <= 12; i++) {
      assertEquals(5, claimer.claim(5).size());
      assertEquals(5L * i, DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running'"));
    }
  }

  @Test
  void the_generic_plans_read_no_table_whole() throws Exception {
    try (Connection connection = DB.connect()) {
      for (String[] row : STATEMENTS) {
        String plan = plan(connection, sql(row[0], row[1]));
        assertFalse(plan.contains("Seq Scan on jobs"), plan);
        assertTrue(plan.contains(row[2]), plan);
        assertEquals(List.of(), wholeIndexReads(plan), plan);
      }
    }
  }

  /** A pod that starts on a new database keeps the plans it makes there for as long as it runs. */
  @Test
  void plans_made_on_the_empty_table_read_no_table_whole_either() throws Exception {
    DB.execute("TRUNCATE waybill.jobs");
    DB.execute("VACUUM ANALYZE waybill.jobs");
    try (Connection connection = DB.connect()) {
      for (String[] row : STATEMENTS) {
        String plan = plan(connection, sql(row[0], row[1]));
        assertFalse(plan.contains("Seq Scan on jobs"), plan);
        assertEquals(List.of(), wholeIndexReads(plan), plan);
      }
    }
  }

  private static final String[][] STATEMENTS = {
    {"dev.waybill.claim.Claimer", "CLAIM", "jobs_due"},
    {"dev.waybill.claim.Sweep", "SWEEP", "jobs_due"},
    {"dev.waybill.claim.Sweep", "SWEEP_OF_TENANT", "jobs_due"},
    {"dev.waybill.pull.Handing", "READY", "jobs_due"},
    {"dev.waybill.claim.Leases", "EXTEND", "jobs_pkey"},
    {"dev.waybill.claim.Leases", "OURS", "jobs_pkey"},
    {"dev.waybill.claim.Promoter", "PROMOTE", "jobs_scheduled"},
    {"dev.waybill.settle.Statements", "DONE", "jobs_pkey"},
    {"dev.waybill.settle.Statements", "DONE_AND_GONE", "jobs_pkey"},
    {"dev.waybill.settle.Statements", "RETRY", "jobs_pkey"},
    {"dev.waybill.settle.Statements", "GIVE_BACK", "jobs_pkey"},
    {"dev.waybill.settle.Statements", "DEAD", "jobs_pkey"},
    {"dev.waybill.settle.Statements", "ENDED", "jobs_done"},
    {"dev.waybill.retain.Reaper", "GIVE_BACK", "jobs_pkey"},
    {"dev.waybill.retain.Reaper", "BURY", "jobs_pkey"},
    {"dev.waybill.retain.Reaper", "LOOK", "jobs_pkey"},
    {"dev.waybill.retain.Reaper", "OVERDUE", "jobs_pkey"},
    {"dev.waybill.claim.Headroom", "LEFT", "jobs_pkey"},
    {"dev.waybill.claim.Claims", "FORGET_THESE", "jobs_pkey"},
    {"dev.waybill.claim.Claims", "FORGET_ALL", "jobs_pkey"},
    {"dev.waybill.claim.Claims", "FIND_STRAYS", "jobs_pkey"},
  };

  /** A plan made while there are no dead letters takes the youngest index of those that will do. */
  @ParameterizedTest
  @ValueSource(strings = {"jobs_dead_time", "jobs_dead_group", "jobs_dead_tenant_kind"})
  void old_dead_letters_are_found_by_kind_and_time(String youngest) throws Exception {
    String index = DB.text("SELECT indexdef FROM pg_indexes WHERE indexname = '" + youngest + "'");
    DB.execute("DROP INDEX waybill." + youngest);
    DB.execute(index);
    DB.execute("VACUUM ANALYZE waybill.jobs_dead");
    try (Connection connection = DB.connect()) {
      String plan = plan(connection, sql("dev.waybill.retain.Expiry", "DEAD_PAGE"));
      assertTrue(plan.contains("Index Scan using jobs_dead_kind on jobs_dead"), plan);
      assertTrue(plan.contains("TID Cond: (ctid = ANY"), plan);
    }
  }

  /** One by one: beside a list of them it went through the list for each. */
  @ParameterizedTest
  @CsvSource({"Claimer, CLAIM", "Leases, EXTEND"})
  void who_locked_rows_goes_back_to_them(String room, String name) throws Exception {
    try (Connection connection = DB.connect()) {
      String plan = plan(connection, sql("dev.waybill.claim." + room, name));
      assertTrue(plan.contains("Tid Scan on jobs"), plan);
      assertTrue(plan.contains("tid = ctid)"), plan);
      assertFalse(plan.contains("ctid = ANY"), plan);
      assertFalse(plan.contains("Sort"), plan);
    }
  }

  /** A scan of jobs by an index without a condition on it: as bad as reading the table. */
  private static List<String> wholeIndexReads(String plan) {
    String[] lines = plan.split("\n", -1);
    var whole = new ArrayList<String>();
    for (int i = 0; i < lines.length; i++) {
      boolean unbounded = i + 1 == lines.length || !lines[i + 1].contains("Index Cond");
      // The index of scheduled jobs holds what is asked for and no more, or is read from its head.
      if (lines[i].contains("Index")
          && lines[i].contains(" on jobs ")
          && unbounded
          && !lines[i].contains("jobs_scheduled")) {
        whole.add(lines[i].strip());
      }
    }
    return whole;
  }

  private static String plan(Connection connection, String sql) throws SQLException {
    var numbered = new StringBuilder();
    int parameters = 0;
    for (int i = 0; i < sql.length(); i++) {
      char c = sql.charAt(i);
      numbered.append(c == '?' ? "$" + ++parameters : String.valueOf(c));
    }
    try (Statement statement = connection.createStatement()) {
      statement.execute("PREPARE asked AS " + numbered);
      String nulls =
          parameters == 0
              ? ""
              : "(" + String.join(", ", Collections.nCopies(parameters, "NULL")) + ")";
      var plan = new StringBuilder();
      try (var rows = statement.executeQuery("EXPLAIN EXECUTE asked" + nulls)) {
        while (rows.next()) {
          plan.append(rows.getString(1)).append('\n');
        }
      }
      statement.execute("DEALLOCATE asked");
      return plan.toString();
    }
  }

  private static String sql(String owner, String constant) throws ReflectiveOperationException {
    Field field = Class.forName(owner).getDeclaredField(constant);
    field.setAccessible(true);
    return (String) field.get(null);
  }
}
