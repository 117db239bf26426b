package dev.waybill.access;

import org.jspecify.annotations.Nullable;

/** Ends a request: the caller is not known (401) or may not do this (403). */
public final class Denied extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final boolean known;
  private final @Nullable String field;

  private Denied(boolean known, @Nullable String field, String detail) {
    super(detail);
    this.known = known;
    this.field = field;
  }

  static Denied unknown(String detail) {
    return new Denied(false, null, detail);
  }

  static Denied forbidden(String detail) {
    return new Denied(true, null, detail);
  }

  static Denied field(String field, String detail) {
    return new Denied(true, field, detail);
  }

  /** Whether the caller is known, and may not do this; otherwise nobody knows who asks. */
  public boolean known() {
    return known;
  }

  /** The part of the request that is at fault, or null. */
  public @Nullable String field() {
    return field;
  }

  public String detail() {
    return String.valueOf(getMessage());
  }
}
