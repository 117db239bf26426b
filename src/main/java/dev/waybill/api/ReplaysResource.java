package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Denied;
import dev.waybill.access.Role;
import dev.waybill.db.Database;
import dev.waybill.deadletter.DeadFilter;
import dev.waybill.deadletter.DeadLetters;
import dev.waybill.deadletter.Replay;
import dev.waybill.deadletter.Replays;
import dev.waybill.deadletter.Scope;
import io.smallrye.common.annotation.RunOnVirtualThread;
import jakarta.inject.Inject;
import jakarta.ws.rs.Consumes;
import jakarta.ws.rs.DELETE;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.HeaderParam;
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
import java.net.URI;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import javax.sql.DataSource;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.ExampleObject;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.Parameter;
import org.eclipse.microprofile.openapi.annotations.parameters.RequestBody;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;
import org.jspecify.annotations.Nullable;

/** Replays of dead letters over REST. */
@Path("/v1/dlq/replays")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "dead letters")
public final class ReplaysResource {

  private static final double RATE = 10;
  private static final int IDS_MAX = 1_000;
  private static final int SAMPLES = 10;

  private final Database database;
  private final Requests requests;
  private final CurrentCaller callers;

  @Inject
  ReplaysResource(DataSource dataSource, Requests requests, CurrentCaller callers) {
    this.database = new Database(dataSource);
    this.requests = requests;
    this.callers = callers;
  }

  @POST
  @Allowed({})
  @Consumes(MediaType.APPLICATION_JSON)
  @Operation(
      operationId = "startReplay",
      summary = "Put dead letters back into the queue, so many a second",
      description =
          "Concerns what is dead now: nothing that dies later, and no job twice. The database owns it, so it goes on when the process that took the request ends.")
  @RequestBody(
      required = true,
      content = @Content(schema = @Schema(implementation = ReplayBody.class)))
  @APIResponse(
      responseCode = "202",
      description = "The replay has begun",
      content = @Content(schema = @Schema(implementation = ReplayView.class)))
  @APIResponse(
      responseCode = "200",
      description =
          "For dryRun: what would be replayed (DryRun); for a repeated Idempotency-Key: the replay that was begun",
      content =
          @Content(
              schema = @Schema(oneOf = {ReplayView.DryRun.class, ReplayView.class}),
              examples = {
                @ExampleObject(name = "dryRun", value = Examples.DRY_RUN),
                @ExampleObject(name = "repeat", value = Examples.REPLAY)
              }))
  @APIResponse(
      responseCode = "409",
      description = "Too many replays are running, or the Idempotency-Key came with another body")
  public Response start(
      @Parameter(description = "A repeat within 24 hours answers what was begun, with 200")
          @HeaderParam("Idempotency-Key")
          @Nullable String key,
      InputStream body)
      throws SQLException {
    Caller caller = callers.get();
    Idempotency.@Nullable Key idempotency = Idempotency.Key.of(key, "replay", caller);
    ReplayBody read = requests.read(Bodies.read(body), ReplayBody.class);
    DeadFilter filter = filter(read.filter());
    double rate = Objects.requireNonNullElse(read.ratePerSecond(), RATE);
    if (!(rate >= Replays.RATE_MIN && rate <= Replays.RATE_MAX)) {
      throw Problem.invalid("ratePerSecond", "A number from 0.01 to 10000.");
    }
    Scope scope = DeadLettersResource.scope(caller);
    if (filter.isOutside(scope)) {
      throw Denied.field("filter", "It asks for what this credential may not touch.");
    }
    if (Boolean.TRUE.equals(read.dryRun())) {
      return Response.ok(dryRun(scope, filter, rate)).build();
    }
    Begun begun = begin(new Asked(scope, filter, rate, idempotency));
    @Nullable Replay replay = begun.replay();
    if (replay == null) {
      throw new Problem.Thrown(
          new Problem(
              "/problems/too-many-replays",
              "Too many replays are running",
              409,
              "At most "
                  + Replays.RUNNING_MAX
                  + " run at once, "
                  + Replays.RUNNING_OF_TENANT_MAX
                  + " of one tenant: stop one, or wait for one to end.",
              null));
    }
    return Response.status(begun.now() ? 202 : 200)
        .entity(ReplayView.of(replay))
        .location(URI.create("/v1/dlq/replays/" + replay.id()))
        .build();
  }

  private record Asked(Scope scope, DeadFilter filter, double rate, Idempotency.@Nullable Key key) {

    String fingerprint() {
      return new Idempotency.Fingerprint().add(filter.toString()).add(String.valueOf(rate)).sum();
    }
  }

  /**
   * @param replay null when too many are running
   * @param now false: an earlier request with the same key began it
   */
  private record Begun(@Nullable Replay replay, boolean now) {}

