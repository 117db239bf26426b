package dev.waybill.deadletter;

import dev.waybill.audit.Act;
import dev.waybill.audit.Audit;
import dev.waybill.job.Policy;
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

/** Lists, returns and deletes dead letters. Each call is one transaction's work. */
public final class DeadLetters {

  /**
   * Newest first. Plan hazard: the filter must fall away where it asks for nothing, and reach an
   * index that is in the order of the page; see {@link Plans}.
   */
  private static final String LIST =
      """
      SELECT d.id, d.kind, d.tenant, d.priority, d.attempt, d.max_attempts, d.crashes, d.created_at, d.finished_at, d.worker, d.last_error,
        d.fingerprint, d.tags, d.dedupe_key, (extract(epoch FROM d.finished_at) * 1000000)::bigint
      FROM waybill.jobs_dead d
      WHERE waybill.dead_match(d.kind, d.tenant, d.fingerprint, d.finished_at, d.id, ?, ?, ?, ?, ?, ?, ?)
        AND (d.finished_at, d.id) < (coalesce('epoch'::timestamptz + ?::bigint * interval '1 microsecond', 'infinity'), ?)
      ORDER BY d.finished_at DESC, d.id DESC LIMIT ?
      """;

  /** How many, as far as it is worth counting. */
  private static final String COUNT =
      """
      SELECT count(*) FROM (
        SELECT FROM waybill.jobs_dead d
        WHERE waybill.dead_match(d.kind, d.tenant, d.fingerprint, d.finished_at, d.id, ?, ?, ?, ?, ?, ?, ?) LIMIT ?
      ) found
      """;

  /**
   * The counts are kept up by triggers, so this reads as many rows as there are groups, not as
   * there are dead letters; for those on the page two index descents each find the first and the
   * last. Sums, since what the folder has not folded yet counts as well.
   */
  private static final String GROUPS =
      """
      WITH asked AS (
        SELECT ?::text AS kind, ?::text[] AS kinds, ?::text AS tenant
      ), counted AS MATERIALIZED (
        SELECT c.kind, c.fingerprint, sum(c.n)::bigint AS n FROM asked, (
          SELECT kind, fingerprint, tenant, n FROM waybill.dead_counts
          UNION ALL SELECT kind, fingerprint, tenant, n FROM waybill.dead_moves
        ) c
        WHERE (asked.kind IS NULL OR c.kind = asked.kind) AND (asked.kinds IS NULL OR c.kind = ANY (asked.kinds))
          AND (asked.tenant IS NULL OR c.tenant = asked.tenant)
        GROUP BY c.kind, c.fingerprint HAVING sum(c.n) > 0
      ), page AS MATERIALIZED (
        SELECT kind, fingerprint, n FROM counted
        WHERE (n, kind, fingerprint) < (coalesce(?::bigint, 9223372036854775807), coalesce(?::text, ''), coalesce(?::text, ''))
        ORDER BY n DESC, kind DESC, fingerprint DESC LIMIT ?
      )
      SELECT p.kind, p.fingerprint, p.n, f.finished_at, l.finished_at, l.id, left(l.last_error, 500)
      FROM page p
        LEFT JOIN LATERAL (
          SELECT d.finished_at FROM waybill.jobs_dead d
          WHERE d.kind = p.kind AND d.fingerprint = p.fingerprint AND (?::text IS NULL OR d.tenant = ?)
          ORDER BY d.finished_at, d.id LIMIT 1
        ) f ON true
        LEFT JOIN LATERAL (
          SELECT d.finished_at, d.id, d.last_error FROM waybill.jobs_dead d
          WHERE d.kind = p.kind AND d.fingerprint = p.fingerprint AND (?::text IS NULL OR d.tenant = ?)
          ORDER BY d.finished_at DESC, d.id DESC LIMIT 1
        ) l ON true
      ORDER BY p.n DESC, p.kind DESC, p.fingerprint DESC
      """;

