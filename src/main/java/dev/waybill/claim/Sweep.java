package dev.waybill.claim;

import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Finds the lanes that have something ready, each with its true head. */
final class Sweep {

  /**
   * A skip scan: from lane to lane, one index descent each, however long the lanes are. It reads
   * each lane from its true beginning and so pays for dead entries there: that is why it runs about
   * once a second, and claims start at what it found.
   *
   * <p>Plan hazard: as {@code SELECT DISTINCT} this reads every ready row. The recursion makes the
   * planner descend once a lane, and the bound on the version ends it before the lanes that this
   * build cannot read; it needs nestloop over {@code jobs_due}, whose predicate is {@code due} and
   * whose columns are places (see the index). Running jobs are in that index too, and are passed
   * by.
   */
  private static final String SWEEP =
      """
      WITH RECURSIVE lane AS (
        SELECT asked.newest, head.* FROM unnest(?::text[], ?::smallint[], ?::smallint[], ?::text[], ?::smallint[])
          AS asked(kind, newest, payload_version, tenant, priority) CROSS JOIN LATERAL (
          SELECT j.kind, j.payload_version, j.tenant, j.priority, j.run_at, j.id FROM waybill.jobs j
          WHERE j.due AND j.state = 'ready' AND j.kind = asked.kind
            AND waybill.place(j.kind, j.payload_version) <= waybill.place(asked.kind, asked.newest)
            AND (waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority))
              > (waybill.place(asked.kind, asked.payload_version), waybill.place(asked.tenant, asked.priority))
          ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
        ) head
        UNION ALL
        SELECT lane.newest, next.* FROM lane CROSS JOIN LATERAL (
          SELECT j.kind, j.payload_version, j.tenant, j.priority, j.run_at, j.id FROM waybill.jobs j
          WHERE j.due AND j.state = 'ready' AND j.kind = lane.kind
            AND waybill.place(j.kind, j.payload_version) <= waybill.place(lane.kind, lane.newest)
            AND (waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority))
              > (waybill.place(lane.kind, lane.payload_version), waybill.place(lane.tenant, lane.priority))
          ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
        ) next
      )
      SELECT kind, payload_version, tenant, priority, (extract(epoch FROM run_at) * 1000000)::bigint AS low_micros, id,
        greatest(0, extract(epoch FROM now() - run_at) * 1000)::bigint AS waited_millis
      FROM lane LIMIT ?
      """;

  /**
   * The same for one tenant: from version to version, and in each from one of its priorities to the
   * next, however many lanes of others lie between.
   */
  private static final String SWEEP_OF_TENANT =
      """
      WITH RECURSIVE version AS (
        SELECT asked.kind, asked.newest, head.payload_version
        FROM unnest(?::text[], ?::smallint[]) AS asked(kind, newest) CROSS JOIN LATERAL (
          SELECT j.payload_version FROM waybill.jobs j
          WHERE j.due AND j.state = 'ready' AND j.kind = asked.kind
            AND waybill.place(j.kind, j.payload_version) BETWEEN waybill.place(asked.kind, '1') AND waybill.place(asked.kind, asked.newest)
          ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
        ) head
        UNION ALL
        SELECT version.kind, version.newest, next.payload_version FROM version CROSS JOIN LATERAL (
          SELECT j.payload_version FROM waybill.jobs j
          WHERE j.due AND j.state = 'ready' AND j.kind = version.kind
            AND waybill.place(j.kind, j.payload_version) > waybill.place(version.kind, version.payload_version)
            AND waybill.place(j.kind, j.payload_version) <= waybill.place(version.kind, version.newest)
          ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
        ) next
      ), lane AS (
        SELECT head.* FROM version CROSS JOIN (SELECT ?::text AS tenant) asked CROSS JOIN LATERAL (
          SELECT j.kind, j.payload_version, j.tenant, j.priority, j.run_at, j.id FROM waybill.jobs j
          WHERE j.due AND j.state = 'ready' AND j.kind = version.kind AND j.tenant = asked.tenant
            AND waybill.place(j.kind, j.payload_version) = waybill.place(version.kind, version.payload_version)
            AND waybill.place(j.tenant, j.priority)
              BETWEEN waybill.place(asked.tenant, '-32768') AND waybill.place(asked.tenant, '32767')
          ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
        ) head
        UNION ALL
        SELECT next.* FROM lane CROSS JOIN LATERAL (
          SELECT j.kind, j.payload_version, j.tenant, j.priority, j.run_at, j.id FROM waybill.jobs j
          WHERE j.due AND j.state = 'ready' AND j.kind = lane.kind AND j.tenant = lane.tenant
            AND waybill.place(j.kind, j.payload_version) = waybill.place(lane.kind, lane.payload_version)
            AND waybill.place(j.tenant, j.priority) > waybill.place(lane.tenant, lane.priority)
            AND waybill.place(j.tenant, j.priority) <= waybill.place(lane.tenant, '32767')
          ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
        ) next
      )
      SELECT kind, payload_version, tenant, priority, (extract(epoch FROM run_at) * 1000000)::bigint AS low_micros, id,
        greatest(0, extract(epoch FROM now() - run_at) * 1000)::bigint AS waited_millis
      FROM lane LIMIT ?
      """;

