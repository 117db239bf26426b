package dev.waybill.policy;

/** A policy that cannot be taken: which field, and what would be right. */
public final class BadPolicy extends Exception {
  private static final long serialVersionUID = 1L;

  private final String field;

  BadPolicy(String field, String detail) {
    super(detail);
    this.field = field;
  }

  public String field() {
    return field;
  }

  public String detail() {
    return String.valueOf(getMessage());
  }
}
