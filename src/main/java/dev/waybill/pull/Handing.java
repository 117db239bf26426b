package dev.waybill.pull;

import dev.waybill.db.Database;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.policy.Policies;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/** From a claim for many to jobs in single hands, and back when a hand is gone. */
@Singleton
final class Handing {

  private static final Logger LOG = Logger.getLogger(Handing.class);

  /**
   * Which of these have anything ready, for all polls in one statement; a tenant of null stands for
   * any. Plan hazard: one index descent a kind, by {@code due}; as {@code EXISTS} a plan made on
   * the empty table reads every ready row of all kinds. The tenant stands behind the version in the
   * index, so for a tenant it goes from version to version.
   */
  private static final String READY =
      """
      SELECT asked.n FROM unnest(?::text[], ?::text[]) WITH ORDINALITY AS asked(kind, tenant, n) CROSS JOIN LATERAL (
        (SELECT FROM waybill.jobs j
          WHERE asked.tenant IS NULL AND j.due AND j.state = 'ready' AND j.kind = asked.kind
            AND waybill.place(j.kind, j.payload_version) BETWEEN waybill.place(asked.kind, '1') AND waybill.place(asked.kind, '32767')
            AND j.run_at <= now() LIMIT 1)
        UNION ALL
        (WITH RECURSIVE version AS (
          (SELECT j.payload_version FROM waybill.jobs j
            WHERE asked.tenant IS NOT NULL AND j.due AND j.state = 'ready' AND j.kind = asked.kind
              AND waybill.place(j.kind, j.payload_version) BETWEEN waybill.place(asked.kind, '1') AND waybill.place(asked.kind, '32767')
            ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1)
          UNION ALL
          SELECT next.payload_version FROM version CROSS JOIN LATERAL (
            SELECT j.payload_version FROM waybill.jobs j
            WHERE j.due AND j.state = 'ready' AND j.kind = asked.kind
              AND waybill.place(j.kind, j.payload_version) > waybill.place(asked.kind, version.payload_version)
              AND waybill.place(j.kind, j.payload_version) <= waybill.place(asked.kind, '32767')
            ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
          ) next
        )
        SELECT FROM version CROSS JOIN LATERAL (
          SELECT FROM waybill.jobs j WHERE j.due AND j.state = 'ready' AND j.kind = asked.kind AND j.tenant = asked.tenant
            AND waybill.place(j.kind, j.payload_version) = waybill.place(asked.kind, version.payload_version)
            AND waybill.place(j.tenant, j.priority) BETWEEN waybill.place(asked.tenant, '-32768') AND waybill.place(asked.tenant, '32767')
            AND j.run_at <= now() LIMIT 1
        ) theirs LIMIT 1)
      ) one
      """;

  /**
   * A claim gives all its jobs one token, which is safe within one process. Here each job gets its
   * own: whoever holds one must not be able to settle another's. The new lease is the one that was
   * asked for, but no attempt lasts longer than the kind's time limit.
   */
  private static final String HAND =
      """
      WITH handed AS (
        UPDATE waybill.jobs j
        SET token = s.token, worker = s.worker,
          lease_until = least(now() + s.lease_ms * interval '1 millisecond', j.started_at + s.timeout_ms * interval '1 millisecond')
        FROM unnest(?::bigint[], ?::uuid[], ?::uuid[], ?::text[], ?::bigint[], ?::bigint[])
          AS s(id, old_token, token, worker, lease_ms, timeout_ms)
        WHERE j.id = ANY (?) AND j.id = s.id AND j.token = s.old_token
        RETURNING j.id, j.lease_until, j.token, j.kind
      ), noted AS (
        INSERT INTO waybill.claims (token, ids, kinds) SELECT token, ARRAY[id], ARRAY[kind] FROM handed
      )
      SELECT id, lease_until FROM handed
      """;

  private final Database database;
  private final Policies policies;
  private final Settler settler;
  private final PullEvents events;

  @Inject
  Handing(Database database, Policies policies, Settler settler, PullEvents events) {
    this.database = database;
    this.policies = policies;
    this.settler = settler;
    this.events = events;
  }

  /** What is asked together: a kind, of one tenant or (null) of all. */
  record Line(String kind, @Nullable String tenant) {

    // By hand: see docs/native.md.
    @Override
    public boolean equals(@Nullable Object other) {
      return other instanceof Line line
          && kind.equals(line.kind)
          && (tenant == null ? line.tenant == null : tenant.equals(line.tenant));
    }

    @Override
    public int hashCode() {
      return 31 * kind.hashCode() + (tenant == null ? 0 : tenant.hashCode());
    }
  }

