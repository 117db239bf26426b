package dev.waybill.observe;

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
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Counts what happens to jobs in this process. Meters are looked up once, not once a job. No
 * tenant, id or payload in a label.
 */
@Singleton
final class Meters implements PoolEvents, PullEvents, RetainEvents {

  private static final Duration[] BUCKETS = {
    Duration.ofMillis(1), Duration.ofMillis(2), Duration.ofMillis(5), Duration.ofMillis(10),
        Duration.ofMillis(25),
    Duration.ofMillis(50), Duration.ofMillis(100), Duration.ofMillis(250), Duration.ofMillis(500),
        Duration.ofSeconds(1),
    Duration.ofMillis(2500), Duration.ofSeconds(5), Duration.ofSeconds(15), Duration.ofMinutes(1),
        Duration.ofMinutes(5),
    Duration.ofMinutes(30)
  };

  /**
   * Looked up several times a job. The equals that a record gets by itself is interpreted in the
   * native image, and took half of its time: docs/native.md.
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

  private final MeterRegistry registry;
  private final Durations durations;
  private final ConcurrentHashMap<Key, Counter> counters = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<Key, Timer> timers = new ConcurrentHashMap<>();

  Meters(MeterRegistry registry, Durations durations, Tracer tracer) {
    this.registry = registry;
    this.durations = durations;
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
    timer("waybill_claim", "pool", pool).record(nanos, TimeUnit.NANOSECONDS);
    for (Claimed job : batch) {
      timer("waybill_pickup", "kind", job.kind())
          .record(Math.max(0, job.pickupMicros()), TimeUnit.MICROSECONDS);
    }
  }

  @Override
  public void ran(Claimed job, Outcome outcome, long nanos) {
    timer("waybill_job", "kind", job.kind()).record(nanos, TimeUnit.NANOSECONDS);
    // What never ran, or was cut short by a drain, says nothing about its kind.
    if (!job.exhausted() && !(outcome instanceof Outcome.Release)) {
      durations.took(job.kind(), nanos);
    }
  }

  @Override
  public void settled(Claimed job, Outcome outcome, Settled how) {
    if (how == Settled.SETTLED) {
      counter("waybill_settled", job.kind(), outcome).increment();
    }
  }

  @Override
  public void leaseLost(Claimed job) {
    counter("waybill_lease_lost", "kind", job.kind()).increment();
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

  private Counter counter(String name, String kind, Outcome outcome) {
    return counters.computeIfAbsent(
        new Key(name, kind, outcome.word()),
        key -> registry.counter(name, "kind", kind, "outcome", key.second()));
  }

  private Timer timer(String name, String label, String value) {
    return timers.computeIfAbsent(
        new Key(name, label, value),
        _ ->
            Timer.builder(name)
                .tag(label, value)
                .serviceLevelObjectives(BUCKETS)
                .register(registry));
  }
}
