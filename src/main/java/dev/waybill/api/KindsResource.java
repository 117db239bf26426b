package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.audit.Act;
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
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import java.io.InputStream;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;
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
  public KindList list() throws SQLException {
    Caller caller = callers.get();
    return new KindList(
        database.run(Kinds::all).stream()
            .filter(stored -> sees(caller, stored.kind()))
            .map(KindView::of)
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
              description = "For If-Match",
              schema =
                  @Schema(
                      type = org.eclipse.microprofile.openapi.annotations.enums.SchemaType.STRING)),
      content =
          @Content(
              schema = @Schema(implementation = KindView.class),
              examples = @ExampleObject(name = "kind", value = Examples.KIND)))
  @APIResponse(responseCode = "304", description = "It has the ETag of If-None-Match")
  public Response read(
      @PathParam("kind") String kind, @HeaderParam("If-None-Match") @Nullable String ifNoneMatch)
      throws SQLException {
    String name = kind(kind);
    @Nullable KindPolicy stored = database.run(c -> Kinds.one(c, name));
    if (stored == null || !sees(callers.get(), name)) {
      throw Problem.notFound("kind");
    }
    if (ifNoneMatch != null && names(ifNoneMatch, stored.version())) {
      return Response.notModified().header("ETag", etag(stored.version())).build();
    }
    @Nullable Measured measured = database.run(c -> Measured.of(c, name));
    return Response.fromResponse(answer(200, stored)).entity(KindView.of(stored, measured)).build();
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
          "All of it: what the body leaves out has the default from now on. A running attempt keeps the lease and the"
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
      content = @Content(schema = @Schema(implementation = KindView.class)))
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
          long version = Kinds.lock(connection, name);
          made[0] = version == 0;
          check(version, ifMatch, ifNoneMatch);
          Kinds.replace(connection, name, policy);
          Audit.record(connection, caller.name(), Act.POLICY, name, null, 0);
          return stored(connection, name);
        });
    policies.refresh();
    return answer(made[0] ? 201 : 200, stored);
  }

  private OwnPolicy policy(InputStream body) {
    try {
      return PolicyReader.read(requests.tree(Bodies.read(body)));
    } catch (BadPolicy bad) {
      throw Problem.invalid(bad.field(), bad.detail());
    }
  }

  private static void check(long version, @Nullable String ifMatch, @Nullable String ifNoneMatch) {
    if (ifMatch != null && (version == 0 || !names(ifMatch, version))) {
      throw Problem.precondition(
          version == 0 ? "It has no policy yet." : "Its ETag is " + etag(version) + " by now.");
    }
    if (ifNoneMatch != null && version != 0 && names(ifNoneMatch, version)) {
      throw Problem.precondition("It has a policy, with the ETag " + etag(version) + ".");
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
  public Response resume(@PathParam("kind") String kind) throws SQLException {
    return pause(kind, false);
  }

  private Response pause(String kind, boolean paused) throws SQLException {
    String name = kind(kind);
    Caller caller = callers.get();
    caller.checkKind("kind", name);
    KindPolicy stored =
        database.transaction(connection -> {
          Kinds.pause(connection, name, paused);
          Audit.record(connection, caller.name(), paused ? Act.PAUSE : Act.RESUME, name, null, 0);
          return stored(connection, name);
        });
    policies.refresh();
    return answer(200, stored);
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

  private static Response answer(int status, KindPolicy stored) {
    return Response.status(status)
        .header("ETag", etag(stored.version()))
        .entity(KindView.of(stored))
        .build();
  }

  private static String etag(long version) {
    return "\"" + version + "\"";
  }

  private static boolean names(String header, long version) {
    return Arrays.stream(header.split(",", -1))
        .map(String::strip)
        .map(tag -> tag.startsWith("W/") ? tag.substring(2) : tag)
        .anyMatch(tag ->
            tag.equals("*") || tag.equals(etag(version)) || tag.equals(String.valueOf(version)));
  }
}