  Set<Line> ready(Collection<Line> lines) throws SQLException {
    if (lines.isEmpty()) {
      return Set.of();
    }
    List<Line> asked = List.copyOf(lines);
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(READY)) {
        statement.setArray(
            1, connection.createArrayOf("text", asked.stream().map(Line::kind).toArray()));
        statement.setArray(
            2, connection.createArrayOf("text", asked.stream().map(Line::tenant).toArray()));
        var ready = new HashSet<Line>();
        try (ResultSet rows = statement.executeQuery()) {
          while (rows.next()) {
            ready.add(asked.get(rows.getInt(1) - 1));
          }
        }
        return ready;
      }
    });
  }

  /** They have no attempt left. What cannot be buried now is left to the reaper. */
  void bury(List<Claimed> exhausted) {
    if (exhausted.isEmpty()) {
      return;
    }
    try {
      settle(
          exhausted.stream()
              .map(job ->
                  new Settler.Ended(
                      job, Outcome.dead("no attempt left: the limit is " + job.maxAttempts())))
              .toList());
    } catch (SQLException failure) {
      LOG.warnf(
          "not buried, left to the reaper jobs=%d sqlstate=%s",
          exhausted.size(), failure.getSQLState());
    }
  }

  /** Gives each poll its jobs. What cannot be given goes back. */
  void hand(Map<Poll, List<Claimed>> hands) throws SQLException {
    if (hands.isEmpty()) {
      return;
    }
    var tokens = new HashMap<Long, UUID>();
    hands.values().forEach(hand -> hand.forEach(job -> tokens.put(job.id(), UUID.randomUUID())));
    Map<Long, OffsetDateTime> leases;
    try {
      leases = database.run(c -> hand(c, hands, tokens));
    } catch (SQLException failure) {
      // Written or not, one of the two tokens is right.
      giveBackSoon(
          hands.values().stream()
              .flatMap(List::stream)
              .flatMap(job -> {
                @Nullable UUID token = tokens.get(job.id());
                return token == null ? Stream.of(job) : Stream.of(job, job.withToken(token));
              })
              .toList(),
          Duration.ofMillis(200));
      throw failure;
    }
    hands.forEach((poll, hand) -> give(poll, hand, tokens, leases));
  }

  private void give(
      Poll poll, List<Claimed> hand, Map<Long, UUID> tokens, Map<Long, OffsetDateTime> leases) {
    var jobs = new ArrayList<Leased>(hand.size());
    for (Claimed job : hand) {
      @Nullable UUID token = tokens.get(job.id());
      @Nullable OffsetDateTime until = leases.get(job.id());
      if (token != null && until != null) { // Or it was cancelled meanwhile.
        jobs.add(new Leased(job, token, until));
      }
    }
    if (!jobs.isEmpty() && !poll.give(jobs)) {
      giveBackSoon(jobs);
    }
  }

  private Map<Long, OffsetDateTime> hand(
      Connection connection, Map<Poll, List<Claimed>> hands, Map<Long, UUID> tokens)
      throws SQLException {
    var jobs = new ArrayList<Claimed>();
    var workers = new ArrayList<String>();
    var leases = new ArrayList<Long>();
    hands.forEach((poll, hand) -> {
      @Nullable Duration lease = poll.ask().lease();
      for (Claimed job : hand) {
        jobs.add(job);
        workers.add(poll.ask().worker());
        leases.add(lease == null ? job.leaseMillis() : lease.toMillis());
      }
    });
    try (PreparedStatement statement = connection.prepareStatement(HAND)) {
      Array ids = connection.createArrayOf("int8", jobs.stream().map(Claimed::id).toArray());
      statement.setArray(1, ids);
      statement.setArray(
          2, connection.createArrayOf("uuid", jobs.stream().map(Claimed::token).toArray()));
      statement.setArray(
          3,
          connection.createArrayOf(
              "uuid", jobs.stream().map(job -> tokens.get(job.id())).toArray()));
      statement.setArray(4, connection.createArrayOf("text", workers.toArray()));
      statement.setArray(5, connection.createArrayOf("int8", leases.toArray()));
      statement.setArray(
          6,
          connection.createArrayOf(
              "int8",
              jobs.stream().map(job -> policies.of(job.kind()).timeout().toMillis()).toArray()));
      statement.setArray(7, ids);
      var until = new HashMap<Long, OffsetDateTime>();
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          until.put(rows.getLong(1), rows.getObject(2, OffsetDateTime.class));
        }
      }
      return until;
    }
  }

  /** Nobody waits for these any more. On a thread of its own: the caller may be Vert.x's. */
  void giveBackSoon(List<Leased> jobs) {
    if (!jobs.isEmpty()) {
      giveBackSoon(jobs.stream().map(Leased::held).toList(), Duration.ZERO);
    }
  }

  private void giveBackSoon(List<Claimed> jobs, Duration delay) {
    Thread.ofVirtual()
        .name("pull-back")
        .start(() -> {
          LockSupport.parkNanos(delay.toNanos());
          giveBack(jobs);
        });
  }

  /**
   * Until the database takes it or the leases are over: then the reaper has them, and charges each
   * an attempt.
   */
  private void giveBack(List<Claimed> jobs) {
    long end = jobs.stream().mapToLong(Claimed::leaseEndNanos).max().orElse(0);
    for (long millis = 200; ; millis = Math.min(5_000, 2 * millis)) {
      try {
        settle(jobs.stream().map(job -> new Settler.Ended(job, new Outcome.Release())).toList());
        return;
      } catch (SQLException failure) {
        if (System.nanoTime() - end > 0) {
          LOG.warnf("not given back jobs=%d sqlstate=%s", jobs.size(), failure.getSQLState());
          return;
        }
      }
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(millis));
    }
  }

  private void settle(List<Settler.Ended> ended) throws SQLException {
    database
        .transaction(c -> settler.settleIn(c, ended))
        .forEach(one -> events.settled(one.job(), one.outcome(), Settled.SETTLED));
  }
}
