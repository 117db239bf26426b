package dev.waybill.retain;

import dev.waybill.db.Database;
import dev.waybill.db.SqlState;
import dev.waybill.job.Policy;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Drops the days that are past every retention. A day leaves in steps, each of them safe to repeat:
 * frozen, counted, archived, detached, dropped. Whoever comes next goes on where another stopped.
 * docs/decisions/0020-leaving-partitions.md says why the audit finds nothing at any moment of it.
 */
@Singleton
public final class Dropper {

  private static final Logger LOG = Logger.getLogger(Dropper.class);

  /**
   * Of the kinds that were ever enqueued, the one that is kept longest decides. An hour at least,
   * because of transactions that began before midnight. Those on their way go first.
   */
  private static final String DUE =
      """
      WITH kept AS MATERIALIZED (
        SELECT coalesce(max(coalesce(k.retention_ms, ?)), ?) * interval '1 millisecond' AS longest
        FROM (SELECT DISTINCT kind FROM waybill.counts) t LEFT JOIN waybill.kinds k ON k.kind = t.kind
      )
      SELECT l.partition::oid AS oid, l.name, 0 AS first, NULL::timestamptz AS ends FROM waybill.leaving l
      UNION ALL
      SELECT d.partition::oid, d.name, 1, d.ends FROM waybill.done_partitions() d, kept
      WHERE d.ends < now() - greatest(kept.longest, interval '1 hour')
        AND NOT EXISTS (SELECT FROM waybill.leaving l WHERE l.partition = d.partition)
      ORDER BY first, ends, name
      """;

  private static final String FREEZE = "SELECT waybill.freeze_partition(?::oid::regclass)";

  private static final String COUNTED =
      "SELECT jobs IS NOT NULL FROM waybill.leaving WHERE partition = ?::oid::regclass";

  private static final String COUNT_PAGE =
      "SELECT kind, n FROM waybill.count_page(?::oid::regclass, ?, ?)";

  /** The figures and the transaction that made them known, in one. */
  private static final String WRITE_COUNT =
      """
      UPDATE waybill.leaving SET counted_by = pg_current_xact_id(),
        jobs = (SELECT coalesce(jsonb_object_agg(c.kind, c.n), '{}') FROM unnest(?::text[], ?::bigint[]) AS c(kind, n))
      WHERE partition = ?::oid::regclass AND jobs IS NULL
      """;

  /**
   * A transaction with an older snapshot does not know the figures; were the partition taken away
   * from it, its audit would miss jobs. Sessions of all users show this much to everybody.
   */
  private static final String OLD_SNAPSHOTS =
      """
      SELECT count(*) FROM pg_stat_activity s, waybill.leaving l
      WHERE l.partition = ?::oid::regclass AND s.datname = current_database() AND age(s.backend_xmin) >= age(l.counted_by::xid)
      """;

  /** No row: detached for good. */
  private static final String DETACHING =
      "SELECT i.inhdetachpending FROM pg_inherits i WHERE i.inhrelid = ?";

  /**
   * Asked of the database, because an identifier cannot be a parameter. Outside of a transaction,
   * as CONCURRENTLY demands: it waits for readers without a lock that claims or settles would queue
   * behind, for as long as lock_timeout lets it; then the detach stays pending.
   */
  private static final String HOW_TO_DETACH =
      "SELECT format('ALTER TABLE waybill.jobs_done DETACH PARTITION %s CONCURRENTLY', ?::oid::regclass)";

  private static final String HOW_TO_FINISH =
      "SELECT format('ALTER TABLE waybill.jobs_done DETACH PARTITION %s FINALIZE', ?::oid::regclass)";

  private static final String IS_THERE = "SELECT true FROM pg_class c WHERE c.oid = ?";

  private static final String DROP = "SELECT kind, n FROM waybill.drop_left(?::oid::regclass)";

  private static final int LOOKS = 40;
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private final Database database;
  private final Archive archive;
  private final RetainEvents events;

  /** Days of which it was said that they cannot be dropped: once, not every minute. */
  private final Set<Long> said = ConcurrentHashMap.newKeySet();

  @Inject
  Dropper(Database database, Archive archive, RetainEvents events) {
    this.database = database;
    this.archive = archive;
    this.events = events;
  }

  /**
   * Drops what can be dropped now; the rest is for the next beat. A day that cannot be dropped, for
   * instance because of a view on it, keeps no other from going; that is thrown at the end.
   */
  public void drop(BooleanSupplier turn) throws SQLException {
    @Nullable SQLException failed = null;
    for (Day day : due()) {
      if (!turn.getAsBoolean()) {
        break;
      }
      try {
        if (!leave(day, turn)) {
          LOG.debugf("partition waits name=%s", day.name());
        }
      } catch (SQLException failure) {
        // Somebody reads it, another day is still being detached, or another process has detached
        // or dropped this one under our hands. The others may be free to go.
        boolean byAnother = "42P01".equals(failure.getSQLState()) || !isThere(day);
        if (SqlState.of(failure).passing() || byAnother) {
          LOG.debugf("partition waits name=%s sqlstate=%s", day.name(), failure.getSQLState());
          continue;
        }
        failed = Retention.first(failed, failure);
        if (said.add(day.oid())) {
          LOG.errorf(
              "partition cannot be dropped, trying again name=%s sqlstate=%s: %s",
              day.name(), failure.getSQLState(), failure.getMessage());
        }
      }
    }
    if (failed != null) {
      throw failed;
    }
  }

