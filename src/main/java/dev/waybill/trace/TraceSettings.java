package dev.waybill.trace;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;
import io.smallrye.config.WithName;
import java.util.Optional;

/** OpenTelemetry's own names: {@code OTEL_EXPORTER_OTLP_ENDPOINT} and its like. */
@ConfigMapping(prefix = "otel")
interface TraceSettings {

  /** {@code OTEL_SDK_DISABLED}. */
  @WithName("sdk.disabled")
  @WithDefault("false")
  String disabled();

  /** {@code OTEL_TRACES_EXPORTER}: otlp or none. */
  @WithName("traces.exporter")
  @WithDefault("otlp")
  String exporter();

  /** {@code OTEL_EXPORTER_OTLP_ENDPOINT}: {@code /v1/traces} is added. */
  @WithName("exporter.otlp.endpoint")
  Optional<String> endpoint();

  /** {@code OTEL_EXPORTER_OTLP_TRACES_ENDPOINT}: as it stands. */
  @WithName("exporter.otlp.traces.endpoint")
  Optional<String> tracesEndpoint();

  /** {@code OTEL_EXPORTER_OTLP_HEADERS}: name=value with commas, values percent-encoded. */
  @WithName("exporter.otlp.headers")
  Optional<String> headers();

  /** {@code OTEL_EXPORTER_OTLP_PROTOCOL}. */
  @WithName("exporter.otlp.protocol")
  @WithDefault("http/json")
  String protocol();

  /** {@code OTEL_EXPORTER_OTLP_TIMEOUT}, in milliseconds. */
  @WithName("exporter.otlp.timeout")
  @WithDefault("10000")
  int timeoutMillis();

  /** {@code OTEL_SERVICE_NAME}. */
  @WithName("service.name")
  @WithDefault("waybill")
  String serviceName();

  /** {@code OTEL_RESOURCE_ATTRIBUTES}: name=value with commas. */
  @WithName("resource.attributes")
  Optional<String> resourceAttributes();

  /** {@code OTEL_TRACES_SAMPLER}. */
  @WithName("traces.sampler")
  @WithDefault("parentbased_always_on")
  String sampler();

  /** {@code OTEL_TRACES_SAMPLER_ARG}. */
  @WithName("traces.sampler.arg")
  @WithDefault("1")
  String samplerArgument();
}
