package dev.waybill.api;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SequenceWriter;
import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.db.Database;
import dev.waybill.enqueue.NewJob;
import dev.waybill.trace.Span;
import dev.waybill.trace.Tracer;
import io.smallrye.common.annotation.NonBlocking;
import io.smallrye.common.annotation.RunOnVirtualThread;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.net.HostAndPort;
import jakarta.inject.Inject;
import jakarta.ws.rs.Consumes;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.HeaderParam;
import jakarta.ws.rs.POST;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.QueryParam;
import jakarta.ws.rs.core.Context;
import jakarta.ws.rs.core.HttpHeaders;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import jakarta.ws.rs.core.UriInfo;
import java.io.InputStream;
import java.sql.SQLException;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import javax.sql.DataSource;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.enums.SchemaType;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.ExampleObject;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.Parameter;
import org.eclipse.microprofile.openapi.annotations.parameters.RequestBody;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;
import org.jspecify.annotations.Nullable;

/** Jobs over REST. */
@Path("/v1/jobs")
@Produces(MediaType.APPLICATION_JSON)
@Tag(name = "jobs")
public final class JobsResource {

  private static final String NDJSON = "application/x-ndjson";
  private static final int LIMIT = 100;

  /** What is larger takes long enough to read to keep an event loop from its other requests. */
  private static final int READ_AT_ONCE_MAX = 32 << 10;

  private static final String KEY_SAYS =
      "1 to 255 printable characters. A repeat within 24 hours answers 200 and the same ids; another body under"
          + " the same key 409.";

  private final Database database;
  private final Enqueuing enqueuing;
  private final JobLists lists;
  private final JobActs acts;
  private final JobDoor door;

  /** What every request of this resource needs. */
  @jakarta.inject.Singleton
  record JobDoor(Requests requests, CurrentCaller callers, ObjectMapper json, Tracer tracer) {
    @Inject
    JobDoor {}
  }

  @Inject
  JobsResource(
      DataSource dataSource, Enqueuing enqueuing, JobLists lists, JobActs acts, JobDoor door) {
    this.database = new Database(dataSource);
    this.enqueuing = enqueuing;
    this.lists = lists;
    this.acts = acts;
    this.door = door;
  }

  /** What a batch made. */
  @Schema(name = "Ids", requiredProperties = "ids")
  @io.quarkus.runtime.annotations.RegisterForReflection
  public record Ids(
      @Schema(
              description =
                  "In the order of the batch; a job whose dedupe key was taken has the id of the job that has it")
          List<Long> ids) {

    public Ids {
      ids = List.copyOf(ids);
    }
  }

  @POST
  @NonBlocking
  @Allowed(Role.PRODUCER)
  @Consumes(MediaType.APPLICATION_JSON)
  @Operation(operationId = "enqueue", summary = "Enqueue a job")
  @RequestBody(
      required = true,
      content =
          @Content(
              schema = @Schema(implementation = EnqueueBody.class),
              examples = @ExampleObject(name = "job", value = Examples.NEW_JOB)))
  @APIResponse(
      responseCode = "201",
      description =
          "The job, or with `duplicate` the live one of this kind and tenant that has its dedupe key",
      content =
          @Content(
              schema = @Schema(implementation = JobView.class),
              examples = @ExampleObject(name = "job", value = Examples.JOB)))
  @APIResponse(
      responseCode = "200",
      description = "The job that was made under this Idempotency-Key before, as it is now",
      content = @Content(schema = @Schema(implementation = JobView.class)))
  @APIResponse(
      responseCode = "409",
      description =
          "The Idempotency-Key came with another body, or there are as many kinds as there may be")
  public CompletionStage<Response> enqueue(
      @Parameter(description = KEY_SAYS) @HeaderParam("Idempotency-Key") @Nullable String key,
      @Parameter(hidden = true) @HeaderParam("traceparent") @Nullable String traceparent,
      @Context HttpServerRequest request) {
    Caller caller = door.callers().get();
    var idempotency = Idempotency.Key.of(key, "enqueue", caller);
    Executor loop = Aside.on(Aside.eventLoop());
    String jobs = at(request) + "/v1/jobs/";
    return Arriving.body(request)
        .thenCompose(body -> {
          if (body.length > READ_AT_ONCE_MAX) {
            return Aside.call(() -> door.requests().newJob(body, caller, traceparent), loop);
          }
          return CompletableFuture.completedStage(
              door.requests().newJob(body, caller, traceparent));
        })
        .thenCompose(job -> enqueue(job, caller, idempotency, loop))
        .thenApply(one ->
            Response.status(one.made() ? 201 : 200)
                .header(HttpHeaders.LOCATION, jobs + one.job().id())
                .entity(one.job())
                .build());
  }

