package dev.waybill.blackbox;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.networknt.schema.JsonSchema;
import com.networknt.schema.JsonSchemaFactory;
import com.networknt.schema.SpecVersion;
import com.networknt.schema.ValidationMessage;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The served OpenAPI document, as a judge of answers: the operation must be in it, with this
 * status, this media type and a body of that schema, and with no field that the schema lacks.
 */
final class Document {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonSchemaFactory SCHEMAS =
      JsonSchemaFactory.getInstance(SpecVersion.VersionFlag.V202012);

  /** An operation of the document. */
  record Operation(String method, String path, JsonNode node) {

    /** {@code /v1/jobs/{id}} as a pattern. */
    boolean fits(String otherMethod, String concrete) {
      return method.equals(otherMethod)
          && concrete.replaceFirst("\\?.*", "").matches(path.replaceAll("\\{[^}]+}", "[^/]+"));
    }

    String id() {
      return node.path("operationId").asText();
    }
  }

  private final JsonNode root;
  private final List<Operation> operations = new ArrayList<>();
  private final Map<String, JsonSchema> compiled = new ConcurrentHashMap<>();

  private Document(JsonNode root) {
    this.root = root;
    for (Map.Entry<String, JsonNode> path : root.path("paths").properties()) {
      for (Map.Entry<String, JsonNode> method : path.getValue().properties()) {
        if (Set.of("get", "put", "post", "delete", "patch").contains(method.getKey())) {
          operations.add(
              new Operation(
                  method.getKey().toUpperCase(java.util.Locale.ROOT),
                  path.getKey(),
                  method.getValue()));
        }
      }
    }
    closeSchemas();
  }

  static Document of(Rest rest) throws IOException {
    return new Document(JSON.readTree(rest.get("/q/openapi?format=json").body()));
  }

  List<Operation> operations() {
    return operations;
  }

  JsonNode schema(String name) {
    return root.path("components").path("schemas").path(name);
  }

  /**
   * A field that the document does not name is as wrong as one that it names and that is missing.
   */
  private void closeSchemas() {
    for (Map.Entry<String, JsonNode> schema :
        root.path("components").path("schemas").properties()) {
      if (schema.getValue() instanceof ObjectNode object
          && object.has("properties")
          && !object.has("additionalProperties")) {
        object.put("additionalProperties", false);
      }
    }
  }

  /** What is wrong with this answer; empty: nothing. */
  List<String> faults(String method, String path, int status, String type, String body) {
    // A path without parameters goes before one with them.
    Operation operation =
        operations.stream()
            .filter(o -> o.fits(method, path))
            .min(java.util.Comparator.comparing((Operation o) -> o.path().contains("{")))
            .orElse(null);
    if (operation == null) {
      return status == 404 || status == 405 ? List.of() : List.of("not in the document");
    }
    JsonNode response = operation.node().path("responses").path(String.valueOf(status));
    if (response.isMissingNode()) {
      return status == 405 ? List.of() : List.of("status " + status + " is not in the document");
    }
    if (body.isEmpty()) {
      return response.path("content").isEmpty() ? List.of() : List.of("no body for " + status);
    }
    String plain = type.replaceFirst(";.*", "");
    JsonNode media = response.path("content").path(plain);
    if (media.isMissingNode()) {
      return List.of(plain + " is not in the document for " + status);
    }
    if (!plain.endsWith("json") || plain.endsWith("ndjson")) {
      return List.of();
    }
    return violations(
        operation.method() + operation.path() + status + plain, media.path("schema"), body);
  }

  /** What of this value is not as the schema says. */
  List<String> violations(String key, JsonNode schema, JsonNode value) {
    return compiled.computeIfAbsent(key, _ -> compile(schema)).validate(value).stream()
        .map(ValidationMessage::getMessage)
        .toList();
  }

  private List<String> violations(String key, JsonNode schema, String body) {
    try {
      return violations(key, schema, JSON.readTree(body));
    } catch (IOException _) {
      return List.of("no JSON");
    }
  }

  /** With the document's components inside, where its references point. */
  private JsonSchema compile(JsonNode schema) {
    ObjectNode whole = JSON.createObjectNode();
    whole.set("components", root.path("components"));
    whole.putArray("allOf").add(schema);
    return SCHEMAS.getSchema(whole);
  }

  /** Requests that the document gives as examples, by media type. */
  Map<String, String> exampleBodies(Operation operation) {
    var bodies = new TreeMap<String, String>();
    for (Map.Entry<String, JsonNode> media :
        operation.node().path("requestBody").path("content").properties()) {
      for (JsonNode example : media.getValue().path("examples")) {
        JsonNode value = example.path("value");
        bodies.put(media.getKey(), value.isTextual() ? value.textValue() : value.toString());
      }
    }
    return bodies;
  }
}
