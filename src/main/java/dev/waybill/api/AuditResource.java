package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonRawValue;
import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.audit.AuditLog;
import dev.waybill.db.Database;
import io.quarkus.runtime.annotations.RegisterForReflection;
import io.smallrye.common.annotation.RunOnVirtualThread;
import jakarta.inject.Inject;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.QueryParam;
import jakarta.ws.rs.core.Context;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.UriInfo;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.enums.SchemaType;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.Parameter;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;
import org.jspecify.annotations.Nullable;

/** The log of what operators did, over REST. */
@Path("/v1/audit")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "audit")
public final class AuditResource {

  /** One line of the log. */
  @Schema(name = "AuditLine")
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record LineView(
      long id,
      OffsetDateTime at,
      @Schema(description = "The name of the credential") String who,
      @Schema(description = "The act", examples = "replay-start") String what,
      @Schema(description = "What it was done to: a job's id, a kind, a replay")
          @Nullable String target,
      @Schema(description = "Whose jobs, when they were one tenant's") @Nullable String tenant,
      @Schema(description = "Which jobs, when there was a filter", type = SchemaType.OBJECT)
          @JsonRawValue
          @Nullable String filter,
      @Schema(description = "How many jobs") long jobs) {

    static LineView of(AuditLog.Line line) {
      return new LineView(
          line.id(),
          line.at(),
          line.who(),
          line.what(),
          line.target(),
          line.tenant(),
          line.filter(),
          line.jobs());
    }
  }

  /** For {@code GET /v1/audit}. */
  @Schema(name = "AuditPage")
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record LinePage(List<LineView> lines, @Nullable String next) {}

  private final Database database;
  private final CurrentCaller callers;

  @Inject
  AuditResource(DataSource dataSource, CurrentCaller callers) {
    this.database = new Database(dataSource);
    this.callers = callers;
  }

  @GET
  @Allowed(Role.VIEWER)
  @Operation(operationId = "listAudit", summary = "What operators did, newest first")
  @APIResponse(
      responseCode = "200",
      description = "A page",
      content = @Content(schema = @Schema(implementation = LinePage.class)))
  public LinePage list(
      @Parameter(description = "1 to 1,000; default 100") @QueryParam("limit")
          @Nullable String limit,
      @Parameter(description = "The next of the page before") @QueryParam("after")
          @Nullable String after,
      @Context UriInfo uri)
      throws SQLException {
    Query.only(uri, Set.of("limit", "after"));
    int max = Query.limit(limit, DeadLettersResource.PAGE, DeadLettersResource.PAGE_MAX);
    @Nullable Long from = Query.number("after", after);
    Caller caller = callers.get();
    caller.checkEveryKind();
    @Nullable String tenant = caller.tenant();
    List<AuditLog.Line> lines = database.run(c -> AuditLog.page(c, tenant, from, max));
    return new LinePage(
        lines.stream().map(LineView::of).toList(),
        lines.size() < max ? null : String.valueOf(lines.getLast().id()));
  }
}
