package dev.waybill.deadletter;

import dev.waybill.audit.Act;
import dev.waybill.audit.Audit;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Starts, shows and stops replays. {@link ReplayRunner} moves them. */
public final class Replays {

  /** Counting goes no further. */
  public static final int COUNT_MAX = 100_000;

  public static final double RATE_MIN = 0.01;
  public static final double RATE_MAX = 10_000;

  /** At once. Each is looked at once a second. */
  public static final int RUNNING_MAX = 100;

  /** Of these, so that one tenant leaves room for the others. */
  public static final int RUNNING_OF_TENANT_MAX = 10;

  /**
   * The first job may go at once, whatever the rate. Two that start at the same moment may pass the
   * limit by one; it is there to bound the beats, not to be exact.
   */
  private static final String START =
      """
      INSERT INTO waybill.replays (who, rate_per_second, kind, kinds, tenant, fingerprint, died_after, died_before, ids, matched,
        matched_more, paid_until)
      SELECT ?, rate, ?, ?, ?, ?, ?, ?, ?, ?, ?, now() - interval '1 second' / rate
      FROM (SELECT ?::float8 AS rate, ?::text AS tenant) asked
      WHERE (SELECT count(*) FROM waybill.replays WHERE state = 'running') < ?
        AND (asked.tenant IS NULL OR (SELECT count(*) FROM waybill.replays r WHERE r.state = 'running' AND r.tenant = asked.tenant) < ?)
      RETURNING id
      """;

  private static final String PAGE =
      """
      SELECT id, state, who, created_at, ended_at, rate_per_second, kind, tenant, fingerprint, died_after, died_before, ids, matched,
        matched_more, returned, skipped_dedupe, skipped_busy, kinds
      FROM waybill.replays r
      WHERE id < coalesce(?, 9223372036854775807) AND id > coalesce(?, 0) AND (?::text IS NULL OR tenant = ?)
        AND (?::text[] IS NULL OR kinds <@ ? OR kind = ANY (?))
      ORDER BY id DESC LIMIT ?
      """;

  /** Waits for a slice under way, which takes a moment; after this nothing is moved. */
  private static final String STOP =
      """
      UPDATE waybill.replays SET state = 'stopped', ended_at = now() WHERE id = ? AND state = 'running' RETURNING returned
      """;

  private Replays() {}

  /** Null when too many are running. */
  public static @Nullable Replay start(
      Connection connection, Scope scope, DeadFilter filter, double ratePerSecond)
      throws SQLException {
    long matched = DeadLetters.count(connection, scope, filter, COUNT_MAX + 1);
    long id;
    try (PreparedStatement statement = connection.prepareStatement(START)) {
      bindStart(statement, scope, filter, ratePerSecond, matched);
      try (ResultSet row = statement.executeQuery()) {
        if (!row.next()) {
          return null;
        }
        id = row.getLong(1);
      }
    }
    @Nullable Replay replay = read(connection, scope, id);
    if (replay == null) {
      throw new IllegalStateException("started, but not to be read: replay=" + id);
    }
    Audit.record(
        connection,
        scope.who(),
        Act.REPLAY_START,
        "replay " + id,
        filter.tenantWithin(scope),
        FilterJson.of(filter, scope),
        replay.matched());
    return replay;
  }

  private static void bindStart(
      PreparedStatement statement,
      Scope scope,
      DeadFilter filter,
      double ratePerSecond,
      long matched)
      throws SQLException {
    Connection connection = statement.getConnection();
    statement.setString(1, scope.who());
    statement.setString(2, filter.kind());
    statement.setArray(3, kinds(connection, scope));
    statement.setString(4, filter.tenantWithin(scope));
    statement.setString(5, filter.fingerprint());
    statement.setObject(6, filter.diedAfter(), Types.TIMESTAMP_WITH_TIMEZONE);
    statement.setObject(7, filter.diedBefore(), Types.TIMESTAMP_WITH_TIMEZONE);
    statement.setArray(
        8, filter.ids() == null ? null : connection.createArrayOf("int8", filter.ids().toArray()));
    statement.setLong(9, Math.min(matched, COUNT_MAX));
    statement.setBoolean(10, matched > COUNT_MAX);
    statement.setDouble(11, ratePerSecond);
    statement.setString(12, filter.tenantWithin(scope));
    statement.setInt(13, RUNNING_MAX);
    statement.setInt(14, RUNNING_OF_TENANT_MAX);
  }

  private static @Nullable Array kinds(Connection connection, Scope scope) throws SQLException {
    return scope.kinds() == null ? null : connection.createArrayOf("text", scope.kinds().toArray());
  }

  public static @Nullable Replay read(Connection connection, Scope scope, long id)
      throws SQLException {
    if (id < 1 || id == Long.MAX_VALUE) {
      return null;
    }
    List<Replay> one = page(connection, scope, id + 1, id - 1, 1);
    return one.isEmpty() ? null : one.getFirst();
  }

  /** A page, newest first. */
  public static List<Replay> list(
      Connection connection, Scope scope, @Nullable Long after, int limit) throws SQLException {
    return page(connection, scope, after, null, limit);
  }

  private static List<Replay> page(
      Connection connection, Scope scope, @Nullable Long before, @Nullable Long behind, int limit)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(PAGE)) {
      @Nullable Array kinds = kinds(connection, scope);
      statement.setObject(1, before, Types.BIGINT);
      statement.setObject(2, behind, Types.BIGINT);
      statement.setString(3, scope.tenant());
      statement.setString(4, scope.tenant());
      statement.setArray(5, kinds);
      statement.setArray(6, kinds);
      statement.setArray(7, kinds);
      statement.setInt(8, limit);
      var replays = new ArrayList<Replay>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          replays.add(replay(row));
        }
      }
      return replays;
    }
  }

  /**
   * Stops it; answers it as it is then, or null when there is none. One that has ended stays as it
   * ended.
   */
  public static @Nullable Replay stop(Connection connection, Scope scope, long id)
      throws SQLException {
    @Nullable Replay there = read(connection, scope, id);
    if (there == null) {
      return null;
    }
    try (PreparedStatement statement = connection.prepareStatement(STOP)) {
      statement.setLong(1, id);
      try (ResultSet row = statement.executeQuery()) {
        if (row.next()) {
          Audit.record(
              connection,
              scope.who(),
              Act.REPLAY_STOP,
              "replay " + id,
              there.filter().tenant(),
              FilterJson.of(there.filter(), scope),
              row.getLong(1));
        }
      }
    }
    return read(connection, scope, id);
  }

  static Replay replay(ResultSet row) throws SQLException {
    @Nullable Array ids = row.getArray("ids");
    return new Replay(
        row.getLong("id"),
        row.getString("state"),
        row.getString("who"),
        row.getObject("created_at", OffsetDateTime.class),
        row.getObject("ended_at", OffsetDateTime.class),
        row.getDouble("rate_per_second"),
        new DeadFilter(
            row.getString("kind"),
            row.getString("tenant"),
            row.getString("fingerprint"),
            row.getObject("died_after", OffsetDateTime.class),
            row.getObject("died_before", OffsetDateTime.class),
            ids == null ? null : List.of((Long[]) ids.getArray())),
        row.getLong("matched"),
        row.getBoolean("matched_more"),
        row.getLong("returned"),
        row.getLong("skipped_dedupe"),
        row.getLong("skipped_busy"));
  }
}
