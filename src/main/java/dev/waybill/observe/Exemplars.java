package dev.waybill.observe;

import dev.waybill.trace.TraceContext;
import dev.waybill.trace.Tracer;
import io.prometheus.client.exemplars.DefaultExemplarSampler;
import io.prometheus.client.exemplars.ExemplarSampler;
import io.prometheus.client.exemplars.tracer.common.SpanContextSupplier;
import jakarta.annotation.Priority;
import jakarta.enterprise.inject.Alternative;
import jakarta.enterprise.inject.Produces;
import jakarta.inject.Singleton;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A histogram's bucket names a trace that fell into it, in the OpenMetrics form of {@code
 * /q/metrics}. Instead of Quarkus' own producer, which has none without its OpenTelemetry.
 */
@Singleton
@Alternative
@Priority(1)
final class Exemplars implements SpanContextSupplier {

  @Produces
  @Singleton
  @Alternative
  @Priority(1)
  Optional<ExemplarSampler> sampler(Tracer tracer) {
    return tracer.wanted() ? Optional.of(new DefaultExemplarSampler(this)) : Optional.empty();
  }

  // The library's interface knows no annotations; a null is how it is told that there is none.
  @Override
  @SuppressWarnings("NullAway")
  public @Nullable String getTraceId() {
    @Nullable TraceContext counted = Tracer.counted();
    return counted == null ? null : counted.traceId();
  }

  @Override
  @SuppressWarnings("NullAway")
  public @Nullable String getSpanId() {
    @Nullable TraceContext counted = Tracer.counted();
    return counted == null ? null : counted.spanId();
  }

  @Override
  public boolean isSampled() {
    return Tracer.counted() != null;
  }
}
