package dev.waybill.api;

import io.quarkus.runtime.annotations.RegisterForReflection;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** What {@code POST /v1/dlq/replays} takes. */
@Schema(name = "NewReplay", requiredProperties = "filter")
@RegisterForReflection
public record ReplayBody(
    @Schema(description = "Which dead letters; {} for all") @Nullable Filter filter,
    @Schema(description = "Jobs a second, over all processes; default 10", examples = "50")
        @Nullable Double ratePerSecond,
    @Schema(description = "Only say what would be replayed") @Nullable Boolean dryRun) {

  /** Which dead letters. All that is said must hold. */
  @Schema(name = "DeadFilter")
  @RegisterForReflection
  public record Filter(
      @Nullable String kind,
      @Nullable String tenant,
      @Nullable String fingerprint,
      @Schema(format = "date-time", description = "This time included") @Nullable String diedAfter,
      @Schema(format = "date-time", description = "This time excluded") @Nullable String diedBefore,
      @Schema(description = "At most 1,000") @Nullable List<@Nullable Long> ids) {}
}
