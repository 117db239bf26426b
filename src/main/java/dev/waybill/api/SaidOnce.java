package dev.waybill.api;

import jakarta.ws.rs.Priorities;
import jakarta.ws.rs.container.ContainerRequestContext;
import java.util.List;
import org.jboss.resteasy.reactive.server.ServerRequestFilter;
import org.jspecify.annotations.Nullable;

/**
 * Refuses a key or a condition that is empty, as when a client's variable was, or there twice.
 * Passed by, the request would do what its client took care that it does not: make the job again,
 * or overwrite another's change.
 */
final class SaidOnce {

  private static final List<String> HEADERS =
      List.of("Idempotency-Key", "If-Match", "If-None-Match");

  /** After the guard: who may not come in is told nothing else. */
  @ServerRequestFilter(priority = Priorities.USER + 1)
  public void check(ContainerRequestContext request) {
    for (String name : HEADERS) {
      @Nullable List<String> said = request.getHeaders().get(name);
      if (said == null) {
        continue;
      }
      if (said.size() > 1) {
        throw Problem.invalid(name, "It is there twice.");
      }
      if (said.getFirst().isBlank()) {
        throw Problem.invalid(name, "It is empty. Give it a value, or leave it out.");
      }
    }
  }
}
