package dev.waybill.retain;

import dev.waybill.claim.Claims;
import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import dev.waybill.job.Policy;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Gives the jobs of holders that vanished to others, and buries those that have no attempt left.
 */
@Singleton
public final class Reaper {

  private static final Logger LOG = Logger.getLogger(Reaper.class);

  /**
   * The holder is presumed dead: its lease ran out and was not extended. {@code SKIP LOCKED} passes
   * by a row that its late holder is settling at this moment, and the condition is looked at again
   * under the lock: of a late settle and the reaper exactly one wins. Clearing the token is what
   * fences the late holder off.
   *
   * <p>The claims are read whole: they name as many jobs as there are slots. {@code lease_until} is
   * in no index because every heartbeat changes it. Plan hazard: the lock keeps the look into jobs
   * inside of the loop over the claims.
   */
  private static final String LOST =
      """
      SELECT held.id FROM waybill.claims c CROSS JOIN LATERAL (
        SELECT j.id FROM waybill.jobs j WHERE j.id = ANY (c.ids) AND j.token = c.token AND j.state = 'running' AND j.lease_until < now()
          AND j.attempt %s coalesce(j.max_attempts, (SELECT k.max_attempts FROM waybill.kinds k WHERE k.kind = j.kind), ?)
          AND (?::bigint IS NULL OR j.id = ?)
        FOR %s SKIP LOCKED
      ) held
      LIMIT ?
      """;

  /**
   * The crash is counted apart from failures, and the attempt stays used: a job that kills its
   * process must end at its limit.
   */
  private static final String GIVE_BACK =
      """
      WITH lost AS MATERIALIZED (
        %s
      ), back AS (
        UPDATE waybill.jobs j
        SET state = 'ready', token = NULL, lease_until = NULL, worker = NULL, started_at = NULL, progress = NULL,
          crashes = j.crashes + 1, last_error = 'the holder vanished: lease ran out',
          attempts = waybill.with_attempt(j.attempts, j.attempt, j.worker, j.started_at, 'crashed', 'the holder vanished: lease ran out')
        WHERE j.id = ANY (ARRAY(SELECT id FROM lost))
        RETURNING j.kind
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'crashed', count(*) FROM back GROUP BY kind
      )
      SELECT kind, count(*) FROM back GROUP BY kind
      """
          .formatted(LOST.formatted("<", "NO KEY UPDATE"));

  private static final String BURY =
      """
      WITH lost AS MATERIALIZED (
        %s
      ), gone AS (
        DELETE FROM waybill.jobs j WHERE j.id = ANY (ARRAY(SELECT id FROM lost)) RETURNING j.*
      ), buried AS (
        INSERT INTO waybill.jobs_dead (id, run_at, created_at, started_at, finished_at, priority, attempt, max_attempts, crashes,
          payload_version, kind, tenant, payload, dedupe_key, tags, traceparent, worker, last_error, fingerprint, attempts)
        SELECT id, run_at, created_at, started_at, now(), priority, attempt, max_attempts, crashes + 1,
          payload_version, kind, tenant, payload, dedupe_key, tags, traceparent, worker,
          'the holder vanished on the last attempt: lease ran out', waybill.fingerprint('the holder vanished'),
          waybill.with_attempt(attempts, attempt, worker, started_at, 'crashed', 'the holder vanished: lease ran out')
        FROM gone
        RETURNING kind
      )
      SELECT kind, count(*) FROM buried GROUP BY kind
      """
          .formatted(LOST.formatted(">=", "UPDATE"));

  /** Whether there is anything to do: mostly there is not. */
  private static final String LOOK =
      """
      SELECT EXISTS (SELECT FROM waybill.claims), EXISTS (SELECT FROM waybill.running j WHERE j.lease_until < now())
      """;

  private record Look(boolean claims, boolean overdue) {}

  /** For a page that failed. */
  private static final String OVERDUE =
      """
      SELECT j.id FROM waybill.running j WHERE j.lease_until < now() LIMIT ?
      """;

  private static final int PAGE = 500;
  private static final int ONE_BY_ONE_MAX = 5_000;
  private static final int PAGES_MAX = 100;

  private static final List<String> STATEMENTS = List.of(GIVE_BACK, BURY);

  /** Asked after an outage, before anything is reaped. */
  private static final String ANSWERS = "SELECT 1";

  private final Database database;
  private volatile boolean wasAway;

  /** When a beat began, got on by a statement, or ended: one of many statements may take long. */
  private volatile long turnedNanos = System.nanoTime();

  /** Jobs that could not be reaped the last time: said once, not at each beat. */
  private volatile Set<Long> refused = Set.of();