  private static final String READ =
      """
      SELECT d.id, d.kind, d.tenant, d.priority, d.attempt, d.max_attempts, d.crashes, d.created_at, d.finished_at, d.worker, d.last_error,
        d.fingerprint, d.tags, d.dedupe_key, (extract(epoch FROM d.finished_at) * 1000000)::bigint,
        d.payload::text, d.payload_version, coalesce(d.attempts, '[]')::text
      FROM waybill.jobs_dead d
      WHERE d.id = ? AND (?::text IS NULL OR d.tenant = ?) AND (?::text[] IS NULL OR d.kind = ANY (?))
      """;

  private static final String LOCK =
      """
      SELECT d.kind, d.tenant FROM waybill.jobs_dead d
      WHERE d.id = ? AND (?::text IS NULL OR d.tenant = ?) AND (?::text[] IS NULL OR d.kind = ANY (?)) FOR UPDATE
      """;

  private static final String RETURN_ONE =
      "SELECT id FROM waybill.return_dead(ARRAY[?::bigint], ?, ?, ?::jsonb)";

  private static final String WAKE = "SELECT waybill.wake(?)";

  private static final String HOLDER =
      """
      SELECT j.id FROM waybill.jobs j JOIN waybill.jobs_dead d ON d.kind = j.kind AND d.tenant = j.tenant AND d.dedupe_key = j.dedupe_key WHERE d.id = ?
      """;

  /** Deleted for good, and counted: or enqueued = present + purged would not hold. */
  private static final String DELETE =
      """
      WITH gone AS (
        DELETE FROM waybill.jobs_dead d WHERE d.id = ? RETURNING d.kind
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'purged', 1 FROM gone
      )
      SELECT kind FROM gone
      """;

  private DeadLetters() {}

