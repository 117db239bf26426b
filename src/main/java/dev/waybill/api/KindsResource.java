package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.audit.Audit;
import dev.waybill.db.Database;
import dev.waybill.figures.Measured;
import dev.waybill.policy.BadPolicy;
import dev.waybill.policy.KindPolicy;
import dev.waybill.policy.Kinds;
import dev.waybill.policy.OwnPolicy;
import dev.waybill.policy.Policies;
import dev.waybill.policy.PolicyReader;
import io.quarkus.runtime.annotations.RegisterForReflection;
import io.smallrye.common.annotation.RunOnVirtualThread;
import jakarta.inject.Inject;
import jakarta.ws.rs.Consumes;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.HeaderParam;
import jakarta.ws.rs.POST;
import jakarta.ws.rs.PUT;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.core.Context;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import jakarta.ws.rs.core.UriInfo;
import java.io.InputStream;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
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

/** Policies of kinds over REST. Changes are heeded here at once, elsewhere within two seconds. */
@Path("/v1/kinds")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "kinds")
public final class KindsResource {

  private static final Pattern KIND = Pattern.compile("[a-z][a-z0-9_.-]{0,63}");

  private final Database database;
  private final Policies policies;
  private final Requests requests;
  private final CurrentCaller callers;

  @Inject
  KindsResource(
      DataSource dataSource, Policies policies, Requests requests, CurrentCaller callers) {
    this.database = new Database(dataSource);
    this.policies = policies;
    this.requests = requests;
    this.callers = callers;
  }

  /** All kinds. */
  @Schema(name = "Kinds", requiredProperties = "kinds")
  @RegisterForReflection
  public record KindList(List<KindView> kinds) {

    public KindList {
      kinds = List.copyOf(kinds);
    }
  }

  @GET
  @Allowed({Role.PRODUCER, Role.WORKER, Role.VIEWER})
  @Operation(
      operationId = "listKinds",
      summary = "List the kinds with their policies",
      description = "Every kind that has a policy, or of which there ever was a job.")
  @APIResponse(
      responseCode = "200",
      description = "In the order of their names",
      content =
          @Content(
              schema = @Schema(implementation = KindList.class),
              examples =
                  @ExampleObject(name = "kinds", value = "{\"kinds\": [" + Examples.KIND + "]}")))
  public KindList list(@Context UriInfo uri) throws SQLException {
    Query.only(uri, Set.of());
    Caller caller = callers.get();
    return new KindList(
        database.run(Kinds::all).stream()
            .filter(stored -> sees(caller, stored.kind()))
            .map(stored -> KindView.of(stored, caller))
            .toList());
  }

  @GET
  @Path("/{kind}")
  @Allowed({Role.PRODUCER, Role.WORKER, Role.VIEWER})
  @Operation(operationId = "readKind", summary = "Read the policy of a kind")
  @APIResponse(
      responseCode = "200",
      description = "The policy in force",
      headers =
          @Header(
              name = "ETag",
              description = "The policy's, for If-Match; `measured` moves without it",
              schema =
                  @Schema(
                      type = org.eclipse.microprofile.openapi.annotations.enums.SchemaType.STRING)),
      content =
          @Content(
              schema = @Schema(implementation = KindView.class),
              examples = @ExampleObject(name = "kind", value = Examples.KIND)))
  public Response read(@PathParam("kind") String kind) throws SQLException {
    String name = kind(kind);
    @Nullable KindPolicy stored = database.run(c -> Kinds.one(c, name));
    if (stored == null || !sees(callers.get(), name)) {
      throw Problem.notFound("kind");
    }
    // Never 304: the ETag is the policy's, and what is measured moves without it.
    @Nullable Measured measured = database.run(c -> Measured.of(c, name));
    return Response.fromResponse(answer(200, stored))
        .entity(KindView.of(stored, callers.get(), measured))
        .build();
  }

