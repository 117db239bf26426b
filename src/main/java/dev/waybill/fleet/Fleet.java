package dev.waybill.fleet;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.waybill.db.Beat;
import dev.waybill.db.Database;
import dev.waybill.run.PoolState;
import dev.waybill.run.Pools;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.jboss.logging.Logger;

/** This process among the others. */
@Singleton
public final class Fleet {

  private static final Logger LOG = Logger.getLogger(Fleet.class);

  /** By the database's clock; a row that comes too late is as good as new. */
  private static final String TELL =
      """
      INSERT INTO waybill.workers AS w (process, name, version, roles, pools, draining) VALUES (?, ?, ?, ?, ?::jsonb, ?)
      ON CONFLICT (process) DO UPDATE SET pools = excluded.pools, draining = excluded.draining, seen_at = now()
      """;

  /** Twelve beats missed: it is gone, or as good as. Readers do not wait for this. */
  private static final String FORGET =
      "DELETE FROM waybill.workers WHERE seen_at < now() - interval '1 minute'";

  private static final String LEAVE = "DELETE FROM waybill.workers WHERE process = ?";

  private static final String READ =
      """
      SELECT process, name, version, roles, pools::text, draining, started_at, seen_at FROM waybill.workers
      WHERE seen_at >= now() - interval '1 minute' ORDER BY name, process
      """;

  private static final int FORGET_EVERY = 4;

  private final Database database;
  private final Pools pools;
  private final ObjectMapper json;
  private final String version;
  private final UUID process = UUID.randomUUID();
  private volatile List<String> roles = List.of();
  private volatile boolean on;

  /** Of one thread at a time. */
  private int beats;

  private final Beat beat =
      new Beat(LOG, Logger.Level.WARN, "not told that we are here, trying again");

  @Inject
  Fleet(
      Database database,
      Pools pools,
      ObjectMapper json,
      @ConfigProperty(name = "quarkus.application.version") String version) {
    this.database = database;
    this.pools = pools;
    this.json = json;
    this.version = version;
  }

  /** The process is up, with these roles. */
  public void join(List<String> played) {
    roles = List.copyOf(played);
    on = true;
    beat();
  }

  /** It goes down. */
  public void leave() {
    on = false;
    try {
      database.run(connection -> {
        try (PreparedStatement statement = connection.prepareStatement(LEAVE)) {
          statement.setObject(1, process);
          return statement.executeUpdate();
        }
      });
    } catch (SQLException gone) {
      LOG.debugf(gone, "not said goodbye, forgotten in a minute");
    }
  }

  @Scheduled(every = "5s", concurrentExecution = ConcurrentExecution.SKIP)
  void beat() {
    if (on) {
      beat.run(() -> database.run(this::tell));
    }
  }

  private int tell(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(TELL)) {
      statement.setObject(1, process);
      statement.setString(2, pools.worker());
      statement.setString(3, version);
      statement.setArray(4, connection.createArrayOf("text", roles.toArray()));
      statement.setString(5, poolsJson());
      statement.setBoolean(6, pools.draining());
      statement.executeUpdate();
    }
    if (beats++ % FORGET_EVERY != 0) {
      return 0;
    }
    try (PreparedStatement statement = connection.prepareStatement(FORGET)) {
      return statement.executeUpdate();
    }
  }

  private String poolsJson() {
    ArrayNode all = json.createArrayNode();
    for (PoolState pool : pools.states()) {
      ObjectNode one = all.addObject();
      one.put("name", pool.name());
      ArrayNode kinds = one.putArray("kinds");
      pool.kinds().stream().sorted().forEach(kinds::add);
      one.put("slots", pool.slots());
      one.put("slotsInUse", pool.slotsInUse());
    }
    return all.toString();
  }

  /** Everybody who was heard of within the last minute. */
  public List<Member> members() throws SQLException {
    return database.run(connection -> {
      var members = new ArrayList<Member>();
      try (PreparedStatement statement = connection.prepareStatement(READ);
          ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          members.add(
              new Member(
                  row.getString(1),
                  row.getString(2),
                  row.getString(3),
                  List.of((String[]) row.getArray(4).getArray()),
                  row.getString(5),
                  row.getBoolean(6),
                  row.getObject(7, OffsetDateTime.class),
                  row.getObject(8, OffsetDateTime.class)));
        }
      }
      return members;
    });
  }
}
