package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonRawValue;
import java.time.OffsetDateTime;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.enums.SchemaType;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** A job as REST shows it, live or finished. */
@Schema(name = "Job")
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
            type = SchemaType.OBJECT,
            description = "Left out, as result is, for callers that may not read payloads")
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
    @Nullable @JsonRawValue @Schema(type = SchemaType.OBJECT) String result,
    @Nullable @JsonRawValue @Schema(type = SchemaType.OBJECT) String progress,
    List<String> tags,
    @Nullable String dedupeKey,
    @JsonRawValue @Schema(type = SchemaType.ARRAY, implementation = AttemptView.class)
        String attempts,
    Timings timings) {

  /** One attempt of a job. */
  @Schema(name = "Attempt")
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record AttemptView(
      int attempt,
      @Nullable String worker,
      @Nullable OffsetDateTime startedAt,
      @Nullable OffsetDateTime endedAt,
      @Nullable String outcome,
      @Nullable String error) {}

  /** How long it took, by the database's clock. */
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Timings(@Nullable Double waitSeconds, @Nullable Double runSeconds) {}
}
