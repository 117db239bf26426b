package dev.waybill.deadletter;

import dev.waybill.audit.Act;
import dev.waybill.audit.Audit;
import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import dev.waybill.job.Policy;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/** Moves replays on, slice by slice, in any process that keeps house. */
@Singleton
final class ReplayRunner {

  private static final String RUNNING =
      "SELECT id FROM waybill.replays WHERE state = 'running' ORDER BY id LIMIT ?";

  /**
   * One process at a time moves a replay: {@code SKIP LOCKED}, so nobody waits. How many may go now
   * is what the rate has earned since {@code paid_until}, in whole jobs; two seconds of it at most,
   * so that after an outage nothing bursts. Nothing, and not less, for a transaction that began
   * before another process paid. As the row is the only account, the rate holds over all processes.
   */
  private static final String LOCK =
      """
      SELECT r.*, least(?, floor(earning.seconds * r.rate_per_second))::integer AS allowed, earning.seconds
      FROM waybill.replays r CROSS JOIN LATERAL (
        SELECT greatest(0, least(extract(epoch FROM now() - r.paid_until)::float8, greatest(2, 1 / r.rate_per_second))) AS seconds
      ) earning
      WHERE r.id = ? AND r.state = 'running' FOR NO KEY UPDATE OF r SKIP LOCKED
      """;

  /**
   * The next ones in the order of their deaths. What somebody else has locked (another replay, a
   * deletion) is passed by; it is on the page, so it is counted as skipped. {@code until_at} keeps
   * out what died after the beginning, and so what this replay returned and what died again.
   *
   * <p>Plan hazard: as for lists, see {@link Plans}.
   */
  private static final String SLICE =
      """
      WITH ahead AS MATERIALIZED (
        SELECT d.id, d.finished_at FROM waybill.jobs_dead d, waybill.replays r
        WHERE r.id = ? AND waybill.dead_match(d.kind, d.tenant, d.fingerprint, d.finished_at, d.id, ?, ?, ?, ?, ?, ?, ?)
          AND (d.finished_at, d.id) > (r.at_finished, r.at_id) AND d.finished_at <= r.until_at
        ORDER BY d.finished_at, d.id LIMIT ? + 1
      ), page AS MATERIALIZED (
        SELECT id, finished_at FROM ahead ORDER BY finished_at, id LIMIT ?
      ), free AS MATERIALIZED (
        SELECT d.id FROM waybill.jobs_dead d WHERE ? AND d.id = ANY (ARRAY(SELECT id FROM page)) ORDER BY d.id FOR UPDATE SKIP LOCKED
      ), moved AS MATERIALIZED (
        SELECT back.kind FROM (SELECT array_agg(id) AS ids FROM free) f, waybill.return_dead(f.ids, ?, ?) back
      ), woken AS MATERIALIZED (
        SELECT count(waybill.wake(kind)::text) AS n FROM (SELECT DISTINCT kind FROM moved) k
      ), counted AS (
        SELECT (SELECT count(*) FROM ahead) AS ahead, (SELECT count(*) FROM page) AS paged, (SELECT count(*) FROM free) AS freed,
          (SELECT count(*) FROM moved) AS moved, (SELECT n FROM woken) AS woken
      )
      UPDATE waybill.replays r
      SET returned = r.returned + c.moved, skipped_dedupe = r.skipped_dedupe + c.freed - c.moved,
        skipped_busy = r.skipped_busy + c.paged - c.freed,
        at_finished = coalesce((SELECT p.finished_at FROM page p ORDER BY p.finished_at DESC, p.id DESC LIMIT 1), r.at_finished),
        at_id = coalesce((SELECT p.id FROM page p ORDER BY p.finished_at DESC, p.id DESC LIMIT 1), r.at_id),
        paid_until = now() + ((c.paged / r.rate_per_second) - ?::float8) * interval '1 second',
        state = CASE WHEN c.ahead = c.paged THEN 'done' ELSE r.state END,
        ended_at = CASE WHEN c.ahead = c.paged THEN now() END
      FROM counted c WHERE r.id = ?
      RETURNING r.state, r.returned, c.paged, c.woken
      """;

  private static final int SLICE_MAX = 500;

  /** So that many replays get their turn within a second. */
  private static final long BEAT_NANOS_MAX = TimeUnit.MILLISECONDS.toNanos(900);

  private final Database database;

  @Inject
  ReplayRunner(DataSource dataSource) {
    this(new Database(dataSource));
  }

  ReplayRunner(Database database) {
    this.database = database;
  }

