package dev.waybill.fleet;

import java.time.OffsetDateTime;
import java.util.List;

/**
 * A process of the service, as it last told of itself.
 *
 * @param pools JSON text: name, kinds, slots, slots in use
 */
public record Member(
    String process,
    String name,
    String version,
    List<String> roles,
    String pools,
    boolean draining,
    OffsetDateTime startedAt,
    OffsetDateTime seenAt) {

  public Member {
    roles = List.copyOf(roles);
  }
}
