package dev.waybill.retain;

import dev.waybill.db.Database;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import java.util.TreeMap;
import org.jboss.logging.Logger;

/**
 * Makes good what a crash of the server took from {@code waybill.arrivals}, which is not logged:
 * the jobs themselves are all there, so as many came as live now and have ended.
 *
 * <p>All of it in one snapshot, so it may count while jobs come and go. Only what is missing is
 * added, under a word of its own: where more are told of than there are, jobs were lost, and that
 * is for {@code waybill.audit()} to say.
 */
final class Recount {

  private static final Logger LOG = Logger.getLogger(Recount.class);

  /**
   * One that was prepared before the crash commits after it, without what it had in arrivals. While
   * there is one that wrote jobs, the count is not the last.
   */
  private static final String PREPARED =
      """
      SELECT count(*) FROM pg_locks WHERE relation = 'waybill.jobs'::regclass AND pid IS NULL
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      """;

  /**
   * Two that counted at once would both add what is missing. This lock and no advisory one: it is
   * there before the snapshot is, which thus sees what an earlier one has added.
   */
  private static final String BEGIN =
      """
      SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
      LOCK TABLE waybill.arrivals_whole IN SHARE ROW EXCLUSIVE MODE NOWAIT
      """;

  private static final String WHOLE = "SELECT count(*) FROM waybill.arrivals_whole";

  private static final String BLOCKS =
      "SELECT pg_relation_size('waybill.jobs') / current_setting('block_size')::bigint";

  /**
   * A part of the table: all of a large backlog would take longer than a statement may. By place
   * and not by id, which would read whatever the index still names, here and there on the disk.
   */
  private static final String COUNT =
      "SELECT c.kind, c.n FROM waybill.count_page('waybill.jobs', ?, ?) c";

  private static final String ADD =
      """
      WITH told AS (
        SELECT kind, sum(live) AS n FROM waybill.counts GROUP BY kind
      ), missing AS (
        SELECT kind, coalesce(live.n, 0) - coalesce(told.n, 0) AS n
        FROM unnest(?::text[], ?::bigint[]) AS live(kind, n) FULL JOIN told USING (kind)
        WHERE coalesce(live.n, 0) > coalesce(told.n, 0)
      ), added AS (
        INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'recounted', n FROM missing
      ), whole AS (
        INSERT INTO waybill.arrivals_whole (since) SELECT now() WHERE NOT ?
      )
      SELECT coalesce(sum(n), 0) FROM missing
      """;

  private static final String LOCK_NOT_AVAILABLE = "55P03";

  /** 32 MB. */
  private static final int PAGE_BLOCKS = 4_096;

  private final Database database;
  private final int pageBlocks;
  private final Rest rest = new Rest(20);

  Recount(Database database) {
    this(database, PAGE_BLOCKS);
  }

  Recount(Database database, int pageBlocks) {
    this.database = database;
    this.pageBlocks = pageBlocks;
  }

  /** Called by one thread at a time. */
  void run() throws SQLException {
    if (!rest.isOver()) {
      return;
    }
    long begin = System.nanoTime();
    try {
      // Before the snapshot is taken: it then sees what all those that are not there any more did.
      boolean prepared = database.run(c -> number(c, PREPARED) > 0);
      long added = database.transaction(c -> count(c, prepared));
      if (added > 0) {
        LOG.warnf(
            "after a crash of the server or a failover what came was counted again jobs=%d", added);
      }
    } catch (SQLException failure) {
      // Then another process counts.
      if (!LOCK_NOT_AVAILABLE.equals(failure.getSQLState())) {
        throw failure;
      }
    } finally {
      rest.begin(begin);
    }
  }

  /** Answers how many jobs were missing. */
  private long count(Connection connection, boolean prepared) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      boolean _ = statement.execute(BEGIN);
    }
    if (number(connection, WHOLE) > 0) {
      return 0;
    }
    Map<String, Long> live = live(connection);
    try (PreparedStatement statement = connection.prepareStatement(ADD)) {
      statement.setArray(1, connection.createArrayOf("text", live.keySet().toArray()));
      statement.setArray(2, connection.createArrayOf("int8", live.values().toArray()));
      statement.setBoolean(3, prepared);
      try (ResultSet row = statement.executeQuery()) {
        row.next();
        return row.getLong(1);
      }
    }
  }

  private Map<String, Long> live(Connection connection) throws SQLException {
    var live = new TreeMap<String, Long>();
    long blocks = number(connection, BLOCKS);
    try (PreparedStatement statement = connection.prepareStatement(COUNT)) {
      for (long first = 0; first < blocks; first += pageBlocks) {
        statement.setLong(1, first);
        statement.setLong(2, first + pageBlocks);
        try (ResultSet rows = statement.executeQuery()) {
          while (rows.next()) {
            live.merge(rows.getString(1), rows.getLong(2), Long::sum);
          }
        }
      }
    }
    return live;
  }

  private static long number(Connection connection, String sql) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql);
        ResultSet row = statement.executeQuery()) {
      row.next();
      return row.getLong(1);
    }
  }
}
