package dev.waybill.access;

import org.jspecify.annotations.Nullable;

/** Ends a request before anything was done. */
public final class Denied extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Each has its own status. */
  public enum Why {
    /** Nobody knows who asks: 401. */
    UNKNOWN,
    /** The caller is known, and may not do this: 403. */
    FORBIDDEN,
    /** This process does not serve it: 404. */
    NOT_HERE,
    /** It cannot be decided yet: 503. */
    NOT_NOW
  }

  private final Why why;
  private final @Nullable String field;

  private Denied(Why why, @Nullable String field, String detail) {
    super(detail);
    this.why = why;
    this.field = field;
  }

  static Denied unknown(String detail) {
    return new Denied(Why.UNKNOWN, null, detail);
  }

  /** It is not for this caller. */
  public static Denied forbidden(String detail) {
    return new Denied(Why.FORBIDDEN, null, detail);
  }

  /** What a field of the request asks for is not for this caller. */
  public static Denied field(String field, String detail) {
    return new Denied(Why.FORBIDDEN, field, detail);
  }

  static Denied notHere(String detail) {
    return new Denied(Why.NOT_HERE, null, detail);
  }

  static Denied notNow(String detail) {
    return new Denied(Why.NOT_NOW, null, detail);
  }

  public Why why() {
    return why;
  }

  /** The part of the request that is at fault, or null. */
  public @Nullable String field() {
    return field;
  }

  public String detail() {
    return String.valueOf(getMessage());
  }
}
