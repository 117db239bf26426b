package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.db.Database;
import dev.waybill.deadletter.DeadFilter;
import dev.waybill.deadletter.DeadGroup;
import dev.waybill.deadletter.DeadLetter;
import dev.waybill.deadletter.DeadLetters;
import dev.waybill.deadletter.Position;
import dev.waybill.deadletter.Scope;
import io.smallrye.common.annotation.RunOnVirtualThread;
import jakarta.inject.Inject;
import jakarta.ws.rs.Consumes;
import jakarta.ws.rs.DELETE;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.POST;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.QueryParam;
import jakarta.ws.rs.core.Context;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import jakarta.ws.rs.core.UriInfo;
import java.io.InputStream;
import java.sql.SQLException;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.Parameter;
import org.eclipse.microprofile.openapi.annotations.parameters.RequestBody;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;
import org.jspecify.annotations.Nullable;

/** Dead letters over REST. */
@Path("/v1/dlq")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "dead letters")
public final class DeadLettersResource {

  static final int PAGE = 100;
  static final int PAGE_MAX = 1_000;

  /** The year 10000: beyond what PostgreSQL can add up to a time lies what nobody was given. */
  private static final long MICROS_MAX = 253_402_300_800_000_000L;

  private static final Set<String> LIST_PARAMETERS =
      Set.of("kind", "tenant", "fingerprint", "diedAfter", "diedBefore", "limit", "after");
  private static final Set<String> GROUP_PARAMETERS = Set.of("kind", "tenant", "limit", "after");

  private final Database database;
  private final Requests requests;
  private final CurrentCaller callers;

  @Inject
  DeadLettersResource(DataSource dataSource, Requests requests, CurrentCaller callers) {
    this.database = new Database(dataSource);
    this.requests = requests;
    this.callers = callers;
  }

  static Scope scope(Caller caller) {
    return new Scope(caller.name(), caller.tenant(), caller.kinds());
  }

  @GET
  @Allowed(Role.VIEWER)
  @Operation(operationId = "listDeadLetters", summary = "List dead letters, newest first")
  @APIResponse(
      responseCode = "200",
      description = "A page",
      content = @Content(schema = @Schema(implementation = DeadLetterView.Page.class)))
  public DeadLetterView.Page list(
      @QueryParam("kind") @Nullable String kind,
      @QueryParam("tenant") @Nullable String tenant,
      @QueryParam("fingerprint") @Nullable String fingerprint,
      @Parameter(description = "This time included", schema = @Schema(format = "date-time"))
          @QueryParam("diedAfter")
          @Nullable String diedAfter,
      @Parameter(description = "This time excluded", schema = @Schema(format = "date-time"))
          @QueryParam("diedBefore")
          @Nullable String diedBefore,
      @Parameter(description = "1 to 1,000; default 100") @QueryParam("limit")
          @Nullable String limit,
      @Parameter(description = "The next of the page before") @QueryParam("after")
          @Nullable String after,
      @Context UriInfo uri)
      throws SQLException {
    Query.only(uri, LIST_PARAMETERS);
    var filter =
        new DeadFilter(
            Query.kind("kind", kind),
            Query.tenant("tenant", tenant),
            Query.fingerprint("fingerprint", fingerprint),
            Query.time("diedAfter", diedAfter),
            Query.time("diedBefore", diedBefore),
            null);
    int max = Query.limit(limit, PAGE, PAGE_MAX);
    @Nullable Position from = position(after);
    Scope scope = scope(callers.get());
    List<DeadLetter> letters =
        database.transaction(c -> DeadLetters.list(c, scope, filter, from, max));
    return new DeadLetterView.Page(
        letters.stream().map(DeadLetterView::of).toList(),
        letters.size() < max ? null : word(letters.getLast().position()));
  }

  private static String word(Position position) {
    return position.micros() + "-" + position.id();
  }

  private static @Nullable Position position(@Nullable String after) {
    if (after == null) {
      return null;
    }
    String[] parts = after.split("-", -1);
    try {
      if (parts.length == 2 && Long.parseLong(parts[0]) < MICROS_MAX) {
        return new Position(Long.parseLong(parts[0]), Long.parseLong(parts[1]));
      }
    } catch (NumberFormatException _) {
      // Said below.
    }
    throw Problem.invalid("after", "It is not the next of a page before.");
  }