  /**
   * Moves every replay by what its rate has earned, in turns; false when there is none. One that
   * fails does not keep the others waiting.
   */
  boolean beat() throws SQLException {
    long beganNanos = System.nanoTime();
    List<Long> open = database.run(ReplayRunner::running);
    boolean any = !open.isEmpty();
    @Nullable SQLException failed = null;
    while (!open.isEmpty() && System.nanoTime() - beganNanos < BEAT_NANOS_MAX) {
      var more = new ArrayList<Long>();
      for (long id : open) {
        try {
          if (slice(id) == SLICE_MAX) {
            more.add(id);
          }
        } catch (SQLException failure) {
          failed = failure;
          if (SqlState.of(failure) == SqlState.UNREACHABLE) {
            throw failure;
          }
        }
      }
      open = more;
    }
    if (failed != null) {
      throw failed;
    }
    return any;
  }

  /**
   * The slice, the progress and, at the end, the line in the log commit together. A dedupe key that
   * a producer has just inserted and not committed makes the slice wait for that producer: then the
   * jobs go one by one, and the one that waits is passed by.
   */
  int slice(long id) throws SQLException {
    try {
      return slice(id, SLICE_MAX, true);
    } catch (SQLException failure) {
      if (SqlState.of(failure) == SqlState.UNREACHABLE || !SqlState.of(failure).passing()) {
        throw failure;
      }
      oneByOne(id);
      return 0;
    }
  }

  /** What it does not come to waits for the next beat. */
  private void oneByOne(long id) throws SQLException {
    long beganNanos = System.nanoTime();
    int moved = 0;
    while (moved < SLICE_MAX && System.nanoTime() - beganNanos < BEAT_NANOS_MAX) {
      int one;
      try {
        one = slice(id, 1, true);
      } catch (SQLException failure) {
        if (SqlState.of(failure) == SqlState.UNREACHABLE) {
          throw failure;
        }
        one = slice(id, 1, false);
      }
      if (one == 0) {
        break;
      }
      moved += one;
    }
  }

  /**
   * @param give false: pass the next ones by
   */
  private int slice(long id, int max, boolean give) throws SQLException {
    return database.transaction(connection -> {
      Plans.forWhatWasAsked(connection);
      @Nullable Turn turn = lock(connection, id, max);
      if (turn == null || turn.allowed() == 0) {
        return 0;
      }
      Plans.inOrder(connection, turn.replay().filter());
      return move(connection, turn, give);
    });
  }

  private record Turn(Replay replay, Scope scope, int allowed, double seconds) {}

  private static @Nullable Turn lock(Connection connection, long id, int max) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LOCK)) {
      statement.setInt(1, max);
      statement.setLong(2, id);
      try (ResultSet row = statement.executeQuery()) {
        if (!row.next()) {
          return null;
        }
        Replay replay = Replays.replay(row);
        var kinds = row.getArray("kinds");
        var scope =
            new Scope(
                replay.who(),
                replay.filter().tenant(),
                kinds == null ? null : Set.of((String[]) kinds.getArray()));
        return new Turn(replay, scope, row.getInt("allowed"), row.getDouble("seconds"));
      }
    }
  }

  private static int move(Connection connection, Turn turn, boolean give) throws SQLException {
    Replay replay = turn.replay();
    try (PreparedStatement statement = connection.prepareStatement(SLICE)) {
      statement.setLong(1, replay.id());
      int next = replay.filter().bind(statement, 2, turn.scope());
      statement.setInt(next++, turn.allowed());
      statement.setInt(next++, turn.allowed());
      statement.setBoolean(next++, give);
      statement.setString(next++, replay.who() + ", replay " + replay.id());
      statement.setInt(next++, Policy.DEFAULT.maxAttempts());
      statement.setDouble(next++, turn.seconds());
      statement.setLong(next, replay.id());
      try (ResultSet row = statement.executeQuery()) {
        row.next();
        if (row.getString(1).equals("done")) {
          Audit.record(
              connection,
              replay.who(),
              Act.REPLAY_END,
              "replay " + replay.id(),
              replay.filter().tenant(),
              FilterJson.of(replay.filter(), turn.scope()),
              row.getLong(2));
        }
        return row.getInt(3);
      }
    }
  }

  private static List<Long> running(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(RUNNING)) {
      statement.setInt(1, Replays.RUNNING_MAX);
      var ids = new ArrayList<Long>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          ids.add(row.getLong(1));
        }
      }
      return ids;
    }
  }
}