  @PUT
  @Path("/{kind}")
  @Allowed(
      value = {},
      everyTenant = true)
  @Consumes(MediaType.APPLICATION_JSON)
  @Operation(
      operationId = "replaceKind",
      summary = "Replace the policy of a kind",
      description =
          "All of it: what the body leaves out has the default from now on, but for `paused`, which stays as it is. A running attempt keeps the lease and the"
              + " time limit that it began with.")
  @RequestBody(
      required = true,
      content =
          @Content(
              schema = @Schema(implementation = PolicyBody.class),
              examples = @ExampleObject(name = "policy", value = Examples.POLICY)))
  @APIResponse(
      responseCode = "200",
      description = "The policy in force",
      content =
          @Content(
              schema = @Schema(implementation = KindView.class),
              examples = @ExampleObject(name = "kind", value = Examples.KIND)))
  @APIResponse(
      responseCode = "201",
      description = "The same, of a kind that had none",
      content =
          @Content(
              schema = @Schema(implementation = KindView.class),
              examples = @ExampleObject(name = "kind", value = Examples.KIND)))
  @APIResponse(responseCode = "409", description = "There are as many kinds as there may be")
  @APIResponse(responseCode = "412", description = "It was changed meanwhile")
  public Response replace(
      @PathParam("kind") String kind,
      @Parameter(
              description =
                  "The ETag that was read; another one by now answers 412. `*`: there is one")
          @HeaderParam("If-Match")
          @Nullable String ifMatch,
      @Parameter(description = "`*`: there is none yet") @HeaderParam("If-None-Match")
          @Nullable String ifNoneMatch,
      InputStream body)
      throws SQLException {
    String name = kind(kind);
    Caller caller = callers.get();
    caller.checkKind("kind", name);
    OwnPolicy policy = policy(body);
    boolean[] made = new boolean[1];
    KindPolicy stored =
        database.transaction(connection -> {
          Audit.actsFor(connection, caller.name());
          long version = Kinds.lock(connection, name);
          made[0] = version == 0;
          ETags.check(version, ifMatch, ifNoneMatch, "policy");
          checkRoom(connection, name, version);
          Kinds.replace(connection, name, policy);
          return stored(connection, name);
        });
    policies.refreshIfPossible();
    return answer(made[0] ? 201 : 200, stored);
  }

  private OwnPolicy policy(InputStream body) {
    try {
      return PolicyReader.read(requests.tree(Bodies.read(body)));
    } catch (BadPolicy bad) {
      throw Problem.invalid(bad.field(), bad.detail());
    }
  }

  @POST
  @Path("/{kind}/pause")
  @Allowed(
      value = {},
      everyTenant = true)
  @Operation(
      operationId = "pauseKind",
      summary = "Claim no more jobs of a kind",
      description = "What runs goes on. Heeded by all processes within two seconds.")
  @APIResponse(
      responseCode = "200",
      description = "The policy in force",
      content =
          @Content(
              schema = @Schema(implementation = KindView.class),
              examples = @ExampleObject(name = "kind", value = Examples.KIND)))
  @APIResponse(responseCode = "409", description = "There are as many kinds as there may be")
  public Response pause(@PathParam("kind") String kind) throws SQLException {
    return pause(kind, true);
  }

  @POST
  @Path("/{kind}/resume")
  @Allowed(
      value = {},
      everyTenant = true)
  @Operation(operationId = "resumeKind", summary = "Claim jobs of a kind again")
  @APIResponse(
      responseCode = "200",
      description = "The policy in force",
      content =
          @Content(
              schema = @Schema(implementation = KindView.class),
              examples = @ExampleObject(name = "kind", value = Examples.KIND)))
  @APIResponse(responseCode = "409", description = "There are as many kinds as there may be")
  public Response resume(@PathParam("kind") String kind) throws SQLException {
    return pause(kind, false);
  }

  private Response pause(String kind, boolean paused) throws SQLException {
    String name = kind(kind);
    Caller caller = callers.get();
    caller.checkKind("kind", name);
    KindPolicy stored =
        database.transaction(connection -> {
          Audit.actsFor(connection, caller.name());
          checkRoom(connection, name, Kinds.lock(connection, name));
          Kinds.pause(connection, name, paused);
          return stored(connection, name);
        });
    policies.refreshIfPossible();
    return answer(200, stored);
  }

  private static void checkRoom(Connection connection, String kind, long version)
      throws SQLException {
    if (version == 0 && !Kinds.roomFor(connection, List.of(kind))) {
      throw KnownKinds.tooMany();
    }
  }

  private static KindPolicy stored(Connection connection, String kind) throws SQLException {
    @Nullable KindPolicy stored = Kinds.one(connection, kind);
    if (stored == null) {
      throw new IllegalStateException("written, but not to be read: kind=" + kind);
    }
    return stored;
  }

  private static boolean sees(Caller caller, String kind) {
    return caller.kinds() == null || caller.kinds().contains(kind);
  }

  private static String kind(String kind) {
    if (!KIND.matcher(kind).matches()) {
      throw Problem.invalid(
          "kind",
          "1 to 64 characters: a lower-case letter, then lower-case letters, digits, '_', '.' or '-'.");
    }
    return kind;
  }

  private Response answer(int status, KindPolicy stored) {
    return Response.status(status)
        .header("ETag", ETags.of(stored.version()))
        .entity(KindView.of(stored, callers.get()))
        .build();
  }
}
