package dev.waybill.api;

import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/**
 * What {@code PUT /v1/kinds/{kind}} takes, for the OpenAPI document; {@link
 * dev.waybill.policy.PolicyReader} reads it.
 */
@Schema(
    name = "Policy",
    description =
        "What is null or left out has the default. A duration is an ISO 8601 string (PT30S, P7D), a number of seconds,"
            + " or short (500ms, 30s, 5m, 2h, 7d). The answer of GET may be sent back, changed or not.")
record PolicyBody(
    @Schema(minimum = "1", maximum = "1000") @Nullable Integer maxAttempts,
    @Nullable BackoffBody backoff,
    @Schema(description = "1 s to 1 day", implementation = Object.class) @Nullable Object lease,
    @Schema(description = "1 ms to 30 days", implementation = Object.class)
        @Nullable Object timeout,
    @Schema(
            description = "0 to 10 years; 0: a done job is deleted at once",
            implementation = Object.class)
        @Nullable Object retention,
    @Schema(description = "0 to 10 years", implementation = Object.class)
        @Nullable Object deadRetention,
    @Schema(minimum = "1") @Nullable Integer tenantCap,
    @Schema(minimum = "1") @Nullable Integer kindCap,
    @Schema(minimum = "0.001", maximum = "1000000") @Nullable Double ratePerSecond,
    @Nullable Boolean paused,
    @Schema(enumeration = {"bean", "pull", "http"}) @Nullable String delivery,
    @Schema(description = "Needed with delivery http", maxLength = 2000) @Nullable String url,
    @Schema(pattern = "^[A-Za-z0-9_.-]{1,128}$") @Nullable String secretRef,
    @Nullable Boolean archive) {

  @Schema(name = "BackoffSettings")
  record BackoffBody(
      @Schema(description = "0 to 1 day", implementation = Object.class) @Nullable Object base,
      @Schema(minimum = "1", maximum = "100") @Nullable Double factor,
      @Schema(description = "0 to 30 days", implementation = Object.class) @Nullable Object cap,
      @Nullable Boolean jitter) {}
}
