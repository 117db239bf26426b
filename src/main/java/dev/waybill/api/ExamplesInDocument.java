package dev.waybill.api;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.quarkus.smallrye.openapi.OpenApiFilter;
import java.util.Map;
import org.eclipse.microprofile.openapi.OASFactory;
import org.eclipse.microprofile.openapi.OASFilter;
import org.eclipse.microprofile.openapi.models.OpenAPI;
import org.eclipse.microprofile.openapi.models.Operation;
import org.eclipse.microprofile.openapi.models.media.Content;
import org.eclipse.microprofile.openapi.models.media.MediaType;
import org.jspecify.annotations.Nullable;

/**
 * Gives every body in the OpenAPI document the example of its schema, unless the operation has one
 * of its own: so each is written once, and a new schema without one fails a test.
 */
@OpenApiFilter(stages = OpenApiFilter.RunStage.BUILD)
public final class ExamplesInDocument implements OASFilter {

  private static final ObjectMapper JSON = new ObjectMapper();

  private static final Map<String, String> BY_SCHEMA =
      Map.ofEntries(
          Map.entry("Job", Examples.JOB),
          Map.entry("Kind", Examples.KIND),
          Map.entry("Ids", Examples.IDS),
          Map.entry("DeadLetter", Examples.DEAD_LETTER),
          Map.entry("DeadLetterPage", Examples.DEAD_LETTERS),
          Map.entry("DeadGroupPage", Examples.DEAD_GROUPS),
          Map.entry("Retry", Examples.RETRY),
          Map.entry("NewReplay", Examples.NEW_REPLAY),
          Map.entry("Replay", Examples.REPLAY),
          Map.entry("ReplayPage", Examples.REPLAYS),
          Map.entry("LeaseRequest", Examples.LEASE),
          Map.entry("Leases", Examples.LEASES),
          Map.entry("ExtendRequest", Examples.EXTEND),
          Map.entry("SettleRequest", Examples.SETTLE),
          Map.entry("LeaseAnswers", Examples.LEASE_ANSWERS),
          Map.entry("AuditPage", Examples.AUDIT),
          Map.entry("NewToken", Examples.NEW_TOKEN),
          Map.entry("Token", Examples.TOKEN),
          Map.entry("TokenPage", Examples.TOKENS));

  /** By operation. An annotation would take the first line for all of it. */
  private static final Map<String, String> LINES =
      Map.of("enqueueBatch", Examples.BATCH_LINES, "listJobs", Examples.PAGE_LINES);

  @Override
  public void filterOpenAPI(OpenAPI document) {
    if (document.getPaths() != null && document.getPaths().getPathItems() != null) {
      document
          .getPaths()
          .getPathItems()
          .values()
          .forEach(path -> path.getOperations().values().forEach(ExamplesInDocument::operation));
    }
  }

  private static void operation(Operation operation) {
    if (operation.getRequestBody() != null) {
      content(operation, operation.getRequestBody().getContent());
    }
    if (operation.getResponses() != null && operation.getResponses().getAPIResponses() != null) {
      operation
          .getResponses()
          .getAPIResponses()
          .values()
          .forEach(response -> content(operation, response.getContent()));
    }
  }

  private static void content(Operation operation, @Nullable Content content) {
    if (content != null && content.getMediaTypes() != null) {
      content
          .getMediaTypes()
          .forEach((type, media) -> {
            @Nullable String lines = LINES.get(String.valueOf(operation.getOperationId()));
            if (type.endsWith("ndjson") && lines != null) {
              media.addExample("lines", OASFactory.createExample().value(lines));
            } else {
              fill(media);
            }
          });
    }
  }

  private static void fill(MediaType media) {
    @Nullable String ref = media.getSchema() == null ? null : media.getSchema().getRef();
    if (ref == null || (media.getExamples() != null && !media.getExamples().isEmpty())) {
      return;
    }
    @Nullable String example = BY_SCHEMA.get(ref.substring(ref.lastIndexOf('/') + 1));
    if (example != null) {
      try {
        media.addExample(
            "example", OASFactory.createExample().value(JSON.readValue(example, Object.class)));
      } catch (JsonProcessingException bug) {
        throw new IllegalStateException("an example is no JSON: " + ref, bug);
      }
    }
  }
}
