package dev.waybill.policy;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * What is set for one kind; a null stands for the default of the running build.
 *
 * @param paused null: as it is
 */
public record OwnPolicy(
    @Nullable Integer maxAttempts,
    @Nullable Duration backoffBase,
    @Nullable Double backoffFactor,
    @Nullable Duration backoffCap,
    @Nullable Boolean backoffJitter,
    @Nullable Duration lease,
    @Nullable Duration timeout,
    @Nullable Duration retention,
    @Nullable Duration deadRetention,
    @Nullable Integer tenantCap,
    @Nullable Integer kindCap,
    @Nullable Double ratePerSecond,
    @Nullable Boolean paused,
    @Nullable String delivery,
    @Nullable String url,
    @Nullable String secretRef,
    @Nullable Boolean archive) {}
