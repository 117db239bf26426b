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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * Vacuums the tables through which every job goes. Autovacuum looks at a table once a minute, in
 * which a thousand jobs a second leave some hundred thousand dead rows: docs/decisions/0022.
 */
@Singleton
public final class Vacuum {

  /**
   * What the statistics know of, which lag behind by a second: which tables have enough dead rows,
   * and which are wide, that is nearly empty and yet large. A live table that a large backlog blew
   * up is left to autovacuum, which has no time limit as this connection does; it may be wide,
   * since hardly anybody reads it whole.
   */
  private static final String LOOK =
      """
      SELECT t.name, s.dead >= ? AND (t.name <> 'waybill.jobs' OR pg_total_relation_size(t.name) < 1000000000),
        t.name <> 'waybill.jobs' AND s.size > 8000000 AND s.live * 128 < s.size / 8
      FROM (VALUES ('waybill.jobs'), ('waybill.tally'), ('waybill.arrivals'), ('waybill.claims')) AS t(name),
        LATERAL (SELECT pg_stat_get_dead_tuples(t.name::regclass) AS dead, pg_stat_get_live_tuples(t.name::regclass) AS live,
          pg_relation_size(t.name) AS size) s
      """;

  /**
   * Passes by when another process vacuums it at this moment, and does not take the lock that
   * cutting off empty pages needs. Indexes are always cleaned: it is their dead entries that claims
   * would walk over.
   */
  private static final String JOBS =
      "VACUUM (SKIP_LOCKED, TRUNCATE false, INDEX_CLEANUP on, PARALLEL 0) waybill.jobs";

  private static final String SMALL = "VACUUM (SKIP_LOCKED, TRUNCATE false) ";

  /**
   * The other tables are read whole, so one that was blown up while somebody held a snapshot is cut
   * off. VACUUM asks for the lock without queueing for it, for 5 s at most, and while it has it,
   * looks every 20 ms whether somebody waits.
   */
  private static final String CUT = "VACUUM (SKIP_LOCKED, TRUNCATE true) ";

  /**
   * In a row. Each time that what came is summed up, its table is nearly empty for a moment. What
   * could not be cut off is tried again after twice as many looks.
   */
  private static final int WIDE_LOOKS = 30;

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

  /** How many looks in a row a table was wide. */
  private final Map<String, Integer> wideLooks = new HashMap<>();

  @Inject
  Vacuum(Database database, RetainSettings settings) {
    this.database = database;
    this.settings = settings;
  }

  /** Answers what was vacuumed or cut off. Called by one thread at a time. */
  public List<String> run() throws SQLException {
    long bound = settings.vacuumDead();
    if (bound == 0 || System.nanoTime() - notBefore < 0) {
      return List.of();
    }
    Look look = database.run(connection -> look(connection, bound));
    if (look.dead().isEmpty()) {
      // An idle service asks little.
      long now = System.nanoTime();
      notBefore = now + (now - busyNanos < BUSY_NANOS ? 0 : IDLE_NANOS);
    } else {
      vacuum(look.dead(), bound);
    }
    // Last: for this it may wait.
    return Stream.concat(look.dead().stream(), cutWide(look.wide()).stream()).toList();
  }

  private void vacuum(List<String> tables, long bound) throws SQLException {
    long begin = System.nanoTime();
    busyNanos = begin;
    try {
      for (String table : tables) {
        execute(table.equals("waybill.jobs") ? JOBS : SMALL + table);
      }
      // A snapshot that somebody holds keeps the dead where they are: then less and less often.
      boolean inVain = database.run(connection -> look(connection, bound)).dead().equals(tables);
      pauseNanos = inVain ? Math.min(PAUSE_NANOS_MAX, PAUSE_NANOS + 2 * pauseNanos) : 0;
    } finally {
      long end = System.nanoTime();
      notBefore = end + Math.max(pauseNanos, REST_TIMES * (end - begin));
    }
  }

  private record Look(List<String> dead, List<String> wide) {}

  private static Look look(Connection connection, long bound) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LOOK)) {
      statement.setLong(1, bound);
      var look = new Look(new ArrayList<>(), new ArrayList<>());
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          if (rows.getBoolean(2)) {
            look.dead().add(rows.getString(1));
          }
          if (rows.getBoolean(3)) {
            look.wide().add(rows.getString(1));
          }
        }
      }
      return look;
    }
  }

  private List<String> cutWide(List<String> wide) throws SQLException {
    var cut = new ArrayList<String>();
    wideLooks.keySet().retainAll(wide);
    for (String table : wide) {
      int looks = 1 + wideLooks.getOrDefault(table, 0);
      wideLooks.put(table, looks);
      if (looks % WIDE_LOOKS == 0 && Integer.bitCount(looks / WIDE_LOOKS) == 1) {
        execute(CUT + table);
        cut.add(table);
      }
    }
    return cut;
  }

  private void execute(String sql) throws SQLException {
    boolean _ =
        database.run(connection -> {
          try (Statement statement = connection.createStatement()) {
            return statement.execute(sql);
          }
        });
  }
}
