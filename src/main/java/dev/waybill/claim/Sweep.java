package dev.waybill.claim;

import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** Finds the lanes that have something ready, each with its true head. */
final class Sweep {

  /**
   * A skip scan: from lane to lane, one index descent each, however long the lanes are. It reads
   * each lane from its true beginning and so pays for dead entries there: that is why it runs about
   * once a second, and claims start at what it found.
   *
   * <p>Plan hazard: as {@code SELECT DISTINCT} this reads every ready row. The recursion makes the
   * planner descend once a lane; it needs nestloop over {@code jobs_ready}, whose predicate is the
   * literal {@code state = 'ready'}.
   */
  private static final String SWEEP =
      """
      WITH RECURSIVE lane AS (
        SELECT head.* FROM unnest(?::text[]) AS asked(kind) CROSS JOIN LATERAL (
          SELECT j.kind, j.tenant, j.priority, j.run_at, j.id FROM waybill.jobs j
          WHERE j.state = 'ready' AND j.kind = asked.kind
          ORDER BY j.kind, j.tenant, j.priority, j.run_at, j.id LIMIT 1
        ) head
        UNION ALL
        SELECT next.* FROM lane CROSS JOIN LATERAL (
          SELECT j.kind, j.tenant, j.priority, j.run_at, j.id FROM waybill.jobs j
          WHERE j.state = 'ready' AND j.kind = lane.kind AND (j.tenant, j.priority) > (lane.tenant, lane.priority)
          ORDER BY j.kind, j.tenant, j.priority, j.run_at, j.id LIMIT 1
        ) next
      )
      SELECT kind, tenant, priority, (extract(epoch FROM run_at) * 1000000)::bigint AS low_micros, id,
        greatest(0, extract(epoch FROM now() - run_at) * 1000)::bigint AS waited_millis
      FROM lane LIMIT ?
      """;

  /** More lanes than this are found by the sweeps after, as these are worked off. */
  private static final int LANES_MAX = 20_000;

  private Sweep() {}

  static List<Lane> of(Connection connection, Set<String> kinds) throws SQLException {
    Array asked = connection.createArrayOf("text", kinds.toArray());
    try (PreparedStatement statement = connection.prepareStatement(SWEEP)) {
      statement.setArray(1, asked);
      statement.setInt(2, LANES_MAX);
      var lanes = new ArrayList<Lane>();
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          lanes.add(
              new Lane(
                  rows.getString(1),
                  rows.getString(2),
                  rows.getInt(3),
                  rows.getLong(4),
                  rows.getLong(5),
                  rows.getLong(6)));
        }
      }
      return lanes;
    }
  }
}
