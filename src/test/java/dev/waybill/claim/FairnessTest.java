package dev.waybill.claim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class FairnessTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);

  private void flood(int n) throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (plain, kind, tenant, run_at)
        SELECT false, 'k', 'flood', now() - interval '1 hour' FROM generate_series(1, ?)
        """,
        n);
  }

  @Test
  void one_tenants_flood_does_not_stand_before_another() throws SQLException {
    flood(50_000);
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    assertEquals(64, claimer.claim(64).size());
    DB.execute(
        "INSERT INTO waybill.jobs (kind, tenant) SELECT 'k', 'small' FROM generate_series(1, 10)");
    claimer.sweep();
    long others = 0;
    for (int i = 0; i < 3; i++) {
      others += claimer.claim(20).stream().filter(job -> job.tenant().equals("small")).count();
    }
    assertEquals(10, others, "the small tenant's jobs in the first three claims");
  }

  @Test
  void a_flood_of_better_priority_does_not_stand_before_another_tenant() throws SQLException {
    flood(1_000);
    DB.execute("UPDATE waybill.jobs SET priority = -10");
    DB.execute("INSERT INTO waybill.jobs (kind, tenant, priority) VALUES ('k', 'small', 10)");
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    List<Claimed> two = new ArrayList<>(claimer.claim(16));
    two.addAll(claimer.claim(16));
    assertEquals(1, two.stream().filter(job -> job.tenant().equals("small")).count());
  }

  /** After a rollback of a build, for instance. */
  @Test
  void lanes_that_this_build_cannot_read_do_not_stand_before_those_it_can() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, tenant, payload_version)
        SELECT 'k', 'new' || t, 9 FROM generate_series(1, 20) t
        """);
    DB.execute("INSERT INTO waybill.jobs (kind, tenant) VALUES ('k', 'old')");
    Claimer claimer = jobs.claimer("k");
    int claimed = 0;
    for (int round = 0; round < 8; round++) {
      claimer.sweep();
      for (int i = 0; i < 4; i++) {
        claimed += claimer.claim(16).size();
      }
    }
    assertEquals(1, claimed);
  }

  @Test
  void many_tenants_take_turns() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, tenant)
        SELECT 'k', 't' || t FROM generate_series(1, 50) t, generate_series(1, 40)
        """);
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    var served = new HashSet<String>();
    for (int i = 0; i < 50; i++) {
      claimer.claim(10).forEach(job -> served.add(job.tenant()));
      if (i % 10 == 0) {
        claimer.sweep();
      }
    }
    assertEquals(50, served.size(), "tenants served by 50 claims");
  }

  @Test
  void a_lone_tenant_gets_all_slots() throws SQLException {
    flood(600);
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    assertEquals(500, claimer.claim(500).size());
  }

  @Test
  void kinds_of_one_pool_take_turns() throws SQLException {
    DB.enqueue("a", 5_000);
    DB.enqueue("b", 3);
    Claimer claimer = jobs.claimer("a", "b");
    claimer.sweep();
    long b = 0;
    for (int i = 0; i < 2; i++) {
      b += claimer.claim(16).stream().filter(job -> job.kind().equals("b")).count();
    }
    assertTrue(b > 0, "the rare kind waits for the frequent one");
  }

  /** Tenants that were always there would otherwise keep those behind them from ever being seen. */
  @Test
  void more_lanes_than_a_sweep_notes_are_all_noted_in_turn() throws SQLException {
    DB.execute(
        "INSERT INTO waybill.jobs (kind, tenant) SELECT 'k', t FROM generate_series(10, 34) t");
    DB.execute("INSERT INTO waybill.jobs (kind, tenant) VALUES ('rare', 'a'), ('rare', 'b')");
    var sweep = new Sweep(10);
    var noted = new HashSet<String>();
    for (int i = 0; i < 4; i++) {
      List<Lane> found =
          DB.database().run(c -> sweep.of(c, Map.of("k", 1, "rare", 1, "none", 1), null));
      assertEquals(10, found.size());
      assertEquals(2, found.stream().filter(lane -> lane.kind().equals("rare")).count());
      found.forEach(lane -> noted.add(lane.kind() + lane.tenant()));
    }
    assertEquals(27, noted.size(), "lanes that some sweep noted");
    DB.execute("DELETE FROM waybill.jobs WHERE kind = 'k' AND tenant > '12'");
    assertEquals(
        5, DB.database().run(c -> sweep.of(c, Map.of("k", 1, "rare", 1), null)).size(), "all");
  }
}
