package dev.waybill.run;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;
import java.time.Duration;
import java.util.Optional;

/** Settings of this room. */
@ConfigMapping(prefix = "waybill")
interface RunSettings {

  /** {@code WAYBILL_POOLS}. */
  @WithDefault("default=*:64")
  String pools();

  /**
   * {@code WAYBILL_POOL}: the one of them that this process runs, when others run the rest.
   * Default: all. The others are known all the same, so that {@code *} does not take what is
   * theirs.
   */
  Optional<String> pool();

  /**
   * {@code WAYBILL_WORKER}: a name for this process, shown with its jobs. Default: the host's name
   * and a random part.
   */
  Optional<String> worker();

  /** {@code WAYBILL_DRAIN}: how long jobs may go on after the signal to stop. */
  @WithDefault("25s")
  Duration drain();

  /**
   * {@code WAYBILL_GRACE}: how long after its time limit a handler may take to end, before its job
   * goes on without it.
   */
  @WithDefault("10s")
  Duration grace();
}
