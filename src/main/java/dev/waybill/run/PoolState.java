package dev.waybill.run;

import java.util.Set;

/** A pool as others see it. */
public record PoolState(String name, Set<String> kinds, int slots, int slotsInUse) {

  public PoolState {
    kinds = Set.copyOf(kinds);
  }
}
