package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.audit.Audit;
import dev.waybill.db.Database;
import dev.waybill.enqueue.TenantLimits;
import io.quarkus.runtime.annotations.RegisterForReflection;
import io.smallrye.common.annotation.RunOnVirtualThread;
import jakarta.inject.Inject;
import jakarta.ws.rs.Consumes;
import jakarta.ws.rs.DELETE;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.HeaderParam;
import jakarta.ws.rs.PUT;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.QueryParam;
import jakarta.ws.rs.core.Context;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import jakarta.ws.rs.core.UriInfo;
import java.io.InputStream;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.headers.Header;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.ExampleObject;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.Parameter;
import org.eclipse.microprofile.openapi.annotations.parameters.RequestBody;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;
import org.jspecify.annotations.Nullable;

/** Limits of tenants over REST: how much one of them may put in. Heeded at once by every door. */
@Path("/v1/tenants")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "tenants")
public final class TenantsResource {

  private final Database database;
  private final Requests requests;
  private final CurrentCaller callers;

  @Inject
  TenantsResource(DataSource dataSource, Requests requests, CurrentCaller callers) {
    this.database = new Database(dataSource);
    this.requests = requests;
    this.callers = callers;
  }

  /** What is to be. */
  @Schema(
      name = "TenantLimitsBody",
      description =
          "At least one of ratePerSecond and backlogMax. The answer of GET may be sent back.")
  @RegisterForReflection
  record LimitsBody(
      @Schema(minimum = "0.001", maximum = "1000000") @Nullable Double ratePerSecond,
      @Schema(
              minimum = "1",
              maximum = "1000000",
              description = "How many at once; left out: what the rate gives in a second")
          @Nullable Long burst,
      @Schema(minimum = "1", maximum = "10000000", description = "How many jobs may wait")
          @Nullable Long backlogMax,
      @Schema(description = "Not heeded; in an answer that is sent back") @Nullable String tenant,
      @Schema(description = "Not heeded") @Nullable Long version,
      @Schema(description = "Not heeded") @Nullable String updatedAt) {}

  /** What is. */
  @Schema(
      name = "TenantLimits",
      requiredProperties = {
        "tenant",
        "version",
        "updatedAt",
        "ratePerSecond",
        "burst",
        "backlogMax"
      })
  @RegisterForReflection
  public record LimitsView(
      String tenant,
      @Schema(description = "Goes up with each change; the ETag") long version,
      java.time.OffsetDateTime updatedAt,
      @Schema(nullable = true, description = "Jobs enqueued in a second")
          @Nullable Double ratePerSecond,
      @Schema(nullable = true, description = "How many at once, with a rate") @Nullable Long burst,
      @Schema(nullable = true, description = "How many jobs may wait: ready and scheduled ones")
          @Nullable Long backlogMax) {

    static LimitsView of(TenantLimits.Limit limit) {
      return new LimitsView(
          limit.tenant(),
          limit.version(),
          limit.updatedAt(),
          limit.ratePerSecond(),
          limit.burst(),
          limit.backlogMax());
    }
  }

  /** A page of them. */
  @Schema(name = "TenantLimitsPage", requiredProperties = "tenants")
  @RegisterForReflection
  @com.fasterxml.jackson.annotation.JsonInclude(
      com.fasterxml.jackson.annotation.JsonInclude.Include.NON_NULL)
  public record LimitsPage(List<LimitsView> tenants, @Nullable String next) {

    public LimitsPage {
      tenants = List.copyOf(tenants);
    }
  }

  @GET
  @Allowed(
      value = {Role.VIEWER},
      everyTenant = true)
  @Operation(
      operationId = "listTenantLimits",
      summary = "List the tenants that have limits",
      description = "In the order of their names. The others have none.")
  @APIResponse(
      responseCode = "200",
      description = "A page",
      content =
          @Content(
              schema = @Schema(implementation = LimitsPage.class),
              examples =
                  @ExampleObject(
                      name = "page",
                      value = "{\"tenants\": [" + Examples.TENANT_LIMITS + "]}")))
  public LimitsPage list(
      @Parameter(description = "1 to 1,000; default 100") @QueryParam("limit")
          @Nullable String limit,
      @Parameter(description = "The next of the page before") @QueryParam("after")
          @Nullable String after,
      @Context UriInfo uri)
      throws SQLException {
    Query.only(uri, Set.of("limit", "after"));
    int max = Query.limit(limit, DeadLettersResource.PAGE, DeadLettersResource.PAGE_MAX);
    @Nullable String from = Query.tenant("after", after);
    List<TenantLimits.Limit> page = database.run(c -> TenantLimits.page(c, from, max + 1));
    List<LimitsView> shown = page.stream().limit(max).map(LimitsView::of).toList();
    return new LimitsPage(shown, page.size() > max ? shown.getLast().tenant() : null);
  }

