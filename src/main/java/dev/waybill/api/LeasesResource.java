package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.policy.Policies;
import dev.waybill.pull.Desk;
import dev.waybill.pull.Holders;
import dev.waybill.pull.Leased;
import dev.waybill.pull.Poll;
import io.quarkus.vertx.http.runtime.CurrentVertxRequest;
import io.smallrye.common.annotation.RunOnVirtualThread;
import io.vertx.ext.web.RoutingContext;
import jakarta.inject.Inject;
import jakarta.ws.rs.Consumes;
import jakarta.ws.rs.POST;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import java.io.InputStream;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.ExampleObject;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.RequestBody;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;

/** Leases for workers in any language. */
@Path("/v1/leases")
@Produces(MediaType.APPLICATION_JSON)
@Consumes(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "leases")
public final class LeasesResource {

  /** Results of many jobs come in one body. */
  private static final long SETTLE_BYTES_MAX = 16 << 20;

  private final Desk desk;
  private final Holders holders;
  private final Policies policies;
  private final LeaseRequests requests;
  private final CurrentCaller callers;
  private final CurrentVertxRequest current;

  @Inject
  LeasesResource(
      Desk desk,
      Holders holders,
      Policies policies,
      LeaseRequests requests,
      CurrentCaller callers,
      CurrentVertxRequest current) {
    this.desk = desk;
    this.holders = holders;
    this.policies = policies;
    this.requests = requests;
    this.callers = callers;
    this.current = current;
  }

  @POST
  @Allowed(Role.WORKER)
  @Operation(
      operationId = "lease",
      summary = "Lease jobs, waiting for the first if asked to",
      description =
          "Answers as soon as there is one. A client that hangs up before the answer costs its jobs nothing: they go back with their attempt.")
  @RequestBody(
      required = true,
      content = @Content(schema = @Schema(implementation = LeaseBody.class)))
  @APIResponse(
      responseCode = "200",
      description = "Jobs, or none when nothing came in time",
      content = @Content(schema = @Schema(implementation = LeaseView.Jobs.class)))
  @APIResponse(responseCode = "429", description = "As many polls as are allowed wait already")
  @APIResponse(
      responseCode = "503",
      description = "This process is about to end, or the database is away")
  public Response lease(InputStream body) throws SQLException {
    CompletableFuture<Void> hungUp = hungUp(current.getCurrent());
    LeaseRequests.Lease asked = requests.lease(Bodies.read(body), callers.get());
    checkLent(asked.ask().kinds());
    return switch (desk.enter(asked.ask(), asked.patience())) {
      case Desk.Entry.In(var poll) -> await(poll, hungUp);
      case Desk.Entry.Full(int max) ->
          turnedAway(
              429,
              "too-many",
              "Too many at once",
              max + " polls wait here already; ask again, or ask another process.");
      case Desk.Entry.Closed _ -> draining();
    };
  }

  /** With the policies of this moment: one may have been changed a second ago for this. */
  private void checkLent(Set<String> kinds) throws SQLException {
    if (kinds.stream().allMatch(desk::lends)) {
      return;
    }
    policies.refresh();
    for (String kind : kinds) {
      if (!desk.lends(kind)) {
        throw Problem.invalid(
            "kinds",
            kind
                + " is not for workers elsewhere: the delivery of its policy would have to be pull.");
      }
    }
  }

  /**
   * Completed when the worker is gone before its answer was written. Whoever begins to listen when
   * the connection has ended hears of it no more: so {@link #await} asks the response as well, and
   * after this, or there would be a moment between the two.
   */
  private static CompletableFuture<Void> hungUp(RoutingContext exchange) {
    var hungUp = new CompletableFuture<Void>();
    int _ =
        exchange.addEndHandler(ended -> {
          if (ended.failed()) {
            boolean _ = hungUp.complete(null);
          }
        });
    return hungUp;
  }

  private Response await(Poll poll, CompletableFuture<Void> hungUp) {
    if (current.getCurrent().response().closed()) {
      // Before we listened, or in that very moment: nobody was told.
      boolean _ = hungUp.complete(null);
    }
    CompletableFuture<Void> _ = hungUp.thenRun(poll::hangUp);
    try {
      List<Leased> jobs = poll.await();
      return Response.ok(new LeaseView.Jobs(jobs.stream().map(LeaseView::of).toList())).build();
    } catch (Poll.NotLooked _) {
      return Problem.unavailable().response();
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
      return draining();
    }
  }

  private static Response draining() {
    return turnedAway(
        503, "draining", "This process is about to end", "Ask again: another one answers.");
  }

  private static Response turnedAway(int status, String type, String title, String detail) {
    return Response.status(status)
        .type(Problem.MEDIA_TYPE)
        .header("Retry-After", "1")
        .entity(new Problem("/problems/" + type, title, status, detail, null))
        .build();
  }

  @POST
  @Path("/extend")
  @Allowed(Role.WORKER)
  @Operation(
      operationId = "extendLeases",
      summary = "Keep leases",
      description =
          "No lease goes past the kind's time limit for an attempt; an attempt that has reached it is settled as a failure, and its lease is lost.")
  @RequestBody(
      required = true,
      content = @Content(schema = @Schema(implementation = LeaseBody.Extend.class)))
  @APIResponse(
      responseCode = "200",
      description = "extended or lost for each, in the order of the request",
      content =
          @Content(
              schema = @Schema(implementation = LeaseView.Answers.class),
              examples = @ExampleObject(name = "extended", value = Examples.EXTENDED)))
  public LeaseView.Answers extend(InputStream body) throws SQLException {
    LeaseRequests.Extend asked = requests.extend(Bodies.read(body));
    Caller caller = callers.get();
    return answers(
        asked.held().stream().map(Holders.Held::id).toList(),
        holders.extend(asked.held(), asked.lease(), scope(caller)));
  }

  @POST
  @Path("/settle")
  @Allowed(Role.WORKER)
  @Operation(
      operationId = "settleLeases",
      summary = "End attempts",
      description =
          "The outcomes are written together; one whose lease is lost changes nothing. A retry of the last attempt makes a dead letter.")
  @RequestBody(
      required = true,
      content = @Content(schema = @Schema(implementation = LeaseBody.Settle.class)))
  @APIResponse(
      responseCode = "200",
      description = "settled or lost for each, in the order of the request",
      content = @Content(schema = @Schema(implementation = LeaseView.Answers.class)))
  public LeaseView.Answers settle(InputStream body) throws SQLException {
    List<Holders.Said> said = requests.settle(Bodies.read(body, SETTLE_BYTES_MAX));
    Caller caller = callers.get();
    return answers(
        said.stream().map(one -> one.held().id()).toList(), holders.settle(said, scope(caller)));
  }

  private static Holders.Scope scope(Caller caller) {
    return new Holders.Scope(caller.tenant(), caller.kinds());
  }

  private static LeaseView.Answers answers(List<Long> ids, List<Holders.Answer> answers) {
    var results = new ArrayList<LeaseView.Answer>(ids.size());
    for (int i = 0; i < ids.size(); i++) {
      results.add(LeaseView.Answer.of(ids.get(i), answers.get(i)));
    }
    return new LeaseView.Answers(results);
  }
}
