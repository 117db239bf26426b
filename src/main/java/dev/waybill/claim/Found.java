package dev.waybill.claim;

import java.util.List;
import java.util.Set;

/** What a sweep found, for {@link Claimer#add}. */
public final class Found {

  private final Set<String> kinds;
  private final List<Lane> lanes;

  /**
   * @param kinds that it looked for
   */
  Found(Set<String> kinds, List<Lane> lanes) {
    this.kinds = kinds;
    this.lanes = lanes;
  }

  Set<String> kinds() {
    return kinds;
  }

  List<Lane> lanes() {
    return lanes;
  }
}
