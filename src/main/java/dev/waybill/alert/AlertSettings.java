package dev.waybill.alert;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;
import java.util.Optional;

/** Settings of this room, as texts: {@link AlertPlan} refuses a wrong one in one line. */
@ConfigMapping(prefix = "waybill.alert")
interface AlertSettings {

  /**
   * {@code WAYBILL_ALERT_GROWTH}: so many more dead letters of a kind within the window are told;
   * 0: none are.
   */
  @WithDefault("20")
  String growth();

  /** {@code WAYBILL_ALERT_WINDOW}: from a minute to a day. */
  @WithDefault("10m")
  String window();

  /** {@code WAYBILL_ALERT_DAILY}: when, by UTC; or {@code off}. */
  @WithDefault("08:00")
  String daily();

  /** {@code WAYBILL_ALERT_WEBHOOK}: where alerts are posted to; none: they are in the log only. */
  Optional<String> webhook();

  /** {@code WAYBILL_ALERT_SECRET}: what signs them; without it they are not signed. */
  Optional<String> secret();
}
