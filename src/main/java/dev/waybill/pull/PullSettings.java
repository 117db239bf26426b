package dev.waybill.pull;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;

/** Settings of this room. */
@ConfigMapping(prefix = "waybill.pull")
public interface PullSettings {

  /** {@code WAYBILL_PULL_POLLS_MAX}: polls that wait in this process at once. */
  @WithDefault("5000")
  int pollsMax();
}
