package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.waybill.deadletter.DeadFilter;
import dev.waybill.deadletter.Replay;
import io.quarkus.runtime.annotations.RegisterForReflection;
import java.time.OffsetDateTime;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** A replay, and how far it is. */
@Schema(name = "Replay")
@RegisterForReflection
@JsonInclude(JsonInclude.Include.NON_NULL)
public record ReplayView(
    long id,
    @Schema(enumeration = {"running", "done", "stopped"}) String state,
    @Schema(description = "Who began it") String who,
    OffsetDateTime createdAt,
    @Nullable OffsetDateTime endedAt,
    double ratePerSecond,
    Filter filter,
    @Schema(description = "How many there were when it began, counted up to 100,000") long matched,
    @Schema(description = "There were more than matched says") boolean matchedMore,
    @Schema(description = "How many are back in the queue") long returned,
    Skipped skipped) {

  /** What it is about. */
  @Schema(name = "ReplayFilter")
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Filter(
      @Nullable String kind,
      @Nullable String tenant,
      @Nullable String fingerprint,
      @Nullable OffsetDateTime diedAfter,
      @Nullable OffsetDateTime diedBefore,
      @Nullable List<Long> ids) {

    static Filter of(DeadFilter filter) {
      return new Filter(
          filter.kind(),
          filter.tenant(),
          filter.fingerprint(),
          filter.diedAfter(),
          filter.diedBefore(),
          filter.ids());
    }
  }

  /** What stayed dead, and why. */
  @Schema(name = "ReplaySkipped")
  @RegisterForReflection
  public record Skipped(
      @Schema(description = "A live job has the same dedupe key") long dedupe,
      @Schema(description = "Somebody else had it in hand, such as another replay or a deletion")
          long busy) {}

  /** For {@code GET /v1/dlq/replays}. */
  @Schema(name = "ReplayPage")
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Page(List<ReplayView> replays, @Nullable String next) {}

  /** What would be replayed. */
  @Schema(name = "DryRun")
  @RegisterForReflection
  public record DryRun(
      boolean dryRun,
      @Schema(description = "Counted up to 100,000") long matched,
      @Schema(description = "There are more than matched says") boolean matchedMore,
      double ratePerSecond,
      @Schema(description = "How long matched would take") double seconds,
      @Schema(description = "The last ten") List<DeadLetterView> samples) {}

  static ReplayView of(Replay replay) {
    return new ReplayView(
        replay.id(),
        replay.state(),
        replay.who(),
        replay.createdAt(),
        replay.endedAt(),
        replay.ratePerSecond(),
        Filter.of(replay.filter()),
        replay.matched(),
        replay.matchedMore(),
        replay.returned(),
        new Skipped(replay.skippedDedupe(), replay.skippedBusy()));
  }
}
