package dev.waybill.claim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.retain.Reaper;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class LeasesTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);

  private Leases leases() {
    return new Leases(DB.database());
  }

  @Test
  void the_holder_extends_its_lease() throws SQLException {
    Claimed job = jobs.running("k");
    DB.execute("UPDATE waybill.jobs SET lease_until = now() + interval '1 second'");
    assertEquals(Set.of(job.id()), leases().extend(List.of(TestJobs.held(job))));
    assertTrue(DB.is("SELECT lease_until > now() + interval '15 seconds' FROM waybill.jobs"));
  }

  @Test
  void another_token_extends_nothing() throws SQLException {
    Claimed job = jobs.running("k");
    String before = DB.text("SELECT lease_until FROM waybill.jobs");
    var forged = new Leases.Held(job.id(), UUID.randomUUID(), 99_000, null);
    assertEquals(Set.of(), leases().extend(List.of(forged)));
    assertEquals(Set.of(), leases().ours(List.of(forged)));
    assertEquals(before, DB.text("SELECT lease_until FROM waybill.jobs"));
  }

  @Test
  void a_token_of_another_job_extends_nothing() throws SQLException {
    Claimed one = jobs.running("k");
    Claimed two = jobs.running("k");
    var swapped =
        List.of(
            new Leases.Held(one.id(), two.token(), 99_000, null),
            new Leases.Held(two.id(), one.token(), 99_000, null));
    assertEquals(Set.of(), leases().extend(swapped));
    assertEquals(Set.of(), leases().ours(swapped));
  }

  @Test
  void a_lease_that_ran_out_but_was_not_taken_over_can_still_be_extended() throws SQLException {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    assertEquals(Set.of(job.id()), leases().extend(List.of(TestJobs.held(job))));
    new Reaper(DB.database()).reap();
    assertEquals("running", DB.state(job.id()));
  }

  @Test
  void a_holder_whose_lease_was_taken_over_extends_nothing() throws SQLException {
    Claimed first = jobs.running("k");
    Claimed second = jobs.claimedAgain(first);
    assertEquals(first.id(), second.id());
    assertEquals(2, second.attempt());
    jobs.leaseOver(second.id());
    assertEquals(Set.of(), leases().extend(List.of(TestJobs.held(first))));
    assertTrue(DB.is("SELECT lease_until < now() FROM waybill.jobs"));
    assertEquals(Set.of(second.id()), leases().ours(List.of(TestJobs.held(second))));
  }

  @Test
  void progress_is_written_with_the_heartbeat_and_kept_until_there_is_more() throws SQLException {
    Claimed job = jobs.running("k");
    leases().extend(List.of(new Leases.Held(job.id(), job.token(), 30_000, "{\"fraction\": 0.5}")));
    leases().extend(List.of(TestJobs.held(job)));
    assertEquals("0.5", DB.text("SELECT progress ->> 'fraction' FROM waybill.all_jobs"));
  }

  @Test
  void a_lease_locked_by_somebody_is_passed_by_and_still_ours() throws SQLException {
    Claimed locked = jobs.running("k");
    Claimed free = jobs.running("k");
    var both = List.of(TestJobs.held(locked), TestJobs.held(free));
    try (Connection other = DB.connect()) {
      other.setAutoCommit(false);
      TestDatabase.column(
          other, "SELECT id FROM waybill.jobs WHERE id = ? FOR UPDATE", locked.id());
      assertEquals(Set.of(free.id()), leases().extend(both));
      assertEquals(Set.of(locked.id(), free.id()), leases().ours(both));
      other.rollback();
      other.setAutoCommit(true);
    }
  }

  @Test
  void a_cancelled_job_is_not_ours_any_more() throws SQLException {
    Claimed job = jobs.running("k");
    assertTrue(DB.is("SELECT waybill.cancel(?)", job.id()));
    assertEquals(Set.of(), leases().extend(List.of(TestJobs.held(job))));
    assertEquals(Set.of(), leases().ours(List.of(TestJobs.held(job))));
  }

  /** They take the same rows in opposite orders, again and again: nobody may wait for the other. */
  @Test
  void heartbeats_and_settles_of_the_same_jobs_do_not_deadlock() throws Exception {
    DB.enqueue("k", 400);
    List<Claimed> all = jobs.claim("k", 400);
    var backwards = all.reversed().stream().map(TestJobs::held).toList();
    String deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    long before = DB.number(deadlocks);
    var beating =
        CompletableFuture.runAsync(() -> {
          try {
            while (DB.number("SELECT count(*) FROM waybill.jobs") > 0) {
              leases().extend(backwards);
            }
          } catch (SQLException e) {
            throw new IllegalStateException(e);
          }
        });
    for (int i = 0; i < all.size(); i += 20) {
      List<Claimed> some = all.subList(i, i + 20);
      try (Connection connection = DB.connect()) {
        connection.setAutoCommit(false);
        for (Claimed job : some) {
          assertTrue(jobs.settleIn(connection, job, Outcome.done()));
        }
        connection.commit();
        connection.setAutoCommit(true);
      }
    }
    beating.get();
    assertEquals(400, DB.number("SELECT count(*) FROM waybill.jobs_done WHERE state = 'done'"));
    assertEquals(before, DB.number(deadlocks));
  }
}
