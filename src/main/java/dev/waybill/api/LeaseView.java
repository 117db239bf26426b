package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonRawValue;
import dev.waybill.job.Claimed;
import dev.waybill.pull.Holders;
import dev.waybill.pull.Leased;
import io.quarkus.runtime.annotations.RegisterForReflection;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** A job for a worker elsewhere, with its lease. */
@Schema(name = "LeasedJob")
@RegisterForReflection
@JsonInclude(JsonInclude.Include.NON_NULL)
public record LeaseView(
    long id,
    String kind,
    String tenant,
    int priority,
    @JsonRawValue @Schema(implementation = Object.class, description = "Any JSON") String payload,
    int payloadVersion,
    @Schema(description = "The number of this attempt, from 1") int attempt,
    int maxAttempts,
    @Schema(description = "Proves the lease") UUID token,
    OffsetDateTime leaseUntil,
    List<String> tags,
    @Nullable String traceparent) {

  /** What {@code POST /v1/leases} answers. */
  @Schema(name = "Leases")
  @RegisterForReflection
  public record Jobs(
      @Schema(description = "Empty when nothing came in time") List<LeaseView> jobs) {}

  /** How it went with one item. */
  @Schema(name = "LeaseAnswer")
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Answer(
      long id,
      @Schema(
              enumeration = {"settled", "extended", "lost", "busy"},
              description =
                  "lost: somebody else has the job, or nobody; nothing was written. busy: somebody holds its row locked; ask again")
          String status,
      @Schema(description = "Of extended") @Nullable OffsetDateTime leaseUntil) {

    static Answer of(long id, Holders.Answer answer) {
      return switch (answer) {
        case Holders.Answer.Settled _ -> new Answer(id, "settled", null);
        case Holders.Answer.Extended(var until) -> new Answer(id, "extended", until);
        case Holders.Answer.Lost _ -> new Answer(id, "lost", null);
        case Holders.Answer.Busy _ -> new Answer(id, "busy", null);
      };
    }
  }

  /** An answer for each item, in the order of the request. */
  @Schema(name = "LeaseAnswers")
  @RegisterForReflection
  public record Answers(List<Answer> results) {}

  static LeaseView of(Leased leased) {
    Claimed job = leased.job();
    return new LeaseView(
        job.id(),
        job.kind(),
        job.tenant(),
        job.priority(),
        job.payload(),
        job.payloadVersion(),
        job.attempt(),
        job.maxAttempts(),
        leased.token(),
        leased.leaseUntil(),
        job.tags(),
        job.traceparent());
  }
}
