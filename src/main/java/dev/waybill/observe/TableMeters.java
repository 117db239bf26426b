package dev.waybill.observe;

import dev.waybill.db.Database;
import dev.waybill.figures.Figures;
import dev.waybill.figures.KindFigures;
import dev.waybill.run.Pools;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.MultiGauge;
import io.micrometer.core.instrument.MultiGauge.Row;
import io.micrometer.core.instrument.Tags;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jboss.logging.Logger;

/**
 * What the database says of the queue, alike from every process: the figures by kind as one of them
 * sampled them, and how it stands with vacuum. Asked for on a beat, so that a scrape asks nothing.
 */
@Singleton
final class TableMeters {

  private static final Logger LOG = Logger.getLogger(TableMeters.class);

  private static final String TABLES =
      """
      SELECT s.relname, s.n_dead_tup, extract(epoch FROM now() - greatest(s.last_autovacuum, s.last_vacuum))
      FROM pg_stat_user_tables s WHERE s.schemaname = 'waybill' AND s.relname IN ('jobs', 'jobs_dead', 'tally')
      """;

  private static final String SNAPSHOT =
      """
      SELECT coalesce(max(extract(epoch FROM now() - a.xact_start)), 0) FROM pg_stat_activity a
      WHERE a.backend_xmin IS NOT NULL AND a.datname = current_database() AND a.pid <> pg_backend_pid()
      """;

  private static final String PARTITIONS =
      "SELECT count(*) FROM pg_inherits WHERE inhparent = 'waybill.jobs_done'::regclass";

  private final Database database;
  private final Figures figures;
  private final Pools pools;
  private final MeterRegistry registry;
  private final MultiGauge jobs;
  private final MultiGauge oldestReady;
  private final MultiGauge dead;
  private final MultiGauge deadGrowth;
  private final MultiGauge deadTuples;
  private final MultiGauge sinceVacuum;
  private final MultiGauge partitions;
  private final Set<String> poolsKnown = new HashSet<>();
  private volatile double oldestSnapshot;

  @Inject
  TableMeters(Database database, Figures figures, Pools pools, MeterRegistry registry) {
    this.database = database;
    this.figures = figures;
    this.pools = pools;
    this.registry = registry;
    jobs = MultiGauge.builder("waybill_jobs").register(registry);
    oldestReady = MultiGauge.builder("waybill_oldest_ready_seconds").register(registry);
    dead = MultiGauge.builder("waybill_dead").register(registry);
    deadGrowth = MultiGauge.builder("waybill_dead_growth_24h").register(registry);
    deadTuples = MultiGauge.builder("waybill_dead_tuples").register(registry);
    sinceVacuum = MultiGauge.builder("waybill_seconds_since_autovacuum").register(registry);
    partitions = MultiGauge.builder("waybill_partitions").register(registry);
    Gauge.builder("waybill_oldest_snapshot_seconds", this, meters -> meters.oldestSnapshot)
        .register(registry);
  }

  @Scheduled(every = "5s", concurrentExecution = ConcurrentExecution.SKIP)
  void kinds() {
    for (String pool : pools.slotsInUse().keySet()) {
      if (poolsKnown.add(pool)) {
        Gauge.builder("waybill_slots_in_use", pools, all -> all.slotsInUse().getOrDefault(pool, 0))
            .tag("pool", pool)
            .register(registry);
      }
    }
    try {
      show(figures.sampled());
    } catch (SQLException failure) {
      LOG.debugf(failure, "figures not read");
    }
  }

  private void show(List<KindFigures> sampled) {
    var states = new ArrayList<Row<?>>();
    var oldest = new ArrayList<Row<?>>();
    var buried = new ArrayList<Row<?>>();
    var growth = new ArrayList<Row<?>>();
    for (KindFigures one : sampled) {
      Tags kind = Tags.of("kind", one.kind());
      states.add(Row.of(kind.and("state", "scheduled"), one.scheduled()));
      states.add(Row.of(kind.and("state", "ready"), one.ready()));
      states.add(Row.of(kind.and("state", "running"), one.running()));
      Double seconds = one.oldestReadySeconds();
      oldest.add(Row.of(kind, seconds == null ? 0.0 : seconds));
      buried.add(Row.of(kind, one.dead()));
      growth.add(Row.of(kind, one.deadLast24h()));
    }
    jobs.register(states, true);
    oldestReady.register(oldest, true);
    dead.register(buried, true);
    deadGrowth.register(growth, true);
  }

  @Scheduled(every = "15s", concurrentExecution = ConcurrentExecution.SKIP)
  void tables() {
    try {
      database.run(connection -> {
        showTables(connection);
        oldestSnapshot = number(connection, SNAPSHOT);
        partitions.register(
            List.of(Row.of(Tags.of("table", "jobs_done"), number(connection, PARTITIONS))), true);
        return true;
      });
    } catch (SQLException failure) {
      LOG.debugf(failure, "tables not read");
    }
  }

  private void showTables(Connection connection) throws SQLException {
    var tuples = new ArrayList<Row<?>>();
    var since = new ArrayList<Row<?>>();
    try (PreparedStatement statement = connection.prepareStatement(TABLES);
        ResultSet rows = statement.executeQuery()) {
      while (rows.next()) {
        Tags table = Tags.of("table", rows.getString(1));
        tuples.add(Row.of(table, rows.getLong(2)));
        double seconds = rows.getDouble(3);
        since.add(Row.of(table, rows.wasNull() ? Double.NaN : seconds));
      }
    }
    deadTuples.register(tuples, true);
    sinceVacuum.register(since, true);
  }

  private static double number(Connection connection, String sql) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql);
        ResultSet row = statement.executeQuery()) {
      row.next();
      return row.getDouble(1);
    }
  }
}