  private Begun begin(Asked asked) throws SQLException {
    try {
      return database.transaction(c -> begin(c, asked));
    } catch (Idempotency.Raced _) {
      return database.transaction(c -> begin(c, asked)); // Finds what the other one began.
    }
  }

  private static Begun begin(Connection connection, Asked asked) throws SQLException {
    Idempotency.@Nullable Key key = asked.key();
    Idempotency.@Nullable Known known = key == null ? null : key.find(connection);
    if (known != null) {
      known.same(asked.fingerprint());
      return new Begun(Replays.read(connection, asked.scope(), known.ids().getFirst()), false);
    }
    @Nullable Replay replay =
        Replays.start(connection, asked.scope(), asked.filter(), asked.rate());
    if (replay != null && key != null) {
      key.remember(connection, asked.fingerprint(), List.of(replay.id()));
    }
    return new Begun(replay, true);
  }

  private ReplayView.DryRun dryRun(Scope scope, DeadFilter filter, double rate)
      throws SQLException {
    return database.transaction(connection -> {
      long found = DeadLetters.count(connection, scope, filter, Replays.COUNT_MAX + 1);
      long matched = Math.min(found, Replays.COUNT_MAX);
      List<DeadLetterView> samples =
          DeadLetters.list(connection, scope, filter, null, SAMPLES).stream()
              .map(DeadLetterView::of)
              .toList();
      return new ReplayView.DryRun(
          true, matched, found > Replays.COUNT_MAX, rate, matched / rate, samples);
    });
  }

  private static DeadFilter filter(ReplayBody.@Nullable Filter said) {
    if (said == null) {
      throw Problem.invalid("filter", "It is missing; {} stands for all dead letters.");
    }
    return new DeadFilter(
        Query.kind("filter.kind", said.kind()),
        Query.tenant("filter.tenant", said.tenant()),
        Query.fingerprint("filter.fingerprint", said.fingerprint()),
        Query.time("filter.diedAfter", said.diedAfter()),
        Query.time("filter.diedBefore", said.diedBefore()),
        ids(said.ids()));
  }

  private static @Nullable List<Long> ids(@Nullable List<@Nullable Long> said) {
    if (said == null) {
      return null;
    }
    if (said.isEmpty() || said.size() > IDS_MAX) {
      throw Problem.invalid("filter.ids", "1 to " + IDS_MAX + " ids.");
    }
    var ids = new ArrayList<Long>(said.size());
    for (Long id : said) {
      if (id == null) {
        throw Problem.invalid("filter.ids", "An id is null.");
      }
      ids.add(id);
    }
    return ids;
  }

  @GET
  @Allowed(Role.VIEWER)
  @Operation(operationId = "listReplays", summary = "List replays, newest first")
  @APIResponse(
      responseCode = "200",
      description = "A page",
      content = @Content(schema = @Schema(implementation = ReplayView.Page.class)))
  public ReplayView.Page list(
      @QueryParam("limit") @Nullable String limit,
      @QueryParam("after") @Nullable String after,
      @Context UriInfo uri)
      throws SQLException {
    Query.only(uri, Set.of("limit", "after"));
    int max = Query.limit(limit, DeadLettersResource.PAGE, DeadLettersResource.PAGE_MAX);
    @Nullable Long from = Query.number("after", after);
    Scope scope = DeadLettersResource.scope(callers.get());
    List<Replay> replays = database.run(c -> Replays.list(c, scope, from, max));
    return new ReplayView.Page(
        replays.stream().map(ReplayView::of).toList(),
        replays.size() < max ? null : String.valueOf(replays.getLast().id()));
  }

  @GET
  @Path("/{id}")
  @Allowed(Role.VIEWER)
  @Operation(operationId = "readReplay", summary = "See how far a replay is")
  @APIResponse(
      responseCode = "200",
      description = "The replay",
      content = @Content(schema = @Schema(implementation = ReplayView.class)))
  public ReplayView read(@PathParam("id") String id) throws SQLException {
    long number = Query.id(id);
    Scope scope = DeadLettersResource.scope(callers.get());
    return shown(database.run(c -> Replays.read(c, scope, number)));
  }

  @DELETE
  @Path("/{id}")
  @Allowed({})
  @Operation(
      operationId = "stopReplay",
      summary = "Stop a replay",
      description = "What it returned stays in the queue. One that has ended stays as it ended.")
  @APIResponse(
      responseCode = "200",
      description = "The replay as it is now: nothing is returned by it any more",
      content = @Content(schema = @Schema(implementation = ReplayView.class)))
  public ReplayView stop(@PathParam("id") String id) throws SQLException {
    long number = Query.id(id);
    Scope scope = DeadLettersResource.scope(callers.get());
    return shown(database.transaction(c -> Replays.stop(c, scope, number)));
  }

  private static ReplayView shown(@Nullable Replay replay) {
    if (replay == null) {
      throw Problem.notFound("replay");
    }
    return ReplayView.of(replay);
  }
}
