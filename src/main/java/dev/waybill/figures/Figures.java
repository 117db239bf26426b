package dev.waybill.figures;

import dev.waybill.db.Beat;
import dev.waybill.db.Database;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
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

  private static final String SAMPLED =
      """
      WITH span AS MATERIALIZED (
        SELECT max(at) AS latest, min(at) FILTER (WHERE at > now() - interval '65 seconds') AS at FROM waybill.figures_past
      )
      SELECT f.kind, f.scheduled, f.ready, f.running, f.oldest_ready_seconds, f.dead, f.dead_last_24h,
        extract(epoch FROM span.latest - span.at)::float8 AS seconds, f.claimed - coalesce(p.claimed, 0) AS claimed,
        f.done - coalesce(p.done, 0) AS done, f.retried - coalesce(p.retried, 0) AS retried
      FROM span JOIN waybill.figures_past f ON f.at = span.latest AND f.kind <> '' LEFT JOIN waybill.figures_past p ON p.at = span.at AND p.kind = f.kind
      ORDER BY f.kind
      """;

  /** Takes a lock that it does not wait for, and looks whether another process was quicker. */
  private static final String SAMPLE = "SELECT waybill.sample_figures()";

  private final Database database;
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
   * As of the last sample, a few seconds ago: for metrics, which every process is asked for. Empty
   * when there is none.
   */
  public List<KindFigures> sampled() throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(SAMPLED)) {
        return read(statement);
      }
    });
  }

  /** True when it was this process that sampled. */
  public boolean sample() throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(SAMPLE);
          ResultSet row = statement.executeQuery()) {
        row.next();
        return row.getBoolean(1);
      }
    });
  }

  @Scheduled(every = "5s", concurrentExecution = ConcurrentExecution.SKIP)
  void beat() {
    beat.run(this::sample);
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