  /** As the client calls this service; nothing when it does not say. */
  private static String at(HttpServerRequest request) {
    @Nullable HostAndPort called = request.authority();
    return called == null ? "" : request.scheme() + "://" + called;
  }

  private CompletionStage<Enqueuing.One> enqueue(
      NewJob job, Caller caller, Idempotency.@Nullable Key key, Executor loop) {
    @Nullable Span span = door.tracer().enqueue(job.kind(), job.traceparent());
    if (span == null) {
      return enqueuing.one(job, caller, key, loop);
    }
    return enqueuing
        .one(job.withTraceparent(span.context().traceparent()), caller, key, loop)
        .thenApply(one -> {
          span.with("messaging.message.id", String.valueOf(one.job().id()))
              .with("waybill.tenant", job.tenant())
              .end();
          return one;
        });
  }

  @POST
  @RunOnVirtualThread
  @Path("/batch")
  @Allowed(Role.PRODUCER)
  @Consumes({MediaType.APPLICATION_JSON, NDJSON, "application/ndjson", "application/jsonl"})
  @Operation(
      operationId = "enqueueBatch",
      summary = "Enqueue up to 10,000 jobs, all or none",
      description = "A JSON array, or one job a line as application/x-ndjson. At most 64 MiB.")
  @RequestBody(
      required = true,
      content = {
        @Content(
            mediaType = MediaType.APPLICATION_JSON,
            schema = @Schema(type = SchemaType.ARRAY, implementation = EnqueueBody.class),
            examples = @ExampleObject(name = "jobs", value = Examples.BATCH)),
        @Content(mediaType = NDJSON, schema = @Schema(type = SchemaType.STRING))
      })
  @APIResponse(
      responseCode = "201",
      description = "Their ids, in order",
      content =
          @Content(
              schema = @Schema(implementation = Ids.class),
              examples = @ExampleObject(name = "ids", value = Examples.IDS)))
  @APIResponse(
      responseCode = "200",
      description = "The ids that were made under this Idempotency-Key before",
      content = @Content(schema = @Schema(implementation = Ids.class)))
  @APIResponse(responseCode = "409", description = "The Idempotency-Key came with another body")
  public Response batch(
      @Parameter(description = KEY_SAYS) @HeaderParam("Idempotency-Key") @Nullable String key,
      @Parameter(hidden = true) @HeaderParam("traceparent") @Nullable String traceparent,
      @Parameter(hidden = true) @HeaderParam("Content-Type") @Nullable String type,
      InputStream body)
      throws SQLException {
    Caller caller = door.callers().get();
    var idempotency = Idempotency.Key.of(key, "batch", caller);
    boolean lines =
        type != null
            && !type.toLowerCase(Locale.ROOT).startsWith("application/json;")
            && !type.toLowerCase(Locale.ROOT).strip().equals(MediaType.APPLICATION_JSON);
    @Nullable Span span = door.tracer().enqueue("batch", traceparent);
    Enqueuing.Many many =
        enqueuing.many(
            body,
            lines,
            caller,
            idempotency,
            span == null ? traceparent : span.context().traceparent());
    if (span != null) {
      span.with("messaging.batch.message_count", many.ids().size()).end();
    }
    return Response.status(many.made() ? 201 : 200).entity(new Ids(many.ids())).build();
  }

  @GET
  @RunOnVirtualThread
  @Path("/{id}")
  @Allowed({Role.PRODUCER, Role.WORKER, Role.VIEWER})
  @Operation(operationId = "readJob", summary = "Read a job, with its attempts")
  @APIResponse(
      responseCode = "200",
      description = "The job, live or ended",
      content =
          @Content(
              schema = @Schema(implementation = JobView.class),
              examples = @ExampleObject(name = "job", value = Examples.JOB)))
  public JobView read(@PathParam("id") String id) throws SQLException {
    long number = Problem.id(id);
    Caller caller = door.callers().get();
    @Nullable JobView view = database.run(connection -> JobReader.read(connection, number, caller));
    if (view == null) {
      throw Problem.notFound("job");
    }
    return view;
  }

