package dev.waybill.observe;

import dev.waybill.figures.Figures;
import dev.waybill.figures.SampledGauge;
import dev.waybill.run.PoolState;
import dev.waybill.run.Pools;
import io.prometheus.client.Collector;
import io.prometheus.client.CollectorRegistry;
import io.prometheus.client.GaugeMetricFamily;
import io.quarkus.runtime.Startup;
import jakarta.enterprise.inject.Produces;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * What the database says of the queue, alike from every process, and how the pools of this one
 * stand. Some process samples the database on a beat; a scrape asks for that sample, and only a
 * scrape does, so that a process that nobody scrapes asks nothing. docs/decisions/0040 says why.
 */
@Singleton
@Startup
final class SampledMeters extends Collector implements Collector.Describable {

  private static final Logger LOG = Logger.getLogger(SampledMeters.class);

  /** A figure younger than this is not asked for again. */
  private static final long FRESH_NANOS = TimeUnit.SECONDS.toNanos(4);

  /** Older than this it is not told any more, as in {@link Figures#gauges}. */
  private static final long STALE_NANOS = TimeUnit.SECONDS.toNanos(60);

  /** A database that does not answer costs a scrape no more than this. */
  private static final long WAIT_MILLIS = 1_000;

  private static final String AGE = "sample_age_seconds";

  /** Told of every kind that has a policy, and no other kind runs. */
  private static final String PAUSED = "kind_paused";

  private static final Map<String, String> HELP =
      Map.ofEntries(
          Map.entry("jobs", "live jobs"),
          Map.entry(
              "oldest_ready_seconds", "how long the oldest ready job has waited; 0: none is ready"),
          Map.entry("dead", "dead letters"),
          Map.entry("dead_growth_24h", "jobs that died within 24 hours"),
          Map.entry("dead_tuples", "dead rows, as PostgreSQL estimates them"),
          Map.entry(
              "seconds_since_autovacuum",
              "since the last vacuum, the server's or the service's own"),
          Map.entry(
              "oldest_snapshot_seconds",
              "age of the oldest transaction that keeps dead rows from vacuum"),
          Map.entry(
              "oldest_snapshot_transactions", "the same in transactions, slots and standbys too"),
          Map.entry("partitions", "days in the table"),
          Map.entry("partition_days_ahead", "days until there is no partition for what finishes"),
          Map.entry("partitions_overdue", "days past every retention that are still there"),
          Map.entry(PAUSED, "1: the kind is not claimed"),
          Map.entry(AGE, "age of what the database was sampled for"));

  /** What was read last, and when. */
  private record Read(List<SampledGauge> gauges, long nanos) {}

  private final Figures figures;
  private final Pools pools;
  private final Meters meters;
  private final ExecutorService reader =
      Executors.newSingleThreadExecutor(Thread.ofPlatform().daemon().name("metrics").factory());
  private volatile @Nullable Read last;
  private @Nullable Future<Read> reading;

  @Inject
  SampledMeters(Figures figures, Pools pools, Meters meters, CollectorRegistry registry) {
    this.figures = figures;
    this.pools = pools;
    this.meters = meters;
    registry.register(this);
  }

  /** The one that is scraped: Quarkus' own producer makes another for everybody who asks. */
  @Produces
  @Singleton
  static CollectorRegistry registry() {
    return new CollectorRegistry(true);
  }

  /** Asked for when it is registered, long before there is a database to ask. */
  @Override
  public List<MetricFamilySamples> describe() {
    return List.of();
  }

  @Override
  public List<MetricFamilySamples> collect() {
    var families = new LinkedHashMap<String, GaugeMetricFamily>();
    ownPools(families);
    @Nullable Read read = read();
    if (read != null) {
      long ageNanos = System.nanoTime() - read.nanos();
      for (SampledGauge gauge : read.gauges()) {
        if (gauge.name().equals(AGE)) {
          add(families, AGE, HELP.get(AGE), List.of(), List.of(), gauge.value() + ageNanos / 1e9);
        } else if (ageNanos < STALE_NANOS) {
          add(families, gauge);
        }
        if (gauge.name().equals(PAUSED)) {
          meters.known(gauge.of());
        }
      }
    }
    return List.copyOf(families.values());
  }

  private void ownPools(Map<String, GaugeMetricFamily> families) {
    List<String> pool = List.of("pool");
    for (PoolState state : pools.states()) {
      List<String> name = List.of(state.name());
      add(families, "slots_in_use", "attempts under way", pool, name, state.slotsInUse());
      add(families, "slots", "attempts at once, at most", pool, name, state.slots());
    }
    add(families, "ready", "1: ready, as health says", List.of(), List.of(), pools.ready() ? 1 : 0);
    add(families, "draining", "1: it stops", List.of(), List.of(), pools.draining() ? 1 : 0);
  }

  private static void add(Map<String, GaugeMetricFamily> families, SampledGauge gauge) {
    var labels = new ArrayList<String>();
    var values = new ArrayList<String>();
    if (!gauge.label().isEmpty()) {
      labels.add(gauge.label());
      values.add(gauge.of());
    }
    @Nullable String state = gauge.state();
    if (state != null) {
      labels.add("state");
      values.add(state);
    }
    add(families, gauge.name(), HELP.get(gauge.name()), labels, values, gauge.value());
  }

  private static void add(
      Map<String, GaugeMetricFamily> families,
      String name,
      @Nullable String help,
      List<String> labels,
      List<String> values,
      double value) {
    families
        .computeIfAbsent(
            name, _ -> new GaugeMetricFamily("waybill_" + name, help == null ? name : help, labels))
        .addMetric(values, value);
  }

  /** Fresh where the database answers in time, or else what was read before. */
  private synchronized @Nullable Read read() {
    @Nullable Read known = last;
    if (known != null && System.nanoTime() - known.nanos() < FRESH_NANOS) {
      return known;
    }
    // One at a time: a database that hangs is not asked again by each scrape.
    @Nullable Future<Read> asked = reading;
    boolean waited = asked != null && !asked.isDone();
    if (asked == null || asked.isDone()) {
      asked = reader.submit(this::ask);
      reading = asked;
    }
    try {
      last = asked.get(waited ? 0 : WAIT_MILLIS, TimeUnit.MILLISECONDS);
    } catch (TimeoutException | ExecutionException failure) {
      LOG.debugf(failure, "the sampled figures are not read");
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
    return last;
  }

  private Read ask() throws SQLException {
    long sent = System.nanoTime();
    return new Read(figures.gauges(), sent);
  }
}
