package dev.waybill.job;

import org.jspecify.annotations.Nullable;

/**
 * Bounds of a kind over all pods; a null is no bound.
 *
 * @param tenantCap running at once for one tenant
 * @param kindCap running at once
 * @param ratePerSecond attempts begun in a second
 */
public record Caps(
    @Nullable Integer tenantCap, @Nullable Integer kindCap, @Nullable Double ratePerSecond) {

  public static final Caps NONE = new Caps(null, null, null);

  public boolean any() {
    return tenantCap != null || kindCap != null || ratePerSecond != null;
  }
}