  @GET
  @RunOnVirtualThread
  @Allowed({Role.PRODUCER, Role.WORKER, Role.VIEWER})
  @Produces({MediaType.APPLICATION_JSON, NDJSON})
  @Operation(
      operationId = "listJobs",
      summary = "List jobs, newest first",
      description =
          "Pages by id, descending; never a count. A page that looked at many jobs without finding enough is cut short:"
              + " go on with its `next` until there is none. With `Accept: application/x-ndjson` one job a line is"
              + " streamed, up to `limit` (1,000,000 at most), and a last line {next: ...} if there is more.")
  @APIResponse(
      responseCode = "200",
      description = "A page",
      content = {
        @Content(
            mediaType = MediaType.APPLICATION_JSON,
            schema = @Schema(implementation = JobPage.class),
            examples = @ExampleObject(name = "page", value = Examples.PAGE)),
        @Content(mediaType = NDJSON, schema = @Schema(type = SchemaType.STRING))
      })
  public Response list(
      @QueryParam("kind") @Nullable String kind,
      @Parameter(
              schema =
                  @Schema(
                      enumeration = {"scheduled", "ready", "running", "done", "dead", "cancelled"}))
          @QueryParam("state")
          @Nullable String state,
      @QueryParam("tenant") @Nullable String tenant,
      @QueryParam("tag") @Nullable String tag,
      @Parameter(
              description = "1 to 1000, 100 if not given",
              schema = @Schema(type = SchemaType.INTEGER))
          @QueryParam("limit")
          @Nullable String limit,
      @Parameter(description = "The `next` of the page before") @QueryParam("after")
          @Nullable String after,
      @Parameter(hidden = true) @HeaderParam("Accept") @Nullable String accept,
      @Context UriInfo uri)
      throws SQLException {
    Query.only(uri, Set.of("kind", "state", "tenant", "tag", "limit", "after"));
    var filter = new JobLists.Filter(kind, state, tenant, tag);
    long before = JobLists.before(after);
    Caller caller = door.callers().get();
    if (accept != null && accept.contains("ndjson")) {
      int max = Problem.limit(limit, JobLists.STREAM_MAX, JobLists.STREAM_MAX);
      // The place is taken by what writes, and not here: for HEAD nothing is written, and nothing
      // would give it back.
      return Response.ok(
              (jakarta.ws.rs.core.StreamingOutput)
                  out ->
                      lists.inPlace(
                          caller,
                          () -> {
                            try (SequenceWriter writer =
                                door.json()
                                    .writer()
                                    .withRootValueSeparator("\n")
                                    .writeValues(out)) {
                              lists.stream(filter, before, max, caller, writer);
                              writer.flush();
                              out.write('\n');
                            }
                          }))
          .type(NDJSON)
          .build();
    }
    int page = Problem.limit(limit, LIMIT, JobLists.PAGE_MAX);
    return Response.ok(lists.page(filter, before, page, caller))
        .type(MediaType.APPLICATION_JSON)
        .build();
  }

  @POST
  @RunOnVirtualThread
  @Path("/{id}/cancel")
  @Allowed(Role.PRODUCER)
  @Operation(
      operationId = "cancelJob",
      summary = "Cancel a job",
      description =
          "Scheduled, ready or running. The handler of a running job is interrupted, within about two seconds."
              + " One that is cancelled already is answered as it is; one that has ended otherwise answers 409.")
  @APIResponse(
      responseCode = "200",
      description = "The job, cancelled",
      content =
          @Content(
              schema = @Schema(implementation = JobView.class),
              examples = @ExampleObject(name = "job", value = Examples.JOB_CANCELLED)))
  @APIResponse(responseCode = "409", description = "The job has ended otherwise")
  public JobView cancel(@PathParam("id") String id) throws SQLException {
    return acts.cancel(Problem.id(id), door.callers().get());
  }

  @POST
  @RunOnVirtualThread
  @Path("/{id}/run-now")
  @Allowed(Role.PRODUCER)
  @Operation(
      operationId = "runJobNow",
      summary = "Let a scheduled job run now",
      description =
          "Whether it waits for its time or for its next attempt. A ready job stays as it is; one that runs or has"
              + " ended answers 409.")
  @APIResponse(
      responseCode = "200",
      description = "The job, ready",
      content =
          @Content(
              schema = @Schema(implementation = JobView.class),
              examples = @ExampleObject(name = "job", value = Examples.JOB_READY)))
  @APIResponse(responseCode = "409", description = "The job is running or has ended")
  public JobView runNow(@PathParam("id") String id) throws SQLException {
    return acts.runNow(Problem.id(id), door.callers().get());
  }
}
