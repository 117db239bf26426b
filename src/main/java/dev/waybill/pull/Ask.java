package dev.waybill.pull;

import java.time.Duration;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * What a worker elsewhere asks for.
 *
 * @param worker a name, shown with its jobs; it proves nothing
 * @param lease null for the kind's own
 * @param tenant only this tenant's jobs; null for all
 */
public record Ask(
    Set<String> kinds, String worker, int max, @Nullable Duration lease, @Nullable String tenant) {

  public Ask {
    kinds = Set.copyOf(kinds);
  }
}
