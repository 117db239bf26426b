package dev.waybill.trace;

import org.jspecify.annotations.Nullable;

/**
 * Which traces are kept, by OpenTelemetry's names.
 *
 * @param heedsParent whoever began the trace has decided
 * @param ratio of the others
 */
record Sampler(boolean heedsParent, double ratio) {

  /** Refuses a name or a ratio that is none, in one line. */
  static Sampler of(String name, String argument) {
    return switch (name) {
      case "always_on" -> new Sampler(false, 1);
      case "always_off" -> new Sampler(false, 0);
      case "traceidratio" -> new Sampler(false, ratio(argument));
      case "parentbased_always_on" -> new Sampler(true, 1);
      case "parentbased_always_off" -> new Sampler(true, 0);
      case "parentbased_traceidratio" -> new Sampler(true, ratio(argument));
      default ->
          throw new IllegalArgumentException(
              "OTEL_TRACES_SAMPLER: '"
                  + name
                  + "' is not known; right would be parentbased_traceidratio");
    };
  }

  private static double ratio(String argument) {
    try {
      double ratio = Double.parseDouble(argument);
      if (ratio >= 0 && ratio <= 1) {
        return ratio;
      }
    } catch (NumberFormatException _) {
      // Said below.
    }
    throw new IllegalArgumentException(
        "OTEL_TRACES_SAMPLER_ARG: '" + argument + "' is no number from 0 to 1; right would be 0.1");
  }

  /** The context of a new span. All spans of a trace are decided alike, by the end of its id. */
  TraceContext begin(@Nullable TraceContext parent) {
    if (parent == null) {
      TraceContext root = TraceContext.root(true);
      return keeps(root.traceId()) ? root : new TraceContext(root.traceId(), root.spanId(), false);
    }
    TraceContext child = parent.child();
    return heedsParent
        ? child
        : new TraceContext(child.traceId(), child.spanId(), keeps(child.traceId()));
  }

  private boolean keeps(String traceId) {
    if (ratio >= 1) {
      return true;
    }
    long low = Long.parseUnsignedLong(traceId.substring(16), 16) & Long.MAX_VALUE;
    return low < (long) (ratio * Long.MAX_VALUE);
  }
}
