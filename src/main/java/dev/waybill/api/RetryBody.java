package dev.waybill.api;

import com.fasterxml.jackson.databind.JsonNode;
import io.quarkus.runtime.annotations.RegisterForReflection;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** What {@code POST /v1/dlq/{id}/retry} takes; it may be left out. */
@Schema(name = "Retry")
@RegisterForReflection
public record RetryBody(
    @Schema(
            implementation = Object.class,
            description = "Any JSON value: instead of the payload that the job has")
        @Nullable JsonNode payload) {}
