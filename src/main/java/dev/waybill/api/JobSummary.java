package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import io.quarkus.runtime.annotations.RegisterForReflection;
import java.time.OffsetDateTime;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** A job in a list: without payload, result and history, which are read one by one. */
@Schema(
    name = "JobSummary",
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
      "tags"
    })
@RegisterForReflection
@JsonInclude(JsonInclude.Include.NON_NULL)
public record JobSummary(
    long id,
    String kind,
    String tenant,
    int priority,
    @Schema(enumeration = {"scheduled", "ready", "running", "done", "dead", "cancelled"})
        String state,
    int attempt,
    @Nullable Integer maxAttempts,
    int crashes,
    int payloadVersion,
    OffsetDateTime createdAt,
    OffsetDateTime runAt,
    @Nullable OffsetDateTime startedAt,
    @Nullable OffsetDateTime finishedAt,
    @Nullable String worker,
    @Nullable String lastError,
    List<String> tags,
    @Nullable String dedupeKey) {}
