package dev.waybill;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;

/** Settings that concern the whole. */
@ConfigMapping(prefix = "waybill")
interface Settings {

  /** {@code WAYBILL_ROLES}. */
  @WithDefault("api,worker,maintenance")
  String roles();

  /** {@code WAYBILL_MIGRATE}: start, only or never. */
  @WithDefault("start")
  String migrate();
}
