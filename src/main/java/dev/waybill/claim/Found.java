package dev.waybill.claim;

import java.util.List;

/** What a sweep found, for {@link Claimer#add}. */
public final class Found {

  private final List<Lane> lanes;

  Found(List<Lane> lanes) {
    this.lanes = lanes;
  }

  List<Lane> lanes() {
    return lanes;
  }
}
