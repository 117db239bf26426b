package dev.waybill.retain;

import dev.waybill.db.Database;
import dev.waybill.job.Policy;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;

/**
 * Deletes, page by page, what expires before its day is dropped: finished jobs of kinds that are
 * kept shorter than others, and dead letters. Each page counts what it deleted in its own
 * transaction.
 */
@Singleton
public final class Expiry {

  /**
   * For each day that has begun: the kinds of which something may have expired in it, and from when
   * on. Kinds that are kept longest go with the whole day. Within the day that is not yet past
   * retention only kinds that are kept for less than a day are looked for; of the others the day is
   * swept once, when all of it is past. A kind that is archived waits until its day was.
   */
  private static final String DUE =
      """
      WITH kept AS MATERIALIZED (
        SELECT t.kind, coalesce(k.retention_ms, ?) * interval '1 millisecond' AS keep, coalesce(k.archive, false) AS archive
        FROM (SELECT DISTINCT kind FROM waybill.counts) t LEFT JOIN waybill.kinds k ON k.kind = t.kind
      )
      SELECT d.partition::oid, d.name, k.kind, now() - k.keep, d.ends <= now() - k.keep AS whole
      FROM waybill.done_partitions() d JOIN kept k ON d.begins < now() - k.keep
      WHERE NOT d.detaching AND k.keep < (SELECT max(keep) FROM kept)
        AND (d.ends <= now() - k.keep OR (k.keep < interval '1 day' AND NOT k.archive))
        AND (NOT k.archive OR EXISTS (SELECT FROM waybill.archives a WHERE a.partition = d.partition AND a.kind = k.kind))
        AND NOT EXISTS (SELECT FROM waybill.swept s WHERE s.partition = d.partition AND s.kind = k.kind)
        AND NOT EXISTS (SELECT FROM waybill.leaving l WHERE l.partition = d.partition)
      ORDER BY d.ends, k.kind
      """;

  private static final String BLOCKS =
      "SELECT pg_relation_size(?::oid::regclass) / current_setting('block_size')::bigint";

  private static final String PURGE_PAGE =
      "SELECT kind, n FROM waybill.purge_page(?::oid::regclass, ?, ?, ?, ?)";

  /** A late commit of a transaction from that day may still come: it goes with the day. */
  private static final String SWEPT =
      """
      INSERT INTO waybill.swept (partition, kind) SELECT ?, kind FROM unnest(?::text[]) AS kind
      WHERE EXISTS (SELECT FROM pg_class c WHERE c.oid = ?) ON CONFLICT DO NOTHING
      """;

  /** From kind to kind by one index descent each: there are few kinds, and many dead letters. */
  private static final String DEAD_KINDS =
      """
      WITH RECURSIVE next AS (
        (SELECT d.kind FROM waybill.jobs_dead d ORDER BY d.kind LIMIT 1)
        UNION ALL
        SELECT (SELECT d.kind FROM waybill.jobs_dead d WHERE d.kind > next.kind ORDER BY d.kind LIMIT 1)
        FROM next WHERE next.kind IS NOT NULL
      )
      SELECT kind FROM next WHERE kind IS NOT NULL
      """;

  /**
   * Plan hazard: dead letters have seven indexes that hold these columns, and for a plan that is
   * made while there are none they are all alike. So the kind is asked for by a range, in the order
   * of {@code jobs_dead_kind}, which no other has; and the DELETE goes by ctid, which is in none.
   * {@code SKIP LOCKED} leaves alone what is being retried at this moment.
   */
  private static final String DEAD_PAGE =
      """
      WITH old AS MATERIALIZED (
        SELECT d.ctid AS tid FROM waybill.jobs_dead d
        WHERE (d.kind, d.finished_at) >= (?, '-infinity') AND (d.kind, d.finished_at) < (?, now() - interval '1 millisecond'
          * coalesce((SELECT k.dead_retention_ms FROM waybill.kinds k WHERE k.kind = ?), ?))
        ORDER BY d.kind, d.finished_at LIMIT ? FOR UPDATE SKIP LOCKED
      ), gone AS (
        DELETE FROM waybill.jobs_dead d WHERE d.ctid = ANY (ARRAY(SELECT tid FROM old)) RETURNING d.kind
      ), sums AS MATERIALIZED (
        SELECT kind, count(*) AS n FROM gone GROUP BY kind
      ), counted AS (
        INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'purged', n FROM sums
      )
      SELECT kind, n FROM sums
      """;

  private static final int DEAD_PAGE_ROWS = 1_000;
  private static final Duration AGAIN_MIN = Duration.ofMinutes(1);
  private static final int AGAIN_TIMES = 20;

  /** What a page may delete of one day. */
  private record Due(List<String> kinds, List<Object> before, Set<String> whole) {}

  private final Database database;
  private final RetainEvents events;

  /**
   * Days that are read again and again, while jobs expire within them: not before this nanoTime.
   */
  private final Map<Long, Long> notBefore = new HashMap<>();