  @GET
  @Path("/{tenant}")
  @Allowed(
      value = {Role.VIEWER},
      everyTenant = true)
  @Operation(operationId = "readTenantLimits", summary = "Read the limits of a tenant")
  @APIResponse(
      responseCode = "200",
      description = "Its limits",
      headers =
          @Header(
              name = "ETag",
              description = "For If-Match",
              schema =
                  @Schema(
                      type = org.eclipse.microprofile.openapi.annotations.enums.SchemaType.STRING)),
      content =
          @Content(
              schema = @Schema(implementation = LimitsView.class),
              examples = @ExampleObject(name = "limits", value = Examples.TENANT_LIMITS)))
  public Response read(@PathParam("tenant") String tenant) throws SQLException {
    String name = tenant(tenant);
    TenantLimits.@Nullable Limit limit = database.run(c -> TenantLimits.one(c, name));
    if (limit == null) {
      throw Problem.notFound("limit");
    }
    return answer(200, limit);
  }

  @PUT
  @Path("/{tenant}")
  @Allowed(
      value = {},
      everyTenant = true)
  @Consumes(MediaType.APPLICATION_JSON)
  @Operation(
      operationId = "replaceTenantLimits",
      summary = "Limit what a tenant may enqueue",
      description =
          "How many jobs a second, and how many may wait. Heeded at once by every door, SQL included: REST answers 429 with"
              + " Retry-After, SQL raises WB001 (rate) or WB002 (backlog). A bucket that is changed begins full.")
  @RequestBody(
      required = true,
      content =
          @Content(
              schema = @Schema(implementation = LimitsBody.class),
              examples = @ExampleObject(name = "limits", value = Examples.TENANT_LIMITS_BODY)))
  @APIResponse(
      responseCode = "200",
      description = "Its limits",
      content =
          @Content(
              schema = @Schema(implementation = LimitsView.class),
              examples = @ExampleObject(name = "limits", value = Examples.TENANT_LIMITS)))
  @APIResponse(
      responseCode = "201",
      description = "The same, of a tenant that had none",
      content =
          @Content(
              schema = @Schema(implementation = LimitsView.class),
              examples = @ExampleObject(name = "limits", value = Examples.TENANT_LIMITS)))
  @APIResponse(responseCode = "412", description = "They were changed meanwhile")
  public Response replace(
      @PathParam("tenant") String tenant,
      @Parameter(description = "The ETag that was read; another one by now answers 412")
          @HeaderParam("If-Match")
          @Nullable String ifMatch,
      @Parameter(description = "`*`: there are none yet") @HeaderParam("If-None-Match")
          @Nullable String ifNoneMatch,
      InputStream body)
      throws SQLException {
    String name = tenant(tenant);
    Caller caller = operator();
    LimitsBody read = requests.read(Bodies.read(body), LimitsBody.class);
    boolean[] made = new boolean[1];
    TenantLimits.Limit limit =
        database.transaction(connection -> {
          Audit.actsFor(connection, caller.name());
          long version = TenantLimits.lock(connection, name);
          made[0] = version == 0;
          ETags.check(version, ifMatch, ifNoneMatch, "limit");
          TenantLimits.set(connection, name, read.ratePerSecond(), read.burst(), read.backlogMax());
          return stored(connection, name);
        });
    return answer(made[0] ? 201 : 200, limit);
  }

  @DELETE
  @Path("/{tenant}")
  @Allowed(
      value = {},
      everyTenant = true)
  @Operation(operationId = "deleteTenantLimits", summary = "Take the limits of a tenant away")
  @APIResponse(responseCode = "204", description = "It has none any more")
  @APIResponse(responseCode = "412", description = "They were changed meanwhile")
  public Response delete(
      @PathParam("tenant") String tenant,
      @Parameter(description = "The ETag that was read; another one by now answers 412")
          @HeaderParam("If-Match")
          @Nullable String ifMatch)
      throws SQLException {
    String name = tenant(tenant);
    Caller caller = operator();
    boolean there =
        database.transaction(connection -> {
          Audit.actsFor(connection, caller.name());
          long version = TenantLimits.lock(connection, name);
          ETags.check(version, ifMatch, null, "limit");
          TenantLimits.takeAway(connection, name);
          return version != 0;
        });
    if (!there) {
      throw Problem.notFound("limit");
    }
    return Response.noContent().build();
  }

  /** A tenant's limit holds for all of its kinds. */
  private Caller operator() {
    Caller caller = callers.get();
    caller.checkEveryKind();
    return caller;
  }

  private static TenantLimits.Limit stored(Connection connection, String tenant)
      throws SQLException {
    TenantLimits.@Nullable Limit limit = TenantLimits.one(connection, tenant);
    if (limit == null) {
      throw new IllegalStateException("written, but not to be read");
    }
    return limit;
  }

  private static String tenant(String tenant) {
    String name = String.valueOf(Query.tenant("tenant", tenant));
    if (name.chars().anyMatch(Character::isISOControl)) {
      throw Problem.invalid("tenant", "It holds control characters.");
    }
    return name;
  }

  private static Response answer(int status, TenantLimits.Limit limit) {
    return Response.status(status)
        .header("ETag", ETags.of(limit.version()))
        .entity(LimitsView.of(limit))
        .build();
  }
}
