package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Role;
import dev.waybill.db.Database;
import dev.waybill.enqueue.NewJob;
import dev.waybill.enqueue.Queue;
import io.smallrye.common.annotation.RunOnVirtualThread;
import jakarta.inject.Inject;
import jakarta.ws.rs.Consumes;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.POST;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import java.net.URI;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.RequestBody;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.jspecify.annotations.Nullable;

/** Jobs over REST. */
@Path("/v1/jobs")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
public final class JobsResource {

  private final Database database;
  private final Queue queue;
  private final Requests requests;
  private final CurrentCaller callers;

  @Inject
  JobsResource(DataSource dataSource, Queue queue, Requests requests, CurrentCaller callers) {
    this.database = new Database(dataSource);
    this.queue = queue;
    this.requests = requests;
    this.callers = callers;
  }

  @POST
  @Allowed(Role.PRODUCER)
  @Consumes(MediaType.APPLICATION_JSON)
  @Operation(operationId = "enqueue", summary = "Enqueue a job")
  @RequestBody(
      required = true,
      content = @Content(schema = @Schema(implementation = EnqueueBody.class)))
  @APIResponse(
      responseCode = "201",
      description = "The job, or the live one that has its dedupe key",
      content = @Content(schema = @Schema(implementation = JobView.class)))
  public Response enqueue(byte[] body) throws SQLException {
    Caller caller = callers.get();
    NewJob job = requests.newJob(body, caller);
    JobView view =
        database.transaction(connection -> {
          long id = queue.enqueue(connection, job);
          @Nullable JobView read = JobReader.read(connection, id, caller);
          if (read == null) {
            throw new IllegalStateException("enqueued, but not to be read: job=" + id);
          }
          return read;
        });
    return Response.created(URI.create("/v1/jobs/" + view.id())).entity(view).build();
  }

  @GET
  @Path("/{id}")
  @Allowed({Role.PRODUCER, Role.WORKER, Role.VIEWER})
  @Operation(operationId = "readJob", summary = "Read a job, with its attempts")
  public JobView read(@PathParam("id") String id) throws SQLException {
    long number = id(id);
    Caller caller = callers.get();
    @Nullable JobView view = database.run(connection -> JobReader.read(connection, number, caller));
    if (view == null) {
      throw Problem.notFound("job");
    }
    return view;
  }

  private static long id(String text) {
    try {
      return Long.parseLong(text);
    } catch (NumberFormatException _) {
      throw Problem.invalid("id", "A job's id is a number.");
    }
  }
}
