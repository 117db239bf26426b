package dev.waybill;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.waybill.claim.Claimer;
import dev.waybill.claim.Leases;
import dev.waybill.claim.Promoter;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.policy.Policies;
import dev.waybill.retain.Reaper;
import dev.waybill.settle.Holder;
import dev.waybill.settle.ResultWriter;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The rooms that most tests walk a job through, put together by hand. */
public final class TestJobs {

  private final TestDatabase db;
  private final Policies policies;

  public TestJobs(TestDatabase db) {
    this.db = db;
    this.policies = new Policies(db.database());
  }

  public Policies policies() {
    return policies;
  }

  public Claimer claimer(String... kinds) {
    var versions = new HashMap<String, Integer>();
    for (String kind : kinds) {
      versions.put(kind, 1);
    }
    return new Claimer(db.database(), policies, "tester", versions);
  }

  /** Sweeps and claims, with a claimer that knew nothing before. */
  public List<Claimed> claim(String kind, int max) throws SQLException {
    Claimer claimer = claimer(kind);
    claimer.sweep();
    return claimer.claim(max);
  }

  public Claimed claimOne(String kind) throws SQLException {
    return claim(kind, 1).getFirst();
  }

  /** A job of this kind, enqueued and claimed. */
  public Claimed running(String kind) throws SQLException {
    long id = db.enqueue(kind);
    Claimed job = claimOne(kind);
    if (job.id() != id) {
      throw new AssertionError("another one was there before");
    }
    return job;
  }

  public int promote() throws SQLException {
    return new Promoter(db.database()).promote().promoted();
  }

  /** Its time has come, and it was promoted. */
  public void due(long id) throws SQLException {
    db.execute("UPDATE waybill.jobs SET run_at = now() - interval '1 second' WHERE id = ?", id);
    promote();
  }

  /** Its lease ran out a second ago. */
  public void leaseOver(long id) throws SQLException {
    db.execute(
        "UPDATE waybill.jobs SET lease_until = now() - interval '1 second' WHERE id = ?", id);
  }

  /** Its lease was lost, and somebody else has it now. */
  public Claimed claimedAgain(Claimed job) throws SQLException {
    leaseOver(job.id());
    new Reaper(db.database()).reap();
    return claimOne(job.kind());
  }

  public Settler settler() {
    return new Settler(db.database(), policies, new ResultWriter(new ObjectMapper()));
  }

  /** Settles in a transaction of its own and answers whether the lease was ours. */
  public boolean settle(Claimed job, Outcome outcome) throws SQLException {
    Settler settler = settler();
    return db.database().transaction(connection -> settler.settleIn(connection, job, outcome));
  }

  public boolean settleIn(Connection connection, Claimed job, Outcome outcome) throws SQLException {
    return settler().settleIn(connection, job, outcome);
  }

  /** Through the queue of a settler that was started. */
  public static Settled settle(Settler settler, Claimed job, Outcome outcome) {
    return hand(settler, job, outcome).join();
  }

  public static CompletableFuture<Settled> hand(Settler settler, Claimed job, Outcome outcome) {
    settler.expect(1);
    return handExpected(settler, job, outcome);
  }

  /** The same, where the settler was told before how many there will be. */
  public static CompletableFuture<Settled> handExpected(
      Settler settler, Claimed job, Outcome outcome) {
    return handExpected(settler, job, outcome, false);
  }

  public static CompletableFuture<Settled> handExpected(
      Settler settler, Claimed job, Outcome outcome, boolean mayWait) {
    var told = new CompletableFuture<Settled>();
    settler.settle(job, outcome, holder(job.leaseEndNanos(), mayWait, told));
    return told.orTimeout(60, TimeUnit.SECONDS);
  }

  /** Completes it with what is told. */
  public static Holder holder(
      long leaseEndNanos, boolean mayWait, CompletableFuture<Settled> hears) {
    return new Holder() {
      @Override
      public long leaseEndNanos() {
        return leaseEndNanos;
      }

      @Override
      public boolean mayWait() {
        return mayWait;
      }

      @Override
      public void told(Settled how) {
        boolean _ = hears.complete(how);
      }
    };
  }

  public static Leases.Held held(Claimed job) {
    return new Leases.Held(job.id(), job.token(), job.leaseMillis(), null);
  }
}
