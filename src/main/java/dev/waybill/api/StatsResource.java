package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.figures.Figures;
import dev.waybill.figures.KindFigures;
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
import java.util.List;
import java.util.Set;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.ExampleObject;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;
import org.jspecify.annotations.Nullable;

/** How it stands with each kind. */
@Path("/v1/stats")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "stats")
public final class StatsResource {

  private final Figures figures;
  private final CurrentCaller callers;

  @Inject
  StatsResource(Figures figures, CurrentCaller callers) {
    this.figures = figures;
    this.callers = callers;
  }

  /** Figures of all kinds. */
  @Schema(name = "Stats", requiredProperties = "kinds")
  @RegisterForReflection
  public record Stats(List<KindStats> kinds) {

    public Stats {
      kinds = List.copyOf(kinds);
    }
  }

  /** Figures of one kind. */
  @Schema(
      name = "KindStats",
      requiredProperties = {
        "kind",
        "scheduled",
        "ready",
        "running",
        "oldestReadySeconds",
        "claimRatePerSecond",
        "doneRatePerSecond",
        "retryRatePerSecond",
        "dead",
        "deadLast24h"
      })
  @RegisterForReflection
  public record KindStats(
      String kind,
      long scheduled,
      long ready,
      long running,
      @Schema(
              nullable = true,
              description = "How long the oldest ready job has been ready; null: none is")
          @Nullable Double oldestReadySeconds,
      @Schema(description = "Attempts begun, a second, over the last minute")
          double claimRatePerSecond,
      @Schema(description = "Jobs done, a second, over the last minute") double doneRatePerSecond,
      @Schema(description = "Failures that will be tried again, a second, over the last minute")
          double retryRatePerSecond,
      @Schema(description = "Dead letters") long dead,
      @Schema(description = "Jobs that became dead letters within the last 24 hours")
          long deadLast24h) {

    static KindStats of(KindFigures f) {
      KindFigures.Rates rates = f.rates() == null ? NONE : f.rates();
      return new KindStats(
          f.kind(),
          f.scheduled(),
          f.ready(),
          f.running(),
          f.oldestReadySeconds(),
          rates.claim(),
          rates.done(),
          rates.retry(),
          f.dead(),
          f.deadLast24h());
    }

    private static final KindFigures.Rates NONE = new KindFigures.Rates(0, 0, 0);
  }

  @GET
  @Allowed(
      value = {Role.PRODUCER, Role.WORKER, Role.VIEWER},
      everyTenant = true)
  @Operation(
      operationId = "readStats",
      summary = "Read how it stands with each kind",
      description =
          "From figures that are kept up as jobs move, in one snapshot: it takes as long with a hundred million jobs as"
              + " with a hundred.")
  @APIResponse(
      responseCode = "200",
      description = "Every kind of which there ever was a job",
      content =
          @Content(
              schema = @Schema(implementation = Stats.class),
              examples = @ExampleObject(name = "stats", value = Examples.STATS)))
  public Stats read(@Context UriInfo uri) throws SQLException {
    Query.only(uri, Set.of());
    Caller caller = callers.get();
    return new Stats(
        figures.now().stream()
            .filter(f -> caller.kinds() == null || caller.kinds().contains(f.kind()))
            .map(KindStats::of)
            .toList());
  }
}
