package dev.waybill.trace;

import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.http.HttpRequest;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.jspecify.annotations.Nullable;

/**
 * Begins the spans of a job's life. Off, and without a cost beyond one look, unless an endpoint is
 * set. Names and attributes are those of OpenTelemetry's conventions for messaging.
 */
@Singleton
public final class Tracer {

  private static final String PATH = "/v1/traces";
  private static final Set<String> SCHEMES = Set.of("http", "https");
  private static final int PORT_MAX = 65_535;

  /** The span whose figures are being counted on this thread, for exemplars. */
  private static final ThreadLocal<@Nullable TraceContext> COUNTED = new ThreadLocal<>();

  private final @Nullable TraceSettings settings;
  private final String version;
  private volatile @Nullable Exporter exporter;
  private volatile @Nullable Sampler sampler;

  @Inject
  Tracer(
      TraceSettings settings,
      @ConfigProperty(name = "quarkus.application.version") String version) {
    this.settings = settings;
    this.version = version;
  }

  private Tracer() {
    settings = null;
    version = "";
  }

  /** Makes none, ever. */
  public static Tracer off() {
    return new Tracer();
  }

  /** Whether an endpoint is set, right or wrong. */
  public boolean wanted() {
    return settings != null
        && !settings.disabled().equals("true")
        && !settings.exporter().equals("none")
        && (settings.endpoint().isPresent() || settings.tracesEndpoint().isPresent());
  }

  /** Refuses a wrong setting, in one line, before anything was touched. */
  public void check() {
    if (settings != null && wanted()) {
      HttpRequest request = request(settings);
      sampler = Sampler.of(settings.sampler(), settings.samplerArgument());
      exporter = exporter(settings, request, version);
    }
  }

  /**
   * What each batch is sent with, but for the batch. A refusal quotes nothing: URL and headers may
   * hold a secret.
   */
  private static HttpRequest request(TraceSettings settings) {
    HttpRequest.Builder request = HttpRequest.newBuilder(endpoint(settings));
    Map<String, String> headers =
        Pairs.read("OTEL_EXPORTER_OTLP_HEADERS", settings.headers().orElse(""));
    try {
      request.setHeader("Content-Type", "application/json");
      headers.forEach(request::setHeader);
      return request.build();
    } catch (IllegalArgumentException _) {
      throw new IllegalArgumentException(
          "OTEL_EXPORTER_OTLP_HEADERS: a header in it cannot be sent, such as Host or one with a line"
              + " break; right would be name=value,other=value");
    }
  }

  private static URI endpoint(TraceSettings settings) {
    String exact = settings.tracesEndpoint().orElse("").strip();
    String base = settings.endpoint().orElse("").strip();
    boolean takesBase = exact.isEmpty() && !base.isEmpty();
    String setting =
        takesBase ? "OTEL_EXPORTER_OTLP_ENDPOINT" : "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    String right = "; right would be http://collector:4318" + (takesBase ? "" : PATH);
    try {
      var endpoint = new URI(takesBase ? base.replaceFirst("/+$", "") + PATH : exact);
      if (endpoint.getUserInfo() != null) {
        throw new IllegalArgumentException(
            setting
                + ": a user or a password in it is not sent; right would be"
                + " OTEL_EXPORTER_OTLP_HEADERS with authorization=Basic%20...");
      }
      if (SCHEMES.contains(String.valueOf(endpoint.getScheme()).toLowerCase(Locale.ROOT))
          && endpoint.getHost() != null
          && endpoint.getPort() <= PORT_MAX) {
        return endpoint;
      }
    } catch (URISyntaxException _) {
      // Said below; its message quotes.
    }
    throw new IllegalArgumentException(
        setting + ": it is no URL, or its host is no name (an underscore is in none)" + right);
  }

  private static Exporter exporter(TraceSettings settings, HttpRequest request, String version) {
    if (!settings.protocol().startsWith("http/")) {
      throw new IllegalArgumentException(
          "OTEL_EXPORTER_OTLP_PROTOCOL: '"
              + settings.protocol()
              + "' is not spoken; right would be http/json, on port 4318 of the collector");
    }
    return new Exporter(
        request,
        Duration.ofMillis(Math.max(1, settings.timeoutMillis())),
        Resource.of(settings, version));
  }

  public boolean on() {
    return exporter != null;
  }

  public void start() {
    @Nullable Exporter sends = exporter;
    if (sends != null) {
      sends.start();
    }
  }

  public void stop() throws InterruptedException {
    @Nullable Exporter sends = exporter;
    if (sends != null) {
      sends.stop();
    }
  }

  /** Spans that reached the collector. */
  public double sent() {
    @Nullable Exporter sends = exporter;
    return sends == null ? 0 : sends.sent();
  }

  /** Spans that did not, and never will. */
  public double dropped() {
    @Nullable Exporter sends = exporter;
    return sends == null ? 0 : sends.dropped();
  }

  /** Jobs come in; their {@code traceparent} is to be that of this span. Null when off. */
  public @Nullable Span enqueue(String kind, @Nullable String traceparent) {
    @Nullable Span span = begin("enqueue " + kind, Span.Kind.PRODUCER, traceparent);
    return span == null ? null : messaging(span, kind, "send");
  }

  /** An attempt begins. Null when off. */
  public @Nullable Span process(String kind, @Nullable String traceparent) {
    @Nullable Span span = begin("process " + kind, Span.Kind.CONSUMER, traceparent);
    return span == null ? null : messaging(span, kind, "process");
  }

  /** A job is posted to its target. Null when off. */
  public @Nullable Span push(@Nullable String traceparent) {
    return begin("POST", Span.Kind.CLIENT, traceparent);
  }

  private static Span messaging(Span span, String kind, String operation) {
    return span.with("messaging.system", "waybill")
        .with("messaging.operation.name", operation)
        .with("messaging.operation.type", operation)
        .with("messaging.destination.name", kind);
  }

  private @Nullable Span begin(String name, Span.Kind kind, @Nullable String traceparent) {
    @Nullable Exporter sends = exporter;
    @Nullable Sampler decides = sampler;
    if (sends == null || decides == null) {
      return null;
    }
    @Nullable TraceContext parent = TraceContext.parse(traceparent);
    return new Span(sends, decides.begin(parent), parent, name, kind);
  }

  /** What is counted within belongs to this span. */
  public static void counting(@Nullable Span span, Runnable counts) {
    if (span == null || !span.context().sampled()) {
      counts.run();
      return;
    }
    COUNTED.set(span.context());
    try {
      counts.run();
    } finally {
      COUNTED.remove();
    }
  }

  /** The span that is counted for on this thread. */
  public static @Nullable TraceContext counted() {
    return COUNTED.get();
  }
}
