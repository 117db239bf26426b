package dev.waybill.deploy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.yaml.snakeyaml.Yaml;

/** deploy/compose/compose.yaml, read as Compose would read it. */
final class ComposeTest {

  private static final Path DIRECTORY = Path.of("deploy", "compose");

  private final JsonNode compose;

  ComposeTest() throws IOException {
    // Jackson's reader knows no merge keys.
    Object read = new Yaml().load(Files.readString(DIRECTORY.resolve("compose.yaml")));
    compose = new ObjectMapper().valueToTree(read);
  }

  private JsonNode service(String name) {
    return compose.path("services").path(name);
  }

  private List<String> ours() {
    return Stream.of("migrate", "api", "worker", "maintenance").toList();
  }

  @Test
  void there_is_everything_that_the_demo_shows() {
    var names = new TreeSet<String>();
    compose.path("services").fieldNames().forEachRemaining(names::add);
    assertEquals(
        Set.of(
            "api",
            "database",
            "grafana",
            "maintenance",
            "migrate",
            "producer",
            "prometheus",
            "worker"),
        names);
    assertEquals(3, service("worker").at("/deploy/replicas").asInt());
    for (String role : List.of("api", "worker", "maintenance")) {
      assertEquals(role, service(role).at("/environment/WAYBILL_ROLES").asText());
      assertEquals("never", service(role).at("/environment/WAYBILL_MIGRATE").asText());
    }
    assertEquals("only", service("migrate").at("/environment/WAYBILL_MIGRATE").asText());
  }

  @Test
  void every_variable_is_a_setting_that_the_service_knows() throws Exception {
    Set<String> known = KnownSettings.variables();
    for (String name : ours()) {
      service(name)
          .path("environment")
          .fieldNames()
          .forEachRemaining(
              variable -> assertTrue(known.contains(variable), name + ": " + variable));
      assertFalse(service(name).path("environment").has("WAYBILL_DB_PASSWORD"), name);
    }
  }

  @Test
  void containers_are_as_shut_as_in_the_cluster() throws Exception {
    for (String name : ours()) {
      JsonNode one = service(name);
      assertTrue(one.path("read_only").asBoolean(), name);
      assertEquals("ALL", one.at("/cap_drop/0").asText(), name);
      assertEquals("no-new-privileges:true", one.at("/security_opt/0").asText(), name);
      long grace = KnownSettings.seconds(one.path("stop_grace_period").asText());
      assertTrue(grace >= KnownSettings.seconds("25s") + KnownSettings.afterDrainSeconds(), name);
    }
    compose
        .path("services")
        .forEach(one ->
            one.path("ports")
                .forEach(
                    port -> assertTrue(port.asText().startsWith("127.0.0.1:"), port.asText())));
  }

  /** Of the repository: a container would make an empty directory of one that is missing. */
  @Test
  void every_file_that_is_named_is_there() {
    compose
        .path("services")
        .forEach(one ->
            one.path("volumes")
                .forEach(volume -> {
                  String source = volume.asText().split(":", 2)[0];
                  if (source.startsWith(".")) {
                    assertTrue(Files.exists(DIRECTORY.resolve(source)), source);
                  }
                }));
    compose
        .path("secrets")
        .forEach(
            secret -> assertTrue(Files.exists(DIRECTORY.resolve(secret.path("file").asText()))));
    for (String file : List.of("../prometheus/waybill-rules.yml", "../grafana/waybill.json")) {
      assertTrue(Files.exists(DIRECTORY.resolve(file)), file);
    }
    compose
        .path("services")
        .forEach(one -> {
          String image = one.path("image").asText();
          assertTrue(image.equals("waybill:compose") || image.matches(".+:v?[0-9][0-9.]*"), image);
        });
  }
}
