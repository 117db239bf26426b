package dev.waybill.job;

import java.util.Locale;

/** Who works the jobs of a kind. */
public enum Delivery {
  /** A handler of this build. */
  BEAN,
  /** Whoever leases them over HTTP. */
  PULL,
  /** They are posted to a URL. */
  HTTP;

  /** As the database, JSON and the docs spell it. */
  public String word() {
    return name().toLowerCase(Locale.ROOT);
  }

  public static Delivery of(String word) {
    return valueOf(word.toUpperCase(Locale.ROOT));
  }
}
