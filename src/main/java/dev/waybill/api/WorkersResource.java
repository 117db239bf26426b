package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonRawValue;
import dev.waybill.access.Allowed;
import dev.waybill.access.Role;
import dev.waybill.fleet.Fleet;
import dev.waybill.fleet.Member;
import io.quarkus.runtime.annotations.RegisterForReflection;
import io.smallrye.common.annotation.RunOnVirtualThread;
import jakarta.inject.Inject;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.core.Context;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.UriInfo;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Set;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.enums.SchemaType;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.ExampleObject;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;

/** Which processes are there. */
@Path("/v1/workers")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "workers")
public final class WorkersResource {

  private final Fleet fleet;

  @Inject
  WorkersResource(Fleet fleet) {
    this.fleet = fleet;
  }

  /** All processes. */
  @Schema(name = "Workers", requiredProperties = "workers")
  @RegisterForReflection
  public record Workers(List<WorkerView> workers) {

    public Workers {
      workers = List.copyOf(workers);
    }
  }

  /** One process. */
  @Schema(
      name = "Worker",
      requiredProperties = {
        "name",
        "process",
        "version",
        "roles",
        "pools",
        "draining",
        "startedAt",
        "lastSeenAt"
      })
  @RegisterForReflection
  public record WorkerView(
      @Schema(description = "As jobs name it; several processes may be given the same") String name,
      @Schema(format = "uuid") String process,
      String version,
      List<String> roles,
      @JsonRawValue @Schema(type = SchemaType.ARRAY, implementation = PoolView.class) String pools,
      @Schema(description = "It goes down: it claims no more, and gives back what it cannot finish")
          boolean draining,
      OffsetDateTime startedAt,
      @Schema(description = "Told every five seconds; after a minute of silence it is forgotten")
          OffsetDateTime lastSeenAt) {

    public WorkerView {
      roles = List.copyOf(roles);
    }

    static WorkerView of(Member member) {
      return new WorkerView(
          member.name(),
          member.process(),
          member.version(),
          member.roles(),
          member.pools(),
          member.draining(),
          member.startedAt(),
          member.seenAt());
    }
  }

  /** One pool of a process. */
  @Schema(
      name = "Pool",
      requiredProperties = {"name", "kinds", "slots", "slotsInUse"})
  @RegisterForReflection
  public record PoolView(String name, List<String> kinds, int slots, int slotsInUse) {

    public PoolView {
      kinds = List.copyOf(kinds);
    }
  }

  @GET
  @Allowed(
      value = {Role.WORKER, Role.VIEWER},
      everyTenant = true)
  @Operation(
      operationId = "listWorkers",
      summary = "List the processes of the service",
      description = "Each tells of itself every five seconds; slots in use are as of then.")
  @APIResponse(
      responseCode = "200",
      description = "Those that were heard of within the last minute",
      content =
          @Content(
              schema = @Schema(implementation = Workers.class),
              examples = @ExampleObject(name = "workers", value = Examples.WORKERS)))
  public Workers list(@Context UriInfo uri) throws SQLException {
    Query.only(uri, Set.of());
    return new Workers(fleet.members().stream().map(WorkerView::of).toList());
  }
}
