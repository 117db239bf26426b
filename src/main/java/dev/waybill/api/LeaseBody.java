package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import io.quarkus.runtime.annotations.RegisterForReflection;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** What {@code POST /v1/leases} takes. */
@Schema(name = "LeaseRequest", requiredProperties = "kinds")
@RegisterForReflection
public record LeaseBody(
    @Schema(description = "1 to 100 kinds", examples = "[\"email\"]")
        @Nullable List<@Nullable String> kinds,
    @Schema(description = "A name, shown with the jobs; default pull") @Nullable String worker,
    @Schema(description = "1 to 500; default 1") @Nullable Integer max,
    @Schema(
            name = "wait",
            implementation = Object.class,
            description =
                "How long to wait for the first job: seconds, or an ISO 8601 duration, up to 60 s; default 0",
            examples = "20")
        @JsonProperty("wait")
        @Nullable JsonNode waits,
    @Schema(
            implementation = Object.class,
            description =
                "How long the leases are: seconds, or an ISO 8601 duration, 1 s to 1 h; default the kind's",
            examples = "PT1M")
        @Nullable JsonNode lease) {

  /** What {@code POST /v1/leases/extend} takes. */
  @Schema(name = "ExtendRequest", requiredProperties = "leases")
  @RegisterForReflection
  public record Extend(
      @Nullable List<@Nullable Held> leases,
      @Schema(
              implementation = Object.class,
              description = "Seconds, or an ISO 8601 duration, 1 s to 1 h; default the kind's")
          @Nullable JsonNode lease) {}

  /** A lease. */
  @Schema(
      name = "HeldLease",
      requiredProperties = {"id", "token"})
  @RegisterForReflection
  public record Held(@Nullable Long id, @Nullable String token) {}

  /** What {@code POST /v1/leases/settle} takes. */
  @Schema(name = "SettleRequest", requiredProperties = "outcomes")
  @RegisterForReflection
  public record Settle(@Nullable List<@Nullable Ended> outcomes) {}

  /** How an attempt ended. */
  @Schema(
      name = "EndedAttempt",
      requiredProperties = {"id", "token", "outcome"})
  @RegisterForReflection
  public record Ended(
      @Nullable Long id,
      @Nullable String token,
      @Schema(enumeration = {"done", "retry", "snooze", "release", "dead"})
          @Nullable String outcome,
      @Schema(description = "Of retry and dead: what went wrong; 4,000 characters are kept")
          @Nullable String error,
      @Schema(
              implementation = Object.class,
              description =
                  "Of retry (default the kind's backoff) and snooze (required): seconds, or an ISO 8601 duration")
          @Nullable JsonNode delay,
      @Schema(implementation = Object.class, description = "Of done: any JSON value")
          @Nullable JsonNode result) {}
}
