package dev.waybill.figures;

import dev.waybill.db.Beat;
import dev.waybill.db.Database;
import dev.waybill.job.Policy;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/** Asks for the figures, and sees to it that some process samples them. */
@Singleton
public final class Figures {

  private static final Logger LOG = Logger.getLogger(Figures.class);

  /**
   * Rates against the oldest sample of the last minute. A kind that the sample does not know had
   * moved nothing by then.
   */
  private static final String NOW =
      """
      WITH since AS MATERIALIZED (
        SELECT min(at) AS at FROM waybill.figures_past WHERE at > now() - interval '65 seconds'
      )
      SELECT f.kind, f.scheduled, f.ready, f.running, f.oldest_ready_seconds, f.dead, f.dead_last_24h,
        extract(epoch FROM now() - since.at)::float8 AS seconds, f.claimed - coalesce(p.claimed, 0) AS claimed,
        f.done - coalesce(p.done, 0) AS done, f.retried - coalesce(p.retried, 0) AS retried
      FROM since CROSS JOIN waybill.figures() f LEFT JOIN waybill.figures_past p ON p.at = since.at AND p.kind = f.kind
      ORDER BY f.kind
      """;

  /**
   * One row a gauge. What nobody sampled for a minute is not told any more: an old figure looks
   * like a good one. One of a time to come is old as well: the server's clock was set back.
   */
  private static final String GAUGES =
      """
      WITH latest AS MATERIALIZED (
        SELECT max(at) AS at FROM waybill.figures_past WHERE at <= now() + interval '2 seconds'
      )
      SELECT 'sample_age_seconds', '', '', NULL, coalesce(extract(epoch FROM now() - latest.at)::float8, 'Infinity') FROM latest
      UNION ALL
      SELECT v.name, 'kind', f.kind, v.state, v.value
      FROM latest JOIN waybill.figures_past f ON f.at = latest.at AND f.kind <> ''
        CROSS JOIN LATERAL (VALUES ('jobs', 'scheduled', f.scheduled::float8), ('jobs', 'ready', f.ready::float8),
          ('jobs', 'running', f.running::float8), ('oldest_ready_seconds', NULL, coalesce(f.oldest_ready_seconds, 0)),
          ('dead', NULL, f.dead::float8), ('dead_growth_24h', NULL, f.dead_last_24h::float8)) AS v(name, state, value)
      WHERE latest.at > now() - interval '1 minute'
      UNION ALL
      SELECT g.name, g.label, g.of, NULL, g.value FROM waybill.gauges g
      WHERE g.at > now() - interval '1 minute' AND g.at <= now() + interval '2 seconds'
      """;

  /** Takes a lock that it does not wait for, and looks whether another process was quicker. */
  private static final String SAMPLE = "SELECT waybill.sample_figures(?)";

  /** Who was not the first leaves it to the one who was, and looks again whether he is there. */
  private static final long OTHERS_NANOS = TimeUnit.SECONDS.toNanos(14);

  private final Database database;
  private volatile long notBefore = System.nanoTime();
  private final Beat beat = new Beat(LOG, Logger.Level.WARN, "figures not sampled, trying again");

  @Inject
  public Figures(Database database) {
    this.database = database;
  }

  /** As of now, exactly. */
  public List<KindFigures> now() throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(NOW)) {
        return read(statement);
      }
    });
  }

  /**
   * What metrics tell, as last sampled: a few seconds ago, by some process for all. Costs one
   * statement, which reads as many rows as it answers.
   */
  public List<SampledGauge> gauges() throws SQLException {
    return database.run(connection -> {
      var gauges = new ArrayList<SampledGauge>();
      try (PreparedStatement statement = connection.prepareStatement(GAUGES);
          ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          gauges.add(
              new SampledGauge(
                  row.getString(1),
                  row.getString(2),
                  row.getString(3),
                  row.getString(4),
                  row.getDouble(5)));
        }
      }
      return gauges;
    });
  }

  /** True when it was this process that sampled. */
  public boolean sample() throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(SAMPLE)) {
        statement.setLong(1, Policy.DEFAULT.retention().toMillis());
        try (ResultSet row = statement.executeQuery()) {
          row.next();
          return row.getBoolean(1);
        }
      }
    });
  }

  @Scheduled(every = "5s", concurrentExecution = ConcurrentExecution.SKIP)
  void beat() {
    if (System.nanoTime() - notBefore >= 0) {
      beat.run(() -> {
        if (!sample()) {
          notBefore = System.nanoTime() + OTHERS_NANOS;
        }
      });
    }
  }

  private static List<KindFigures> read(PreparedStatement statement) throws SQLException {
    var figures = new ArrayList<KindFigures>();
    try (ResultSet row = statement.executeQuery()) {
      while (row.next()) {
        figures.add(
            new KindFigures(
                row.getString("kind"),
                row.getLong("scheduled"),
                row.getLong("ready"),
                row.getLong("running"),
                row.getObject("oldest_ready_seconds", Double.class),
                rates(row),
                row.getLong("dead"),
                row.getLong("dead_last_24h")));
      }
    }
    return figures;
  }

  private static KindFigures.@Nullable Rates rates(ResultSet row) throws SQLException {
    @Nullable Double seconds = row.getObject("seconds", Double.class);
    return seconds == null || seconds <= 0
        ? null
        : new KindFigures.Rates(
            rate(row, "claimed", seconds),
            rate(row, "done", seconds),
            rate(row, "retried", seconds));
  }

  private static double rate(ResultSet row, String column, double seconds) throws SQLException {
    return Math.max(0, Math.round(1000 * row.getLong(column) / seconds) / 1000.0);
  }
}
