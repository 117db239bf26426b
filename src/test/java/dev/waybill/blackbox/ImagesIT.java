package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.PathMatcher;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The images, where no engine is there to build them: what the files say is checked, and what they
 * put together is put together here, and started.
 */
@ExtendWith(Processes.class)
final class ImagesIT {

  private static final Path DOCKER = Path.of("src", "main", "docker");
  private static final Set<String> LABELS =
      Set.of("title", "description", "licenses", "version", "revision", "created", "base.name");

  /** One line of a Dockerfile, with its continuations. */
  private record Instruction(String word, String rest) {}

  private static List<Instruction> read(String file) throws IOException {
    String text =
        Files.readString(DOCKER.resolve(file))
            .replaceAll("(?m)^\\s*#.*\\R?", "")
            .replaceAll("\\\\\\R", " ");
    return text.lines()
        .filter(line -> !line.isBlank())
        .map(line -> line.strip().split("\\s+", 2))
        .map(words -> new Instruction(words[0], words.length > 1 ? words[1] : ""))
        .toList();
  }

  /** The stage that becomes the image. */
  private static List<Instruction> last(List<Instruction> all) {
    int from = all.stream().map(Instruction::word).toList().lastIndexOf("FROM");
    return all.subList(from, all.size());
  }

  private static String only(List<Instruction> stage, String word) {
    List<String> found =
        stage.stream().filter(one -> one.word().equals(word)).map(Instruction::rest).toList();
    assertEquals(1, found.size(), word);
    return found.getFirst();
  }

  @ParameterizedTest
  @ValueSource(strings = {"Dockerfile", "Dockerfile.jvm", "Dockerfile.native-micro"})
  void the_image_is_of_a_named_base_labelled_and_not_root(String file) throws IOException {
    List<Instruction> all = read(file);
    Map<String, String> defaults = new HashMap<>();
    all.stream()
        .filter(one -> one.word().equals("ARG") && one.rest().contains("="))
        .forEach(one -> defaults.put(one.rest().split("=", 2)[0], one.rest().split("=", 2)[1]));
    for (Instruction from : all.stream().filter(one -> one.word().equals("FROM")).toList()) {
      String image =
          String.valueOf(defaults.get(from.rest().replaceAll("^\\$\\{(\\w+)\\}.*", "$1")));
      String tag = image.substring(image.lastIndexOf(':') + 1);
      assertTrue(
          tag.matches(".*[0-9].*") && !tag.contains("latest") && !tag.contains("stable"), image);
    }
    List<Instruction> stage = last(all);
    assertTrue(only(stage, "USER").matches("[1-9][0-9]*:[1-9][0-9]*"), "a number other than 0");
    List<String> words = stage.stream().map(Instruction::word).toList();
    assertTrue(
        words.lastIndexOf("USER") > words.lastIndexOf("COPY"),
        "what is in the image is not its user's to change");
    assertFalse(words.contains("ADD") || words.contains("RUN"), "nothing is fetched or run in it");
    assertTrue(
        only(stage, "ENTRYPOINT").startsWith("["), "no shell between the signal and the process");
    assertEquals("8080", only(stage, "EXPOSE"));
    assertEquals("SIGTERM", only(stage, "STOPSIGNAL"));
    String label = only(stage, "LABEL");
    for (String name : LABELS) {
      assertTrue(label.contains("org.opencontainers.image." + name + "=\""), name);
    }
    assertTrue(
        Files.readString(DOCKER.resolve(file))
            .lines()
            .noneMatch(line -> line.matches("(?i)(ENV|ARG) .*(password|secret|token).*")));
  }

