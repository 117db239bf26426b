package dev.waybill.api;

import io.quarkus.smallrye.openapi.OpenApiFilter;
import java.util.Map;
import org.eclipse.microprofile.openapi.OASFactory;
import org.eclipse.microprofile.openapi.OASFilter;
import org.eclipse.microprofile.openapi.models.OpenAPI;
import org.eclipse.microprofile.openapi.models.Operation;
import org.eclipse.microprofile.openapi.models.PathItem;
import org.eclipse.microprofile.openapi.models.media.MediaType;
import org.eclipse.microprofile.openapi.models.responses.APIResponse;
import org.eclipse.microprofile.openapi.models.responses.APIResponses;

/**
 * Puts what every operation may answer instead of what was asked for into the OpenAPI document:
 * whoever writes an operation says only what is its own.
 */
@OpenApiFilter(stages = OpenApiFilter.RunStage.BUILD)
public final class ProblemsInDocument implements OASFilter {

  private record Case(String says, String type, String title, String detail) {}

  private static final Map<String, Case> CASES =
      Map.ofEntries(
          Map.entry(
              "400",
              new Case(
                  "Something in the request is not valid; `field` names it",
                  "invalid",
                  "The request is not valid",
                  "It is missing.")),
          Map.entry(
              "401",
              new Case(
                  "The credential is missing, not known, expired or revoked",
                  "unauthenticated",
                  "Say who you are",
                  "")),
          Map.entry(
              "403",
              new Case(
                  "The credential is not for this",
                  "forbidden",
                  "You may not do this",
                  "It is not for the role viewer.")),
          Map.entry(
              "404",
              new Case(
                  "There is none, or none for this caller",
                  "not-found",
                  "There is no such job",
                  "")),
          Map.entry("405", new Case("Not with this method", "http-405", "Method Not Allowed", "")),
          Map.entry("406", new Case("Not in this format", "http-406", "Not Acceptable", "")),
          Map.entry(
              "408",
              new Case(
                  "The body came too slowly",
                  "too-slow",
                  "The request came too slowly",
                  "The body was not there within 30 seconds.")),
          Map.entry(
              "409",
              new Case(
                  "It is not in a state in which this can be done",
                  "ended",
                  "The job has ended",
                  "Its state is done.")),
          Map.entry(
              "412",
              new Case(
                  "It was changed meanwhile",
                  "precondition",
                  "It was changed meanwhile",
                  "Its ETag is \"4\" by now.")),
          Map.entry(
              "413",
              new Case(
                  "The body is too large",
                  "too-large",
                  "The request is too large",
                  "The body has more than 2097152 bytes.")),
          Map.entry(
              "415",
              new Case("The body has another format", "http-415", "Unsupported Media Type", "")),
          Map.entry(
              "429",
              new Case(
                  "Too many at once; try again after Retry-After",
                  "too-many",
                  "Too many at once",
                  "This process takes 8 batches at once.")),
          Map.entry(
              "500",
              new Case("A bug; the log says more", "internal", "Something went wrong here", "")),
          Map.entry(
              "503",
              new Case(
                  "The database is away or busy; try again after Retry-After",
                  "unavailable",
                  "The database cannot be reached",
                  "Nothing was changed, or the outcome is unknown: try again.")));

  @Override
  public void filterOpenAPI(OpenAPI document) {
    if (document.getPaths() != null && document.getPaths().getPathItems() != null) {
      document.getPaths().getPathItems().forEach(ProblemsInDocument::path);
    }
  }

  private static void path(String path, PathItem item) {
    item.getOperations().values().forEach(operation -> operation(path, operation));
  }

  private static void operation(String path, Operation operation) {
    if (operation.getResponses() == null) {
      operation.setResponses(OASFactory.createAPIResponses());
    }
    APIResponses responses = operation.getResponses();
    add(responses, "400");
    add(responses, "401");
    add(responses, "403");
    add(responses, "406");
    add(responses, "429");
    add(responses, "500");
    add(responses, "503");
    if (path.contains("{")) {
      add(responses, "404");
    }
    if (operation.getRequestBody() != null) {
      add(responses, "408");
      add(responses, "413");
      // One that may be left out is read for what it is, whatever it is said to be.
      if (Boolean.TRUE.equals(operation.getRequestBody().getRequired())) {
        add(responses, "415");
      }
    }
    responses.getAPIResponses().forEach(ProblemsInDocument::fill);
  }

  private static void add(APIResponses responses, String status) {
    if (!responses.hasAPIResponse(status)) {
      responses.addAPIResponse(status, OASFactory.createAPIResponse());
    }
  }

  private static void fill(String status, APIResponse response) {
    Case known = CASES.get(status);
    if (known == null || status.compareTo("400") < 0) {
      return;
    }
    if (response.getDescription() == null || response.getDescription().equals("Bad Request")) {
      response.setDescription(known.says());
    }
    if (response.getContent() == null) {
      response.setContent(
          OASFactory.createContent().addMediaType(Problem.MEDIA_TYPE, problem(status, known)));
    }
    if (status.equals("429") || status.equals("503")) {
      response.addHeader(
          "Retry-After",
          OASFactory.createHeader()
              .description("Seconds")
              .schema(
                  OASFactory.createSchema()
                      .addType(
                          org.eclipse.microprofile.openapi.models.media.Schema.SchemaType.STRING)));
    }
  }

  private static MediaType problem(String status, Case known) {
    var value = new java.util.LinkedHashMap<String, Object>();
    value.put("type", "/problems/" + known.type());
    value.put("title", known.title());
    value.put("status", Integer.parseInt(status));
    if (!known.detail().isEmpty()) {
      value.put("detail", known.detail());
    }
    if (status.equals("400")) {
      value.put("field", "kind");
    }
    return OASFactory.createMediaType()
        .schema(OASFactory.createSchema().ref("#/components/schemas/Problem"))
        .addExample("problem", OASFactory.createExample().value(value));
  }
}
