package dev.waybill.policy;

import java.time.OffsetDateTime;
import org.jspecify.annotations.Nullable;

/**
 * A kind and what is set for it.
 *
 * @param version goes up with each change; 0: nothing was ever set, there only are jobs
 */
public record KindPolicy(
    String kind, long version, @Nullable OffsetDateTime updatedAt, OwnPolicy own) {}