  @GET
  @Path("/groups")
  @Allowed(Role.VIEWER)
  @Operation(
      operationId = "groupDeadLetters",
      summary = "Dead letters by kind and failure, the most frequent first")
  @APIResponse(
      responseCode = "200",
      description = "A page",
      content = @Content(schema = @Schema(implementation = DeadGroupView.Page.class)))
  public DeadGroupView.Page groups(
      @QueryParam("kind") @Nullable String kind,
      @QueryParam("tenant") @Nullable String tenant,
      @Parameter(description = "1 to 1,000; default 100") @QueryParam("limit")
          @Nullable String limit,
      @Parameter(description = "The next of the page before") @QueryParam("after")
          @Nullable String after,
      @Context UriInfo uri)
      throws SQLException {
    Query.only(uri, GROUP_PARAMETERS);
    var filter =
        new DeadFilter(
            Query.kind("kind", kind), Query.tenant("tenant", tenant), null, null, null, null);
    int max = Query.limit(limit, PAGE, PAGE_MAX);
    DeadGroup.@Nullable After from = group(after);
    Scope scope = scope(callers.get());
    List<DeadGroup> groups =
        database.transaction(c -> DeadLetters.groups(c, scope, filter, from, max));
    @Nullable String next = null;
    if (groups.size() == max) {
      DeadGroup last = groups.getLast();
      next = last.count() + ":" + last.kind() + ":" + last.fingerprint();
    }
    return new DeadGroupView.Page(groups.stream().map(DeadGroupView::of).toList(), next);
  }

  private static DeadGroup.@Nullable After group(@Nullable String after) {
    if (after == null) {
      return null;
    }
    String[] parts = after.split(":", -1);
    try {
      if (parts.length == 3) {
        return new DeadGroup.After(
            Long.parseLong(parts[0]),
            Requests.storable("after", parts[1]),
            Requests.storable("after", parts[2]));
      }
    } catch (NumberFormatException _) {
      // Said below.
    }
    throw Problem.invalid("after", "It is not the next of a page before.");
  }

  @GET
  @Path("/{id}")
  @Allowed(Role.VIEWER)
  @Operation(operationId = "readDeadLetter", summary = "Read a dead letter, with its attempts")
  @APIResponse(
      responseCode = "200",
      description = "The dead letter",
      content = @Content(schema = @Schema(implementation = DeadLetterView.class)))
  public DeadLetterView read(@PathParam("id") String id) throws SQLException {
    long number = Query.id(id);
    Caller caller = callers.get();
    DeadLetters.@Nullable Whole whole =
        database.run(c -> DeadLetters.read(c, scope(caller), number));
    if (whole == null) {
      throw Problem.notFound("dead letter");
    }
    return DeadLetterView.of(whole, caller.payloads());
  }

  @POST
  @Path("/{id}/retry")
  @Allowed({})
  @Consumes(MediaType.WILDCARD)
  @Operation(
      operationId = "retryDeadLetter",
      summary = "Put a dead letter back into the queue, with its id, ready now",
      description =
          "It is allowed as many attempts more as it was allowed before: attempt numbers go on, the limit is raised.")
  @RequestBody(
      required = false,
      content =
          @Content(
              mediaType = MediaType.APPLICATION_JSON,
              schema = @Schema(implementation = RetryBody.class)))
  @APIResponse(
      responseCode = "200",
      description = "The job, ready",
      content = @Content(schema = @Schema(implementation = JobView.class)))
  @APIResponse(responseCode = "409", description = "A live job has its dedupe key")
  public JobView retry(@PathParam("id") String id, @Nullable InputStream body) throws SQLException {
    long number = Query.id(id);
    @Nullable String payload = edited(body == null ? new byte[0] : Bodies.read(body));
    Caller caller = callers.get();
    return database.transaction(connection -> {
      done(DeadLetters.retry(connection, scope(caller), number, payload));
      @Nullable JobView read = JobReader.read(connection, number, caller);
      if (read == null) {
        throw new IllegalStateException("returned, but not to be read: job=" + number);
      }
      return read;
    });
  }

  private @Nullable String edited(byte[] body) {
    if (body.length == 0) {
      return null;
    }
    RetryBody read = requests.read(body, RetryBody.class);
    return read.payload() == null || read.payload().isNull()
        ? null
        : requests.payload(read.payload());
  }

  private static void done(DeadLetters.Acted acted) {
    switch (acted) {
      case DeadLetters.Acted.Done _ -> {}
      case DeadLetters.Acted.NotThere _ -> throw Problem.notFound("dead letter");
      case DeadLetters.Acted.KeyTaken(var holder) ->
          throw new Problem.Thrown(
              new Problem(
                  "/problems/dedupe-key-taken",
                  "A live job has its dedupe key",
                  409,
                  holder == null ? null : "It is job " + holder + ".",
                  "dedupeKey"));
    }
  }

  @DELETE
  @Path("/{id}")
  @Allowed({})
  @Operation(operationId = "deleteDeadLetter", summary = "Delete a dead letter for good")
  @APIResponse(responseCode = "204", description = "It is gone, and counted as purged")
  public Response delete(@PathParam("id") String id) throws SQLException {
    long number = Query.id(id);
    Scope scope = scope(callers.get());
    done(database.transaction(c -> DeadLetters.delete(c, scope, number)));
    return Response.noContent().build();
  }
}
