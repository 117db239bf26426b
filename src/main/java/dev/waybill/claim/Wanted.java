package dev.waybill.claim;

import java.util.Map;

/**
 * What a pool is after. Asked anew for each sweep and claim: who works a kind changes with its
 * policy.
 */
public interface Wanted {

  /** The kinds to claim, each with the newest payload version that can be worked here. */
  Map<String, Integer> kinds();

  /**
   * How many more jobs can be worked here now, for those of the kinds where that is bounded; the
   * claim counts down in it.
   */
  default Map<String, Integer> room() {
    return Map.of();
  }
}
