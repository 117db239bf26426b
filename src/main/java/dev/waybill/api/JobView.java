package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonRawValue;
import dev.waybill.enqueue.NewJob;
import dev.waybill.enqueue.Queue;
import java.time.OffsetDateTime;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.enums.SchemaType;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** A job as REST shows it, live or finished. */
@Schema(
    name = "Job",
    requiredProperties = {
      "id",
      "kind",
      "tenant",
      "priority",
      "state",
      "payloadVersion",
      "attempt",
      "crashes",
      "createdAt",
      "runAt",
      "tags",
      "attempts",
      "timings"
    })
@JsonInclude(JsonInclude.Include.NON_NULL)
public record JobView(
    long id,
    String kind,
    String tenant,
    int priority,
    @Schema(enumeration = {"scheduled", "ready", "running", "done", "dead", "cancelled"})
        String state,
    @Nullable
        @JsonRawValue
        @Schema(
            implementation = Object.class,
            description =
                "Left out, as result and progress are, for callers that may not read payloads")
        String payload,
    int payloadVersion,
    int attempt,
    @Nullable Integer maxAttempts,
    int crashes,
    OffsetDateTime createdAt,
    OffsetDateTime runAt,
    @Nullable OffsetDateTime startedAt,
    @Nullable OffsetDateTime finishedAt,
    @Nullable String worker,
    @Nullable String lastError,
    @Nullable @JsonRawValue @Schema(implementation = Object.class) String result,
    @Nullable @JsonRawValue @Schema(implementation = Object.class) String progress,
    List<String> tags,
    @Nullable String dedupeKey,
    @JsonRawValue @Schema(type = SchemaType.ARRAY, implementation = AttemptView.class)
        String attempts,
    Timings timings,
    @Schema(
            description =
                "In the answer to an enqueue: true when nothing was enqueued, since this live job has the dedupe key")
        @Nullable Boolean duplicate) {

  /** One attempt of a job. */
  @Schema(name = "Attempt", requiredProperties = "attempt")
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record AttemptView(
      int attempt,
      @Nullable String worker,
      @Nullable OffsetDateTime startedAt,
      @Nullable OffsetDateTime endedAt,
      @Nullable String outcome,
      @Nullable String error,
      @Schema(
              description =
                  "Of outcome replayed, which is no attempt: who returned the dead letter")
          @Nullable String by,
      @Schema(description = "Of outcome replayed: how many attempts more it was allowed")
          @Nullable Integer allowed) {}

  /** As it was when it was enqueued: what the request said, and the times that it got. */
  static JobView fresh(NewJob job, Queue.Told told, boolean payloads) {
    return new JobView(
        told.id(),
        job.kind(),
        job.tenant(),
        job.priority(),
        told.runAt().isAfter(told.createdAt()) ? "scheduled" : "ready",
        payloads ? job.payload() : null,
        job.payloadVersion(),
        0,
        job.maxAttempts(),
        0,
        told.createdAt(),
        told.runAt(),
        null,
        null,
        null,
        null,
        null,
        null,
        job.tags(),
        job.dedupeKey(),
        "[]",
        new Timings(null, null),
        null);
  }

  /** The same, for whoever wanted to enqueue another with its dedupe key. */
  JobView asDuplicate() {
    return new JobView(
        id,
        kind,
        tenant,
        priority,
        state,
        payload,
        payloadVersion,
        attempt,
        maxAttempts,
        crashes,
        createdAt,
        runAt,
        startedAt,
        finishedAt,
        worker,
        lastError,
        result,
        progress,
        tags,
        dedupeKey,
        attempts,
        timings,
        true);
  }

  /** How long it took, by the database's clock. */
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Timings(@Nullable Double waitSeconds, @Nullable Double runSeconds) {}
}
