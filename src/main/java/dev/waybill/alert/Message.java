package dev.waybill.alert;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/**
 * What is said of an alert: counts, kinds, fingerprints and ids. Nothing that came with a job, and
 * no error text, which comes from handlers.
 */
final class Message {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int KINDS_MAX = 20;

  private final Alert alert;
  private final JsonNode told;

  Message(Alert alert) {
    this.alert = alert;
    try {
      told = JSON.readTree(alert.told());
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private List<JsonNode> kinds() {
    return StreamSupport.stream(told.path("kinds").spliterator(), false).toList();
  }

  /** One line a kind. */
  List<String> logLines() {
    String says = alert.isDaily() ? "dead letters" : "dead letters grow";
    String over = alert.isDaily() ? "24h" : told.path("windowSeconds").asLong() + "s";
    return kinds().stream()
        .map(kind ->
            "%s alert=%d kind=%s dead=%d grown=%d within=%s groups=%s"
                .formatted(
                    says,
                    alert.id(),
                    kind.path("kind").asText(),
                    kind.path("dead").asLong(),
                    kind.path("grown").asLong(),
                    over,
                    groups(kind)))
        .toList();
  }

  private static String groups(JsonNode kind) {
    return StreamSupport.stream(kind.path("groups").spliterator(), false)
        .map(group -> group.path("fingerprint").asText() + ":" + group.path("dead").asLong())
        .collect(Collectors.joining(","));
  }

  /** The members that Standard Webhooks recommends, and the text that Slack and its like show. */
  byte[] body() {
    ObjectNode body = JSON.createObjectNode();
    body.put("type", "waybill.dead_letters." + alert.what());
    body.put("timestamp", alert.createdAt().toInstant().toString());
    body.set("data", told);
    body.put("text", text());
    return body.toString().getBytes(StandardCharsets.UTF_8);
  }

  /** Nothing in it needs Slack's escapes: kinds and fingerprints have neither of & < and >. */
  String text() {
    var lines = new ArrayList<String>();
    lines.add(
        alert.isDaily()
            ? "Waybill: dead letters of today"
            : "Waybill: dead letters grow, within "
                + told.path("windowSeconds").asLong() / 60
                + " min");
    List<JsonNode> kinds = kinds();
    for (JsonNode kind : kinds.subList(0, Math.min(KINDS_MAX, kinds.size()))) {
      lines.add(
          "*%s*: %d more%s, %d in all (GET /v1/dlq/groups?kind=%s)"
              .formatted(
                  kind.path("kind").asText(),
                  kind.path("grown").asLong(),
                  alert.isDaily() ? " in 24 hours" : "",
                  kind.path("dead").asLong(),
                  kind.path("kind").asText()));
      for (JsonNode group : kind.path("groups")) {
        lines.add(
            "    %s: %s%d in all, for example job %s"
                .formatted(
                    group.path("fingerprint").asText(),
                    alert.isDaily() ? "" : group.path("grown").asLong() + " more, ",
                    group.path("dead").asLong(),
                    group.path("sampleId").asText("(gone)")));
      }
    }
    if (kinds.size() > KINDS_MAX) {
      lines.add("and " + (kinds.size() - KINDS_MAX) + " kinds more");
    }
    return String.join("\n", lines);
  }
}