  /** A page, newest first, behind that position. */
  public static List<DeadLetter> list(
      Connection connection, Scope scope, DeadFilter filter, @Nullable Position after, int limit)
      throws SQLException {
    if (filter.isOutside(scope)) {
      return List.of();
    }
    Plans.inOrder(connection, filter);
    try (PreparedStatement statement = connection.prepareStatement(LIST)) {
      int next = filter.bind(statement, 1, scope);
      statement.setObject(next++, after == null ? null : after.micros(), Types.BIGINT);
      statement.setLong(next++, after == null ? 0 : after.id());
      statement.setInt(next, limit);
      var letters = new ArrayList<DeadLetter>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          letters.add(letter(row));
        }
      }
      return letters;
    }
  }

  /**
   * A dead letter with what is inside.
   *
   * @param payload JSON text
   * @param attempts JSON text: the history
   */
  public record Whole(DeadLetter letter, String payload, int payloadVersion, String attempts) {}

  public static @Nullable Whole read(Connection connection, Scope scope, long id)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(READ)) {
      bindOne(statement, scope, id);
      try (ResultSet row = statement.executeQuery()) {
        return row.next()
            ? new Whole(letter(row), row.getString(16), row.getInt(17), row.getString(18))
            : null;
      }
    }
  }

  private static void bindOne(PreparedStatement statement, Scope scope, long id)
      throws SQLException {
    @Nullable Array kinds =
        scope.kinds() == null
            ? null
            : statement.getConnection().createArrayOf("text", scope.kinds().toArray());
    statement.setLong(1, id);
    statement.setString(2, scope.tenant());
    statement.setString(3, scope.tenant());
    statement.setArray(4, kinds);
    statement.setArray(5, kinds);
  }

  /** How many there are, counted up to this many. */
  public static long count(Connection connection, Scope scope, DeadFilter filter, int upTo)
      throws SQLException {
    if (filter.isOutside(scope)) {
      return 0;
    }
    Plans.forWhatWasAsked(connection);
    try (PreparedStatement statement = connection.prepareStatement(COUNT)) {
      statement.setInt(filter.bind(statement, 1, scope), upTo);
      try (ResultSet row = statement.executeQuery()) {
        row.next();
        return row.getLong(1);
      }
    }
  }

  /** The groups with the most dead letters first; kind and tenant of the filter are heeded. */
  public static List<DeadGroup> groups(
      Connection connection,
      Scope scope,
      DeadFilter filter,
      DeadGroup.@Nullable After after,
      int limit)
      throws SQLException {
    if (filter.isOutside(scope)) {
      return List.of();
    }
    Plans.inOrder(connection, filter);
    try (PreparedStatement statement = connection.prepareStatement(GROUPS)) {
      statement.setString(1, filter.kind());
      statement.setArray(
          2,
          scope.kinds() == null ? null : connection.createArrayOf("text", scope.kinds().toArray()));
      statement.setString(3, filter.tenantWithin(scope));
      statement.setObject(4, after == null ? null : after.count(), Types.BIGINT);
      statement.setString(5, after == null ? null : after.kind());
      statement.setString(6, after == null ? null : after.fingerprint());
      statement.setInt(7, limit);
      for (int tenant = 8; tenant <= 11; tenant++) {
        statement.setString(tenant, filter.tenantWithin(scope));
      }
      var groups = new ArrayList<DeadGroup>();
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          groups.add(group(row));
        }
      }
      return groups;
    }
  }

  /** What became of an act on one dead letter. */
  public sealed interface Acted {

    record Done() implements Acted {}

    /** For this caller at least. */
    record NotThere() implements Acted {}

    /** Its dedupe key is taken by a job that is live. */
    record KeyTaken(@Nullable Long holder) implements Acted {}
  }

  /** Back into the queue, ready now; with this payload, if there is one. */
  public static Acted retry(Connection connection, Scope scope, long id, @Nullable String payload)
      throws SQLException {
    @Nullable Whose whose = lock(connection, scope, id);
    if (whose == null) {
      return new Acted.NotThere();
    }
    if (!returnOne(connection, scope, id, payload)) {
      return new Acted.KeyTaken(holder(connection, id));
    }
    wake(connection, whose.kind());
    Audit.record(
        connection,
        scope.who(),
        Act.RETRY,
        String.valueOf(id),
        whose.tenant(),
        payload == null ? null : "{\"payload\": \"edited\"}",
        1);
    return new Acted.Done();
  }

  public static Acted delete(Connection connection, Scope scope, long id) throws SQLException {
    @Nullable Whose whose = lock(connection, scope, id);
    if (whose == null) {
      return new Acted.NotThere();
    }
    try (PreparedStatement statement = connection.prepareStatement(DELETE)) {
      statement.setLong(1, id);
      boolean _ = statement.execute();
    }
    Audit.record(connection, scope.who(), Act.DELETE, String.valueOf(id), whose.tenant(), 1);
    return new Acted.Done();
  }

  private record Whose(String kind, String tenant) {}

  private static @Nullable Whose lock(Connection connection, Scope scope, long id)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LOCK)) {
      bindOne(statement, scope, id);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? new Whose(row.getString(1), row.getString(2)) : null;
      }
    }
  }

  private static boolean returnOne(
      Connection connection, Scope scope, long id, @Nullable String payload) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(RETURN_ONE)) {
      statement.setLong(1, id);
      statement.setString(2, scope.who());
      statement.setInt(3, Policy.DEFAULT.maxAttempts());
      statement.setString(4, payload);
      try (ResultSet row = statement.executeQuery()) {
        return row.next();
      }
    }
  }

  private static @Nullable Long holder(Connection connection, long id) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(HOLDER)) {
      statement.setLong(1, id);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? row.getLong(1) : null;
      }
    }
  }

  static void wake(Connection connection, String kind) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(WAKE)) {
      statement.setString(1, kind);
      boolean _ = statement.execute();
    }
  }

  private static DeadLetter letter(ResultSet row) throws SQLException {
    @Nullable Array tags = row.getArray(13);
    return new DeadLetter(
        row.getLong(1),
        row.getString(2),
        row.getString(3),
        row.getInt(4),
        row.getInt(5),
        row.getObject(6, Integer.class),
        row.getInt(7),
        row.getObject(8, OffsetDateTime.class),
        row.getObject(9, OffsetDateTime.class),
        row.getString(10),
        row.getString(11),
        row.getString(12),
        tags == null ? List.of() : List.of((String[]) tags.getArray()),
        row.getString(14),
        new Position(row.getLong(15), row.getLong(1)));
  }

  private static DeadGroup group(ResultSet row) throws SQLException {
    return new DeadGroup(
        row.getString(1),
        row.getString(2),
        row.getLong(3),
        row.getObject(4, OffsetDateTime.class),
        row.getObject(5, OffsetDateTime.class),
        row.getObject(6, Long.class),
        row.getString(7));
  }
}