  /** A sweep that finds more goes on behind these the next time: each lane has its turn. */
  static final int LANES_MAX = 20_000;

  /** Before all lanes of a kind: versions begin with 1. */
  private static final Lane BEGINNING = new Lane("", 0, "", 0, 0, 0, 0);

  private final int lanesMax;

  /** Of the kinds that the last sweep did not get through: the last lane that it found. */
  private final Map<String, Lane> reached = new HashMap<>();

  Sweep() {
    this(LANES_MAX);
  }

  Sweep(int lanesMax) {
    this.lanesMax = lanesMax;
  }

  /**
   * @param kinds each with the newest payload version that this build can read
   * @param tenant only its lanes; null for all
   */
  List<Lane> of(Connection connection, Map<String, Integer> kinds, @Nullable String tenant)
      throws SQLException {
    if (tenant != null) {
      return ofTenant(connection, kinds, tenant);
    }
    var rest = new HashMap<>(kinds);
    rest.keySet().retainAll(reached.keySet());
    var lanes = new ArrayList<>(look(connection, kinds, lanesMax));
    if (!rest.isEmpty() && lanes.size() < lanesMax) {
      // Those that it goes on with have come to their end: from their beginning again. What was
      // found just now may be found once more.
      var found = new HashSet<Lane>();
      lanes.forEach(lane -> found.add(lane.key()));
      List<Lane> again = look(connection, rest, lanesMax - lanes.size());
      again.stream().filter(lane -> !found.contains(lane.key())).forEach(lanes::add);
    }
    return lanes;
  }

  private List<Lane> look(Connection connection, Map<String, Integer> kinds, int most)
      throws SQLException {
    Object[] asked = kinds.keySet().toArray();
    List<Lane> from = kinds.keySet().stream().map(k -> reached.getOrDefault(k, BEGINNING)).toList();
    try (PreparedStatement statement = connection.prepareStatement(SWEEP)) {
      statement.setArray(1, connection.createArrayOf("text", asked));
      statement.setArray(2, newest(connection, kinds, asked));
      statement.setArray(
          3,
          connection.createArrayOf("int2", from.stream().map(l -> l.payloadVersion()).toArray()));
      statement.setArray(
          4, connection.createArrayOf("text", from.stream().map(Lane::tenant).toArray()));
      statement.setArray(
          5, connection.createArrayOf("int2", from.stream().map(Lane::priority).toArray()));
      statement.setInt(6, most);
      List<Lane> lanes = read(statement);
      reached.clear();
      if (lanes.size() == most) {
        noteReached(lanes);
      }
      return lanes;
    }
  }

  /**
   * The kinds advance together, a lane each: those that were not at their end when it was cut short
   * have the most lanes, or one less.
   */
  private void noteReached(List<Lane> lanes) {
    var found = new HashMap<String, Integer>();
    lanes.forEach(lane -> found.merge(lane.kind(), 1, Integer::sum));
    int most = Collections.max(found.values());
    for (Lane lane : lanes) {
      if (found.getOrDefault(lane.kind(), 0) >= most - 1) {
        reached.put(lane.kind(), lane);
      }
    }
  }

  private List<Lane> ofTenant(Connection connection, Map<String, Integer> kinds, String tenant)
      throws SQLException {
    Object[] asked = kinds.keySet().toArray();
    try (PreparedStatement statement = connection.prepareStatement(SWEEP_OF_TENANT)) {
      statement.setArray(1, connection.createArrayOf("text", asked));
      statement.setArray(2, newest(connection, kinds, asked));
      statement.setString(3, tenant);
      statement.setInt(4, lanesMax);
      return read(statement);
    }
  }

  private static Array newest(Connection connection, Map<String, Integer> kinds, Object[] asked)
      throws SQLException {
    return connection.createArrayOf("int2", Arrays.stream(asked).map(kinds::get).toArray());
  }

  private static List<Lane> read(PreparedStatement statement) throws SQLException {
    var lanes = new ArrayList<Lane>();
    try (ResultSet rows = statement.executeQuery()) {
      while (rows.next()) {
        lanes.add(
            new Lane(
                rows.getString(1),
                rows.getInt(2),
                rows.getString(3),
                rows.getInt(4),
                rows.getLong(5),
                rows.getLong(6),
                rows.getLong(7)));
      }
    }
    return lanes;
  }
}
