package dev.waybill.deliver;

import org.jspecify.annotations.Nullable;

/** One post as a trace sees it. Used by one thread. */
final class Leg {

  private final @Nullable String traceparent;
  private String origin = "";
  private int status;

  Leg(@Nullable String traceparent) {
    this.traceparent = traceparent;
  }

  @Nullable String traceparent() {
    return traceparent;
  }

  void goesTo(String target) {
    origin = target;
  }

  void answered(int with) {
    status = with;
  }

  String origin() {
    return origin;
  }

  /** 0: there was no answer. */
  int status() {
    return status;
  }
}