  @Inject
  Expiry(Database database, RetainEvents events) {
    this.database = database;
    this.events = events;
  }

  /** Goes on for as long as it is our turn. */
  public void expireDone(BooleanSupplier turn) throws SQLException {
    for (Map.Entry<Day, Due> day : due().entrySet()) {
      long begin = System.nanoTime();
      boolean again = day.getValue().whole().isEmpty();
      if (again && begin - notBefore.getOrDefault(day.getKey().oid(), begin) < 0) {
        continue;
      }
      if (!sweep(day.getKey(), day.getValue(), turn)) {
        return;
      }
      long took = System.nanoTime() - begin;
      // However large the day is, reading it again and again takes a twentieth of the time.
      notBefore.put(
          day.getKey().oid(),
          System.nanoTime() + Math.max(AGAIN_MIN.toNanos(), AGAIN_TIMES * took));
    }
  }

  private Map<Day, Due> due() throws SQLException {
    return database.run(connection -> {
      var due = new TreeMap<Day, Due>((a, b) -> Long.compare(a.oid(), b.oid()));
      try (PreparedStatement statement = connection.prepareStatement(DUE)) {
        statement.setLong(1, Policy.DEFAULT.retention().toMillis());
        try (ResultSet rows = statement.executeQuery()) {
          while (rows.next()) {
            var day = new Day(rows.getLong(1), rows.getString(2));
            Due of =
                due.computeIfAbsent(
                    day, _ -> new Due(new ArrayList<>(), new ArrayList<>(), new HashSet<>()));
            of.kinds().add(rows.getString(3));
            of.before().add(rows.getObject(4, OffsetDateTime.class));
            if (rows.getBoolean(5)) {
              of.whole().add(rows.getString(3));
            }
          }
        }
      }
      return due;
    });
  }

  /** False when the turn went to another in the middle. */
  private boolean sweep(Day day, Due due, BooleanSupplier turn) throws SQLException {
    long blocks = database.run(connection -> blocks(connection, day));
    var pace = new Pace();
    for (long first = 0; first < blocks; first += Day.PAGE_BLOCKS) {
      if (!turn.getAsBoolean()) {
        return false;
      }
      long from = first;
      database.run(connection -> purgePage(connection, day, from, due)).forEach(events::purged);
      pace.rest();
    }
    if (!due.whole().isEmpty()) {
      database.run(connection -> markSwept(connection, day, due.whole()));
    }
    return true;
  }

  static long blocks(Connection connection, Day day) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(BLOCKS)) {
      statement.setLong(1, day.oid());
      try (ResultSet rows = statement.executeQuery()) {
        return rows.next() ? rows.getLong(1) : 0;
      }
    }
  }

  private static Map<String, Long> purgePage(Connection connection, Day day, long first, Due due)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(PURGE_PAGE)) {
      statement.setLong(1, day.oid());
      statement.setLong(2, first);
      statement.setLong(3, first + Day.PAGE_BLOCKS);
      statement.setArray(4, connection.createArrayOf("text", due.kinds().toArray()));
      statement.setArray(5, connection.createArrayOf("timestamptz", due.before().toArray()));
      return counts(statement);
    }
  }

  private static int markSwept(Connection connection, Day day, Set<String> kinds)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(SWEPT)) {
      statement.setLong(1, day.oid());
      statement.setArray(2, connection.createArrayOf("text", kinds.toArray()));
      statement.setLong(3, day.oid());
      return statement.executeUpdate();
    }
  }

  /** Dead letters past their retention. */
  public void expireDead(BooleanSupplier turn) throws SQLException {
    for (String kind : database.run(Expiry::deadKinds)) {
      var pace = new Pace();
      Map<String, Long> purged;
      do {
        if (!turn.getAsBoolean()) {
          return;
        }
        purged = database.run(connection -> deadPage(connection, kind));
        purged.forEach(events::purged);
        pace.rest();
      } while (purged.getOrDefault(kind, 0L) == DEAD_PAGE_ROWS);
    }
  }

  private static List<String> deadKinds(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(DEAD_KINDS);
        ResultSet rows = statement.executeQuery()) {
      var kinds = new ArrayList<String>();
      while (rows.next()) {
        kinds.add(rows.getString(1));
      }
      return kinds;
    }
  }

  private static Map<String, Long> deadPage(Connection connection, String kind)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(DEAD_PAGE)) {
      statement.setString(1, kind);
      statement.setString(2, kind);
      statement.setString(3, kind);
      statement.setLong(4, Policy.DEFAULT.deadRetention().toMillis());
      statement.setInt(5, DEAD_PAGE_ROWS);
      return counts(statement);
    }
  }

  /** Rows of kind and number. */
  static Map<String, Long> counts(PreparedStatement statement) throws SQLException {
    var counts = new TreeMap<String, Long>();
    try (ResultSet rows = statement.executeQuery()) {
      while (rows.next()) {
        counts.put(rows.getString(1), rows.getLong(2));
      }
    }
    return counts;
  }
}