  private List<Day> due() throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(DUE)) {
        statement.setLong(1, Policy.DEFAULT.retention().toMillis());
        statement.setLong(2, Policy.DEFAULT.retention().toMillis());
        return days(statement);
      }
    });
  }

  static List<Day> days(PreparedStatement statement) throws SQLException {
    var days = new ArrayList<Day>();
    try (ResultSet rows = statement.executeQuery()) {
      while (rows.next()) {
        days.add(new Day(rows.getLong(1), rows.getString(2)));
      }
    }
    return days;
  }

  /** False when it has to wait. */
  private boolean leave(Day day, BooleanSupplier turn) throws SQLException {
    execute(FREEZE, day);
    if (!counted(day) && !count(day, turn)) {
      return false;
    }
    if (!archive.leaving(day, turn) || !knownToAll(day, turn)) {
      return false;
    }
    detach(day);
    drop(day);
    return true;
  }

  private void execute(String sql, Day day) throws SQLException {
    database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        statement.setLong(1, day.oid());
        return statement.execute();
      }
    });
  }

  private boolean isThere(Day day) throws SQLException {
    return Boolean.TRUE.equals(flag(IS_THERE, day));
  }

  private boolean counted(Day day) throws SQLException {
    return Boolean.TRUE.equals(flag(COUNTED, day));
  }

  private @Nullable Boolean flag(String sql, Day day) throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        statement.setLong(1, day.oid());
        try (ResultSet rows = statement.executeQuery()) {
          return rows.next() ? (Boolean) rows.getBoolean(1) : null;
        }
      }
    });
  }

  /** Nothing in it changes any more, so pages that are read one after the other add up. */
  private boolean count(Day day, BooleanSupplier turn) throws SQLException {
    var sums = new TreeMap<String, Long>();
    long blocks = database.run(connection -> Expiry.blocks(connection, day));
    var pace = new Pace();
    for (long first = 0; first < blocks; first += Day.PAGE_BLOCKS) {
      if (!turn.getAsBoolean()) {
        return false;
      }
      long from = first;
      database
          .run(connection -> countPage(connection, day, from))
          .forEach((kind, n) -> sums.merge(kind, n, Long::sum));
      pace.rest();
    }
    database.run(connection -> writeCount(connection, day, sums));
    return true;
  }

  private static Map<String, Long> countPage(Connection connection, Day day, long first)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(COUNT_PAGE)) {
      statement.setLong(1, day.oid());
      statement.setLong(2, first);
      statement.setLong(3, first + Day.PAGE_BLOCKS);
      return Expiry.counts(statement);
    }
  }

  private static int writeCount(Connection connection, Day day, Map<String, Long> sums)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(WRITE_COUNT)) {
      statement.setArray(1, connection.createArrayOf("text", sums.keySet().toArray()));
      statement.setArray(2, connection.createArrayOf("int8", sums.values().toArray()));
      statement.setLong(3, day.oid());
      return statement.executeUpdate();
    }
  }

  /**
   * Statements that are under way end soon; a transaction that was forgotten is waited for later.
   */
  private boolean knownToAll(Day day, BooleanSupplier turn) throws SQLException {
    for (int look = 0; look < LOOKS; look++) {
      if (noOldSnapshots(day)) {
        return true;
      }
      if (!turn.getAsBoolean()) {
        return false;
      }
      Pace.sleep(LOOK_NANOS);
    }
    return false;
  }

  private boolean noOldSnapshots(Day day) throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(OLD_SNAPSHOTS)) {
        statement.setLong(1, day.oid());
        try (ResultSet rows = statement.executeQuery()) {
          return rows.next() && rows.getLong(1) == 0;
        }
      }
    });
  }

  private void detach(Day day) throws SQLException {
    @Nullable Boolean detaching = flag(DETACHING, day);
    if (detaching == null) {
      return;
    }
    database.run(connection -> alter(connection, detaching ? HOW_TO_FINISH : HOW_TO_DETACH, day));
  }

  private static boolean alter(Connection connection, String sql, Day day) throws SQLException {
    try (PreparedStatement ask = connection.prepareStatement(sql)) {
      ask.setLong(1, day.oid());
      try (ResultSet rows = ask.executeQuery();
          Statement statement = connection.createStatement()) {
        boolean _ = rows.next();
        return statement.execute(rows.getString(1));
      }
    }
  }

  private void drop(Day day) throws SQLException {
    Map<String, Long> purged =
        database.run(connection -> {
          try (PreparedStatement statement = connection.prepareStatement(DROP)) {
            statement.setLong(1, day.oid());
            return Expiry.counts(statement);
          }
        });
    purged.forEach(events::purged);
    LOG.infof(
        "partition dropped name=%s jobs=%d",
        day.name(), purged.values().stream().mapToLong(Long::longValue).sum());
  }
}
