package dev.waybill.deadletter;

import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Whose dead letters there are for the one who asks; what is outside of it is not there.
 *
 * @param who the name of the credential, for the log
 * @param tenant null for everybody's
 * @param kinds null for all
 */
public record Scope(String who, @Nullable String tenant, @Nullable Set<String> kinds) {

  public Scope {
    kinds = kinds == null ? null : Set.copyOf(kinds);
  }
}
