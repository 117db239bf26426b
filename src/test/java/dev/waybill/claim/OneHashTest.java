package dev.waybill.claim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Policy;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Lanes lie in the index by hashes of kind and tenant. Here all have the same one. */
class OneHashTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final String KIND = "k";
  private static final String OTHER = "other";

  private final TestJobs jobs = new TestJobs(DB);

  @BeforeEach
  void all_have_one_hash() throws SQLException {
    DB.execute("DROP INDEX waybill.jobs_due");
    DB.execute(
        """
        CREATE OR REPLACE FUNCTION waybill.place(name text, number smallint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
        RETURN hashtextextended('', 0) + number
        """);
    DB.execute(
        """
        CREATE INDEX jobs_due ON waybill.jobs ((hashtextextended('', 0) + payload_version), (hashtextextended('', 0) + priority), run_at, id)
        WITH (deduplicate_items = off) WHERE due
        """);
  }

  private void enqueue(String kind, String tenant, int priority, int n) throws SQLException {
    DB.execute(
        "SELECT waybill.enqueue(?, '{}', ?, ?) FROM generate_series(1, ?)",
        kind,
        tenant,
        priority,
        n);
  }

  private static List<Claimed> all(Claimer claimer) throws SQLException {
    var all = new ArrayList<Claimed>();
    claimer.sweep();
    while (claimer.knowsMore()) {
      all.addAll(claimer.claim(7));
      if (!claimer.knowsMore()) {
        claimer.sweep();
      }
    }
    return all;
  }

  @Test
  void each_job_is_claimed_once_as_what_it_is() throws SQLException {
    for (String kind : List.of(KIND, OTHER)) {
      enqueue(kind, "a", 0, 30);
      enqueue(kind, "b", -3, 5);
      enqueue(kind, "b", 0, 20);
      enqueue(kind, "a", 0, 10);
    }
    var ids = new HashSet<Long>();
    for (String kind : List.of(KIND, OTHER)) {
      List<Claimed> claimed = all(jobs.claimer(kind));
      assertEquals(65, claimed.size());
      for (Claimed job : claimed) {
        assertTrue(ids.add(job.id()));
        assertTrue(
            DB.is(
                "SELECT (kind, tenant, priority) = (?, ?, ?) AND kind = ? FROM waybill.jobs WHERE id = ?",
                job.kind(),
                job.tenant(),
                job.priority(),
                kind,
                job.id()));
      }
    }
    DB.auditIsClean();
  }

  @Test
  void who_asks_for_one_tenant_gets_only_its_jobs() throws SQLException {
    enqueue(KIND, "a", 0, 3);
    enqueue(KIND, "b", 5, 2);
    enqueue(KIND, "b", -5, 2);
    enqueue(OTHER, "b", 0, 4);
    List<Claimed> claimed =
        all(
            new Claimer(
                DB.database(),
                jobs.policies(),
                "tester",
                Map.of(KIND, 1),
                (Policy _) -> true,
                "b"));
    assertEquals(4, claimed.size());
    for (Claimed job : claimed) {
      assertEquals("b", job.tenant());
      assertEquals(KIND, job.kind());
    }
  }

  @Test
  void a_backlog_is_that_of_one_tenant_and_of_all_its_kinds() throws SQLException {
    DB.text("SELECT waybill.limit_tenant('b', backlog_max => 5)");
    enqueue(KIND, "a", 0, 20);
    enqueue(KIND, "b", 0, 2);
    enqueue(OTHER, "b", 1, 3);
    assertEquals(5, DB.number("SELECT waybill.count_backlog('b', 100)"));
    var refused = assertThrows(SQLException.class, () -> enqueue(KIND, "b", 0, 1));
    assertEquals("WB002", refused.getSQLState());
    DB.text("SELECT waybill.unlimit_tenant('b')");
  }

  @Test
  void the_figures_count_each_kind_for_itself() throws SQLException {
    enqueue(KIND, "a", 0, 3);
    enqueue(OTHER, "b", 0, 4);
    jobs.claim(OTHER, 1);
    assertEquals(
        List.of(KIND + " 3 0", OTHER + " 3 1"),
        DB.column(
            "SELECT concat_ws(' ', kind, ready, running) FROM waybill.figures() ORDER BY kind"));
  }
}