  /** What a Dockerfile copies must be let through to the engine, and nothing else is. */
  @Test
  void what_is_copied_is_let_through_to_the_build() throws IOException {
    List<String> through = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(".dockerignore"))) {
      if (line.startsWith("!")) {
        through.add(line.substring(1));
      }
    }
    assertTrue(Files.readAllLines(Path.of(".dockerignore")).contains("*"));
    for (String file : List.of("Dockerfile", "Dockerfile.jvm", "Dockerfile.native-micro")) {
      for (Copy copy : copies(read(file))) {
        for (String source : copy.sources()) {
          assertTrue(
              copy.fromStage()
                  || through.stream()
                      .anyMatch(open ->
                          source.equals(open)
                              || source.startsWith(open + "/")
                              || source.equals(open + "/")),
              file + ": " + source);
          if (!copy.fromStage() && !source.startsWith("target/")) {
            assertTrue(Files.exists(Path.of(source)), file + ": " + source);
          }
        }
      }
    }
  }

  private record Copy(boolean fromStage, List<String> sources, String target) {}

  private static List<Copy> copies(List<Instruction> instructions) {
    return instructions.stream()
        .filter(one -> one.word().equals("COPY"))
        .map(one -> {
          List<String> words =
              Arrays.stream(one.rest().split("\\s+"))
                  .filter(word -> !word.startsWith("--"))
                  .toList();
          return new Copy(
              one.rest().contains("--from="), words.subList(0, words.size() - 1), words.getLast());
        })
        .toList();
  }

  /** As the engine would: into a directory that stands for the image's root. */
  private static Path assemble(List<Instruction> stage, Path root) throws IOException {
    Path work = root;
    for (Instruction one : stage) {
      if (one.word().equals("WORKDIR")) {
        work = Files.createDirectories(root.resolve(one.rest().substring(1)));
      }
      if (one.word().equals("COPY")) {
        Copy copy = copies(List.of(one)).getFirst();
        for (String source : copy.sources()) {
          copy(
              source,
              copy.target().startsWith("/")
                  ? root.resolve(copy.target().substring(1))
                  : work.resolve(copy.target()),
              copy.target().endsWith("/"));
        }
      }
    }
    return work;
  }

  private static void copy(String source, Path target, boolean intoDirectory) throws IOException {
    List<Path> found = find(source);
    assertTrue(intoDirectory || found.size() == 1, source + " is " + found);
    for (Path one : found) {
      try (Stream<Path> tree = Files.walk(one)) {
        for (Path file : tree.filter(Files::isRegularFile).toList()) {
          Path to =
              Files.isDirectory(one)
                  ? target.resolve(one.relativize(file).toString())
                  : intoDirectory ? target.resolve(one.getFileName().toString()) : target;
          Files.createDirectories(to.resolveSibling(""));
          Files.copy(file, to);
        }
      }
    }
  }

  private static List<Path> find(String source) throws IOException {
    Path path = Path.of(source);
    if (!source.contains("*")) {
      return List.of(path);
    }
    PathMatcher name = FileSystems.getDefault().getPathMatcher("glob:" + path.getFileName());
    try (Stream<Path> files = Files.list(path.resolveSibling(""))) {
      return files.filter(file -> name.matches(file.getFileName())).toList();
    }
  }

  /** Of the artifact that was built: the jar's image, or the binary's. */
  @Test
  void what_the_image_holds_starts_works_and_writes_nothing(@TempDir Path root) throws Exception {
    List<Instruction> stage =
        last(read(ServiceProcess.isNative() ? "Dockerfile.native-micro" : "Dockerfile.jvm"));
    Path work = assemble(stage, root);
    Set<String> before = files(root);
    TestDatabase database = TestPostgres.shared().newDatabase();
    int port = Ports.free();
    List<String> command = new ArrayList<>();
    new ObjectMapper()
        .readTree(only(stage, "ENTRYPOINT"))
        .forEach(word -> command.add(word.asText()));
    command.set(
        0,
        command.getFirst().equals("java")
            ? Path.of(System.getProperty("java.home"), "bin", "java").toString()
            : root.resolve(command.getFirst().substring(1)).toString());
    var builder = new ProcessBuilder(command).directory(work.toFile());
    Path temporary = Files.createDirectory(root.resolve("tmp"));
    builder.environment().keySet().removeIf(name -> name.startsWith("WAYBILL_"));
    builder
        .environment()
        .putAll(
            Map.of(
                "WAYBILL_DB_URL",
                database.url(),
                "WAYBILL_DB_USER",
                database.serviceUser(),
                "WAYBILL_HTTP_PORT",
                String.valueOf(port),
                "JAVA_TOOL_OPTIONS",
                "-Djava.io.tmpdir=" + temporary));
    builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD);
    Process process = builder.start();
    try {
      var rest = new Rest(port);
      Awaitility.await("ready")
          .atMost(ServiceProcess.PATIENCE)
          .until(() -> rest.status("/q/health/ready") == 200);
      long id = database.enqueue("echo", "{}");
      Awaitility.await("done")
          .atMost(Duration.ofSeconds(20))
          .until(() -> database.state(id).equals("done"));
      for (String path : List.of("/q/metrics", "/q/openapi", "/q/swagger-ui/", "/v1/jobs")) {
        assertEquals(200, rest.status(path), path);
      }
      assertEquals(
          201,
          rest.post(
                  "/v1/jobs/batch",
                  "[" + "{\"kind\":\"echo\",\"payload\":{}},".repeat(4999) + "{\"kind\":\"echo\"}]")
              .status());
    } finally {
      process.destroy();
      assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    }
    assertEquals(before, files(root), "the root may be read-only, and nothing is left in /tmp");
  }

  private static Set<String> files(Path root) throws IOException {
    try (Stream<Path> tree = Files.walk(root)) {
      return tree.filter(Files::isRegularFile)
          .map(file -> root.relativize(file).toString())
          .collect(Collectors.toCollection(TreeSet::new));
    }
  }

  @Test
  void the_bill_of_materials_names_what_is_in_it() throws IOException {
    // The jar's lies beside the binary's where both were built.
    List<Path> bills =
        find(
            ServiceProcess.isNative()
                ? "target/waybill-*-runner-cyclonedx.json"
                : "target/quarkus-run-cyclonedx.json");
    assertEquals(1, bills.size(), bills.toString());
    JsonNode bill = new ObjectMapper().readTree(Files.readString(bills.getFirst()));
    assertEquals("CycloneDX", bill.path("bomFormat").asText());
    Set<String> parts = new TreeSet<>();
    bill.path("components")
        .forEach(part -> {
          if (part.path("properties").toString().contains("\"runtime\"")) {
            parts.add(part.path("group").asText() + ":" + part.path("name").asText());
            assertFalse(
                part.path("purl").asText().isEmpty()
                    && part.path("type").asText().equals("library"),
                part.toString());
          }
        });
    for (String part :
        List.of(
            "org.postgresql:postgresql",
            "org.flywaydb:flyway-core",
            "io.quarkus:quarkus-agroal",
            "org.bitbucket.b_c:jose4j")) {
      assertTrue(parts.contains(part), part);
    }
    assertTrue(parts.stream().noneMatch(part -> part.startsWith("org.junit")), "no test is in it");
  }
}
