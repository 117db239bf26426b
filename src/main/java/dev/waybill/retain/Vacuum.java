package dev.waybill.retain;

import dev.waybill.db.Database;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Vacuums the tables through which every job goes. Autovacuum looks at a table once a minute, in
 * which a thousand jobs a second leave some hundred thousand dead rows: docs/decisions/0022.
 */
@Singleton
public final class Vacuum {

  /**
   * What the statistics know of: they lag behind by a second. A table that a large backlog blew up
   * is left to autovacuum, which has no time limit as this connection does.
   */
  private static final String DEAD =
      """
      SELECT 'waybill.jobs' WHERE pg_stat_get_dead_tuples('waybill.jobs'::regclass) >= ? AND pg_total_relation_size('waybill.jobs') < 1000000000
      UNION ALL
      SELECT 'waybill.tally' WHERE pg_stat_get_dead_tuples('waybill.tally'::regclass) >= ?
      UNION ALL
      SELECT 'waybill.arrivals' WHERE pg_stat_get_dead_tuples('waybill.arrivals'::regclass) >= ?
      UNION ALL
      SELECT 'waybill.claims' WHERE pg_stat_get_dead_tuples('waybill.claims'::regclass) >= ?
      """;

  /**
   * Passes by when another process vacuums it at this moment, and never takes the lock that cutting
   * off empty pages needs. Indexes are always cleaned: it is their dead entries that claims would
   * walk over.
   */
  private static final String JOBS =
      "VACUUM (SKIP_LOCKED, TRUNCATE false, INDEX_CLEANUP on, PARALLEL 0) waybill.jobs";

  private static final String SMALL = "VACUUM (SKIP_LOCKED, TRUNCATE false) ";

  /** However large the tables are, this takes a twentieth of the time of one connection. */
  private static final int REST_TIMES = 20;

  private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long PAUSE_NANOS_MAX = TimeUnit.MINUTES.toNanos(1);

  private static final long BUSY_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final Database database;
  private final RetainSettings settings;
  private long busyNanos = System.nanoTime();
  private long notBefore = System.nanoTime();
  private long pauseNanos;

  @Inject
  Vacuum(Database database, RetainSettings settings) {
    this.database = database;
    this.settings = settings;
  }

  /** Answers what was vacuumed. Called by one thread at a time. */
  public List<String> run() throws SQLException {
    long bound = settings.vacuumDead();
    if (bound == 0 || System.nanoTime() - notBefore < 0) {
      return List.of();
    }
    List<String> tables = database.run(connection -> dead(connection, bound));
    long begin = System.nanoTime();
    if (tables.isEmpty()) {
      // An idle service asks little.
      notBefore = begin + (begin - busyNanos < BUSY_NANOS ? 0 : IDLE_NANOS);
      return tables;
    }
    busyNanos = begin;
    try {
      database.run(connection -> vacuum(connection, tables));
      // A snapshot that somebody holds keeps the dead where they are: then less and less often.
      boolean inVain = database.run(connection -> dead(connection, bound)).equals(tables);
      pauseNanos = inVain ? Math.min(PAUSE_NANOS_MAX, PAUSE_NANOS + 2 * pauseNanos) : 0;
    } finally {
      long end = System.nanoTime();
      notBefore = end + Math.max(pauseNanos, REST_TIMES * (end - begin));
    }
    return tables;
  }

  private static List<String> dead(Connection connection, long bound) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(DEAD)) {
      statement.setLong(1, bound);
      statement.setLong(2, bound);
      statement.setLong(3, bound);
      statement.setLong(4, bound);
      var tables = new ArrayList<String>();
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          tables.add(rows.getString(1));
        }
      }
      return tables;
    }
  }

  private static int vacuum(Connection connection, List<String> tables) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      for (String table : tables) {
        boolean _ = statement.execute(table.equals("waybill.jobs") ? JOBS : SMALL + table);
      }
      return tables.size();
    }
  }
}