  public Reaper(Database database) {
    this.database = database;
  }

  /**
   * Reaps what there is, page by page, each in a transaction of its own. Answers how many, by kind.
   *
   * <p>While the database was away, nobody could keep a lease: those of holders that live are over
   * as well. So the first call after it does nothing, and they have until the next one to extend
   * their leases and to settle what they finished meanwhile.
   */
  public Map<String, Long> reap() throws SQLException {
    try {
      if (wasAway) {
        boolean _ = database.run(Reaper::answers);
        wasAway = false;
        return Map.of();
      }
      return reapAll();
    } catch (SQLException failure) {
      wasAway |= SqlState.of(failure) == SqlState.UNREACHABLE;
      throw failure;
    }
  }

  private static boolean answers(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ANSWERS)) {
      return statement.execute();
    }
  }

  private Map<String, Long> reapAll() throws SQLException {
    var reaped = new TreeMap<String, Long>();
    Look look = database.run(Reaper::look);
    if (look.overdue()) {
      reapOverdue(reaped);
    } else {
      refused = Set.of();
    }
    turned();
    if (look.claims()) {
      int _ = database.run(c -> Claims.forget(c));
    }
    return reaped;
  }

  private static Look look(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LOOK);
        ResultSet row = statement.executeQuery()) {
      row.next();
      return new Look(row.getBoolean(1), row.getBoolean(2));
    }
  }

  private void reapOverdue(Map<String, Long> reaped) throws SQLException {
    try {
      for (String statement : STATEMENTS) {
        for (int page = 0; page < PAGES_MAX; page++) {
          if (reap(statement, null, PAGE, reaped) < PAGE) {
            break;
          }
        }
      }
      refused = Set.of();
    } catch (SQLException failure) {
      if (!refuses(failure)) {
        throw failure;
      }
      reapOneByOne(reaped);
    }
  }

  /** It is about a job, and no trouble that all of them have. */
  private static boolean refuses(SQLException failure) {
    return switch (SqlState.of(failure)) {
      case BAD_VALUE, DUPLICATE, UNKNOWN -> true;
      case UNREACHABLE, TRY_AGAIN, TIMED_OUT, NO_PARTITION, LIMITED, BROKEN -> false;
    };
  }

  /**
   * There is one among them that cannot be reaped, because of a trigger of somebody's or a damaged
   * page: the others do not wait for it.
   */
  private void reapOneByOne(Map<String, Long> reaped) throws SQLException {
    var failed = new HashSet<Long>();
    for (long id : database.run(Reaper::overdue)) {
      try {
        for (String statement : STATEMENTS) {
          long _ = reap(statement, id, 1, reaped);
        }
      } catch (SQLException failure) {
        if (!refuses(failure)) {
          throw failure;
        }
        failed.add(id);
        if (!refused.contains(id)) {
          LOG.errorf("not reaped, trying again job=%d sqlstate=%s", id, failure.getSQLState());
        }
      }
    }
    refused = failed;
  }

  /** Answers how many. */
  private long reap(String statement, @Nullable Long only, int most, Map<String, Long> reaped)
      throws SQLException {
    turned();
    Map<String, Long> some = database.run(c -> reap(c, statement, only, most));
    some.forEach((kind, n) -> reaped.merge(kind, n, Long::sum));
    return some.values().stream().mapToLong(Long::longValue).sum();
  }

  /** Running jobs that nobody would find: see {@link Claims#findStrays}. */
  public int findStrays() throws SQLException {
    return database.run(Claims::findStrays);
  }

  void turned() {
    turnedNanos = System.nanoTime();
  }

  /** Whether it was begun, or got on, so lately. */
  boolean turnsWithin(Duration limit) {
    return System.nanoTime() - turnedNanos <= limit.toNanos();
  }

  private static List<Long> overdue(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(OVERDUE)) {
      statement.setInt(1, ONE_BY_ONE_MAX);
      var ids = new ArrayList<Long>();
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          ids.add(rows.getLong(1));
        }
      }
      return ids;
    }
  }

  private static Map<String, Long> reap(
      Connection connection, String sql, @Nullable Long only, int most) throws SQLException {
    var reaped = new TreeMap<String, Long>();
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      statement.setInt(1, Policy.DEFAULT.maxAttempts());
      statement.setObject(2, only, Types.BIGINT);
      statement.setObject(3, only, Types.BIGINT);
      statement.setInt(4, most);
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          reaped.put(rows.getString(1), rows.getLong(2));
        }
      }
    }
    return reaped;
  }
}
