package dev.waybill.api;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** What {@code POST /v1/tokens} takes. */
@Schema(
    name = "NewToken",
    requiredProperties = {"name", "role"})
public record TokenBody(
    @Schema(
            description = "Whose it is: the audit log names it",
            minLength = 1,
            maxLength = 128,
            examples = "billing")
        @Nullable String name,
    @Schema(enumeration = {"producer", "worker", "operator", "viewer"}) @Nullable String role,
    @Schema(
            description = "For the jobs of this tenant only; left out: of every tenant",
            maxLength = 128)
        @Nullable String tenant,
    @Schema(description = "For these kinds only; left out: for all", minItems = 1, maxItems = 100)
        @Nullable List<@Nullable String> kinds,
    @Schema(description = "Whether payloads and results may be read; left out: by operators only")
        @Nullable Boolean payloads,
    @Schema(
            implementation = Object.class,
            description = "An ISO 8601 duration, or seconds; left out: until it is revoked",
            examples = "P90D")
        @Nullable JsonNode expiresIn) {}
