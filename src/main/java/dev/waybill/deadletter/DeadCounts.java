package dev.waybill.deadletter;

import dev.waybill.db.Database;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import javax.sql.DataSource;

/**
 * Sums up what came to the dead letters and what left them, which is written in rows only added.
 */
@Singleton
final class DeadCounts {

  /**
   * One folder at a time, or two would wait for each other's counters. A page bounds it. Readers
   * add up both tables in one snapshot, so they see the same before and after.
   */
  private static final String FOLD =
      """
      WITH turn AS MATERIALIZED (
        SELECT pg_try_advisory_xact_lock(7733810, 28) AS mine
      ), gone AS (
        DELETE FROM waybill.dead_moves WHERE (SELECT mine FROM turn)
          AND ctid = ANY (ARRAY(SELECT ctid FROM waybill.dead_moves LIMIT ?))
        RETURNING kind, fingerprint, tenant, n
      )
      INSERT INTO waybill.dead_counts AS c (kind, fingerprint, tenant, n)
      SELECT kind, fingerprint, tenant, sum(n) FROM gone GROUP BY kind, fingerprint, tenant HAVING sum(n) <> 0
      ON CONFLICT (kind, fingerprint, tenant) DO UPDATE SET n = c.n + excluded.n
      """;

  private static final String REMOVE_EMPTY = "DELETE FROM waybill.dead_counts WHERE n = 0";

  private static final int PAGE = 50_000;

  private final Database database;

  @Inject
  DeadCounts(DataSource dataSource) {
    this(new Database(dataSource));
  }

  DeadCounts(Database database) {
    this.database = database;
  }

  void fold() throws SQLException {
    int folded =
        database.run(connection -> {
          try (PreparedStatement statement = connection.prepareStatement(FOLD)) {
            statement.setInt(1, PAGE);
            return statement.executeUpdate();
          }
        });
    if (folded > 0) {
      database.run(connection -> {
        try (PreparedStatement statement = connection.prepareStatement(REMOVE_EMPTY)) {
          return statement.executeUpdate();
        }
      });
    }
  }
}
