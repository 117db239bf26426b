package dev.waybill.trace;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Something that is going on. Ended once, by whoever began it; one that is not sampled only hands
 * its context on.
 */
public final class Span {

  /** What OpenTelemetry calls its kind, with its number there. */
  enum Kind {
    CLIENT(3),
    PRODUCER(4),
    CONSUMER(5);

    private final int number;

    Kind(int number) {
      this.number = number;
    }

    int number() {
      return number;
    }
  }

  private final Exporter exporter;
  private final TraceContext context;
  private final @Nullable TraceContext parent;
  private final String name;
  private final Kind kind;
  private final long beginMicros;
  private final long beginNanos = System.nanoTime();
  private final Map<String, Object> attributes = new LinkedHashMap<>();
  private long tookNanos;
  private boolean failed;

  Span(
      Exporter exporter,
      TraceContext context,
      @Nullable TraceContext parent,
      String name,
      Kind kind) {
    this.exporter = exporter;
    this.context = context;
    this.parent = parent;
    this.name = name;
    this.kind = kind;
    this.beginMicros = exporter.nowMicros();
  }

  public TraceContext context() {
    return context;
  }

  /** Never a payload, nor the text of an error. */
  public Span with(String attribute, String value) {
    if (context.sampled()) {
      attributes.put(attribute, value);
    }
    return this;
  }

  public Span with(String attribute, long value) {
    if (context.sampled()) {
      attributes.put(attribute, value);
    }
    return this;
  }

  /** It did not do what it should. */
  public Span failed(boolean did) {
    failed = did;
    return this;
  }

  public void end() {
    if (context.sampled()) {
      tookNanos = System.nanoTime() - beginNanos;
      exporter.offer(this);
    }
  }

  @Nullable TraceContext parent() {
    return parent;
  }

  String name() {
    return name;
  }

  Kind kind() {
    return kind;
  }

  long beginMicros() {
    return beginMicros;
  }

  long endNanosOfEpoch() {
    return beginMicros * 1_000 + tookNanos;
  }

  Map<String, Object> attributes() {
    return attributes;
  }

  boolean hasFailed() {
    return failed;
  }
}
