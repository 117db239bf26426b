package dev.waybill.deliver;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;
import java.time.Duration;
import java.util.Optional;

/** Settings of this room. */
@ConfigMapping(prefix = "waybill.push")
interface PushSettings {

  /** {@code WAYBILL_PUSH_ALLOW}: the hosts that may be posted to; none without it. */
  Optional<String> allow();

  /** {@code WAYBILL_PUSH_ALLOW_PRIVATE}: networks that are not public, and may be posted to. */
  Optional<String> allowPrivate();

  /** {@code WAYBILL_PUSH_SECRETS}: {@code name=whsec_new,whsec_old;other=whsec_...}. */
  Optional<String> secrets();

  /** {@code WAYBILL_PUSH_TIMEOUT}: for the whole of a post. */
  @WithDefault("30s")
  Duration timeout();

  /** {@code WAYBILL_PUSH_CONNECT_TIMEOUT}: for the name, and again for the connection. */
  @WithDefault("5s")
  Duration connectTimeout();

  /** {@code WAYBILL_PUSH_CONCURRENCY}: posts at once to one target, from this process. */
  @WithDefault("16")
  int concurrency();

  /** {@code WAYBILL_PUSH_CA_FILE}: certificates (PEM) to trust instead of the usual ones. */
  Optional<String> caFile();
}
