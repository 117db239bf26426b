package dev.waybill.api;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** What {@code POST /v1/jobs} takes. */
@Schema(name = "NewJob", requiredProperties = "kind")
public record EnqueueBody(
    @Schema(examples = "echo") @Nullable String kind,
    @Schema(implementation = Object.class, description = "Any JSON value; default {}")
        @Nullable JsonNode payload,
    @Schema(description = "Whose job it is; default ''") @Nullable String tenant,
    @Schema(description = "Smaller goes first; default 0") @Nullable Integer priority,
    @Schema(format = "date-time", description = "Not before this time") @Nullable String runAt,
    @Schema(
            implementation = Object.class,
            description = "Instead of runAt: an ISO 8601 duration, or seconds",
            examples = "PT5M")
        @Nullable JsonNode delay,
    @Schema(
            description =
                "At most one live job of a kind and tenant has this key; whoever asks again gets that one")
        @Nullable String dedupeKey,
    @Nullable Integer maxAttempts,
    @Nullable List<@Nullable String> tags,
    @Nullable Integer payloadVersion) {}
