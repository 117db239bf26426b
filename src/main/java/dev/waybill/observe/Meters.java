package dev.waybill.observe;

import dev.waybill.alert.AlertEvents;
import dev.waybill.figures.Durations;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.pull.PullEvents;
import dev.waybill.retain.RetainEvents;
import dev.waybill.run.PoolEvents;
import dev.waybill.settle.Settled;
import dev.waybill.trace.Tracer;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import jakarta.inject.Singleton;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Counts what happens to jobs in this process. Meters are looked up once, not once a job. No
 * tenant, id or payload in a label.
 */
@Singleton
final class Meters implements PoolEvents, PullEvents, RetainEvents, AlertEvents {

  /** Up to what the statements' own time limit lets through. */
  private static final Duration[] CLAIM =
      buckets(0.5, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000);

  /** To hours, with the two minutes of the alert on lag as one of its bounds. */
  private static final Duration[] PICKUP =
      buckets(
          1,
          2,
          5,
          10,
          25,
          50,
          100,
          250,
          500,
          1_000,
          2_500,
          5_000,
          15_000,
          30_000,
          60_000,
          120_000,
          300_000,
          900_000,
          3_600_000,
          21_600_000);

  /** The usual time limit is ten minutes; a kind may have days. */
  private static final Duration[] JOB =
      buckets(
          1,
          2,
          5,
          10,
          25,
          50,
          100,
          250,
          500,
          1_000,
          2_500,
          5_000,
          15_000,
          30_000,
          60_000,
          120_000,
          300_000,
          600_000,
          1_800_000,
          3_600_000,
          21_600_000,
          86_400_000);

  private static Duration[] buckets(double... millis) {
    return Arrays.stream(millis)
        .mapToObj(each -> Duration.ofNanos((long) (1_000_000 * each)))
        .toArray(Duration[]::new);
  }

  /**
   * For what does not happen with each job. The equals that a record gets by itself is interpreted
   * in the native image: docs/native.md.
   */
  private record Key(String name, String first, String second) {

    @Override
    public boolean equals(@Nullable Object other) {
      return other instanceof Key key
          && name.equals(key.name)
          && first.equals(key.first)
          && second.equals(key.second);
    }

    @Override
    public int hashCode() {
      return 31 * (31 * name.hashCode() + first.hashCode()) + second.hashCode();
    }
  }

  private static final List<String> OUTCOMES =
      List.of("done", "retry", "snooze", "release", "dead");

  private final MeterRegistry registry;
  private final Set<String> kinds = ConcurrentHashMap.newKeySet();
  private final Durations durations;
  private final ConcurrentHashMap<Key, Counter> counters = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<Key, Timer> timers = new ConcurrentHashMap<>();

  // Looked up with each job, by its kind alone: a key would have to be made for each look.
  private final ConcurrentHashMap<String, Timer> pickups = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<String, Timer> ran = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<String, Map<String, Counter>> settled = new ConcurrentHashMap<>();

  Meters(MeterRegistry registry, Durations durations, Tracer tracer) {
    this.registry = registry;
    this.durations = durations;
    for (String outcome : List.of("sent", "failed", "unknown")) {
      var _ = counter("waybill_dead_alerts", "outcome", outcome);
    }
    if (tracer.wanted()) {
      FunctionCounter.builder("waybill_spans_sent", tracer, Tracer::sent).register(registry);
      FunctionCounter.builder("waybill_spans_dropped", tracer, Tracer::dropped).register(registry);
    }
  }

  @Override
  public void claimed(String pool, List<Claimed> batch, long nanos) {
    if (batch.isEmpty()) {
      counter("waybill_claim_empty", "pool", pool).increment();
    } else {
      counter("waybill_claims", "pool", pool).increment();
    }
    timer("waybill_claim", "pool", pool, CLAIM).record(nanos, TimeUnit.NANOSECONDS);
    for (Claimed job : batch) {
      if (kinds.add(job.kind())) {
        begin(job.kind());
      }
      pickup(job.kind()).record(Math.max(0, job.pickupMicros()), TimeUnit.MICROSECONDS);
    }
  }

  /** A counter that is there only after its first count hides that one from rate and increase. */
  private void begin(String kind) {
    known(kind);
    var _ = settled(kind);
  }

  private Map<String, Counter> settled(String kind) {
    return settled.computeIfAbsent(
        kind,
        _ ->
            OUTCOMES.stream()
                .collect(
                    Collectors.toUnmodifiableMap(
                        outcome -> outcome,
                        outcome ->
                            registry.counter(
                                "waybill_settled", "kind", kind, "outcome", outcome))));
  }

  private Timer pickup(String kind) {
    return pickups.computeIfAbsent(kind, _ -> newTimer("waybill_pickup", "kind", kind, PICKUP));
  }

  private Timer ran(String kind) {
    return ran.computeIfAbsent(kind, _ -> newTimer("waybill_job", "kind", kind, JOB));
  }

  /**
   * A kind that may run somewhere. Its jobs are reaped, and their holders told of lost leases, by
   * processes that never claim any: those of a killed worker come in one count, the first.
   */
  void known(String kind) {
    var _ = counter("waybill_lease_lost", "kind", kind);
    var _ = counter("waybill_reaped", "kind", kind);
  }

  @Override
  public void ran(Claimed job, Outcome outcome, long nanos) {
    ran(job.kind()).record(nanos, TimeUnit.NANOSECONDS);
    // What never ran, or was cut short by a drain, says nothing about its kind.
    if (!job.exhausted() && !(outcome instanceof Outcome.Release)) {
      durations.took(job.kind(), nanos);
    }
  }

  @Override
  public void settled(Claimed job, Outcome outcome, Settled how) {
    if (how == Settled.SETTLED) {
      Objects.requireNonNull(settled(job.kind()).get(outcome.word())).increment();
    }
  }

  @Override
  public void leaseLost(Claimed job) {
    counter("waybill_lease_lost", "kind", job.kind()).increment();
  }

  @Override
  public void alerted(String outcome) {
    counter("waybill_dead_alerts", "outcome", outcome).increment();
  }

  @Override
  public void reaped(String kind, long jobs) {
    counter("waybill_reaped", "kind", kind).increment((double) jobs);
  }

  @Override
  public void purged(String kind, long jobs) {
    counter("waybill_purged", "kind", kind).increment((double) jobs);
  }

  private Counter counter(String name, String label, String value) {
    return counters.computeIfAbsent(
        new Key(name, label, value), _ -> registry.counter(name, label, value));
  }

  private Timer timer(String name, String label, String value, Duration[] buckets) {
    return timers.computeIfAbsent(
        new Key(name, label, value), _ -> newTimer(name, label, value, buckets));
  }

  private Timer newTimer(String name, String label, String value, Duration[] buckets) {
    return Timer.builder(name).tag(label, value).serviceLevelObjectives(buckets).register(registry);
  }
}
