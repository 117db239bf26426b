package dev.waybill;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.methods;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noFields;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import dev.waybill.access.Allowed;
import jakarta.ws.rs.HttpMethod;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The plan of the house: which room may enter which, and what is done nowhere. */
class HousePlanTest {

  private static final String ROOT = "dev.waybill";
  private static final Path MAIN = Path.of("src/main/java");
  private static final JavaClasses HOUSE =
      new ClassFileImporter()
          .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
          .importPath(Path.of("target/classes"));

  /** The doors, as each package-info.java names them. A new one is opened here first. */
  private static final Map<String, Set<String>> DOORS = doors();

  private static Map<String, Set<String>> doors() {
    var doors = new TreeMap<String, Set<String>>();
    doors.put("job", Set.of());
    doors.put("db", Set.of());
    doors.put("embedded", Set.of());
    // Leaf: whoever runs or takes jobs begins their spans.
    doors.put("trace", Set.of());
    doors.put("audit", Set.of());
    doors.put("deadletter", Set.of("job", "db", "audit"));
    doors.put("policy", Set.of("job", "db"));
    doors.put("enqueue", Set.of("db"));
    doors.put("claim", Set.of("job", "db", "policy"));
    doors.put("settle", Set.of("job", "db", "policy", "claim"));
    doors.put("run", Set.of("job", "db", "policy", "claim", "settle", "trace"));
    doors.put("pull", Set.of("job", "db", "policy", "claim", "settle"));
    doors.put("retain", Set.of("job", "db", "policy", "claim"));
    doors.put("alert", Set.of("db", "deliver"));
    doors.put(
        "observe",
        Set.of("alert", "job", "db", "figures", "pull", "run", "retain", "settle", "trace"));
    doors.put("access", Set.of("db"));
    doors.put("deliver", Set.of("job", "policy", "run", "trace"));
    doors.put("figures", Set.of("db", "job"));
    doors.put("doctor", Set.of("db", "figures", "job"));
    doors.put("fleet", Set.of("db", "run"));
    doors.put(
        "api",
        Set.of(
            "access",
            "audit",
            "db",
            "deadletter",
            "enqueue",
            "figures",
            "fleet",
            "job",
            "policy",
            "pull",
            "trace"));
    doors.put("example", Set.of("job", "run"));
    return doors;
  }

  private static String room(JavaClass type) {
    String inside = type.getPackageName().substring(ROOT.length());
    return inside.isEmpty() ? "" : inside.substring(1).split("\\.", 2)[0];
  }

  private static boolean isOurs(JavaClass type) {
    return type.getPackageName().equals(ROOT) || type.getPackageName().startsWith(ROOT + ".");
  }

  @Test
  void every_door_between_rooms_is_on_the_plan() {
    var unplanned = new TreeSet<String>();
    for (JavaClass type : HOUSE) {
      for (var dependency : type.getDirectDependenciesFromSelf()) {
        JavaClass target = dependency.getTargetClass().getBaseComponentType();
        if (!isOurs(type) || !isOurs(target) || room(type).equals(room(target))) {
          continue;
        }
        boolean planned =
            room(type).isEmpty() || DOORS.getOrDefault(room(type), Set.of()).contains(room(target));
        if (!planned) {
          unplanned.add(room(type) + " -> " + room(target) + ": " + dependency.getDescription());
        }
      }
    }
    assertEquals(Set.of(), unplanned);
  }

  @Test
  void every_room_is_on_the_plan_and_says_what_it_enters() throws IOException {
    var rooms = new TreeSet<String>();
    for (JavaClass type : HOUSE) {
      if (isOurs(type) && !room(type).isEmpty()) {
        rooms.add(room(type));
      }
    }
    assertEquals(DOORS.keySet(), rooms);
    for (String room : rooms) {
      String says = Files.readString(MAIN.resolve("dev/waybill/" + room + "/package-info.java"));
      String plain = says.replaceAll("[\\s*]+", " ");
      for (String entered : DOORS.getOrDefault(room, Set.of())) {
        assertTrue(
            plain.contains("{@code " + entered + "}"), room + " does not say it enters " + entered);
      }
    }
  }

  @Test
  void rooms_form_no_circle() {
    slices().matching("dev.waybill.(*)..").should().beFreeOfCycles().check(HOUSE);
  }

  @Test
  void every_package_is_null_marked() throws IOException {
    var without = new ArrayList<String>();
    try (Stream<Path> all = Files.walk(MAIN)) {
      for (Path directory : all.filter(Files::isDirectory).toList()) {
        try (Stream<Path> files = Files.list(directory)) {
          boolean holdsCode = files.anyMatch(file -> file.toString().endsWith(".java"));
          Path info = directory.resolve("package-info.java");
          if (holdsCode
              && !(Files.exists(info) && Files.readString(info).contains("@NullMarked"))) {
            without.add(directory.toString());
          }
        }
      }
    }
    assertEquals(List.of(), without);
  }

  /** The database owns stored time; the JVM measures durations, by nanoTime. */
  @Test
  void nobody_reads_the_clock_of_this_machine() {
    for (Class<?> clock :
        List.of(Instant.class, OffsetDateTime.class, ZonedDateTime.class, LocalDateTime.class)) {
      noClasses().should().callMethod(clock, "now").check(HOUSE);
    }
    noClasses().should().callMethod(System.class, "currentTimeMillis").check(HOUSE);
  }

  @Test
  void nobody_calls_thread_sleep() {
    noClasses().should().callMethod(Thread.class, "sleep", long.class).check(HOUSE);
    noClasses().should().callMethod(Thread.class, "sleep", Duration.class).check(HOUSE);
  }

  /** Loops of their own rhythm. Everybody else waits for an event. */
  private static final Set<String> MAY_SLEEP =
      Set.of(
          "db.Listener",
          "db.Schema",
          "retain.Pace",
          "retain.S3Shelf",
          "run.Pools",
          "run.Watch",
          "settle.Settler",
          "trace.Exporter");

  @Test
  void only_loops_sleep() throws IOException {
    assertEquals(
        Set.of(),
        sources("(MILLISECONDS|SECONDS|NANOSECONDS|MINUTES)\\s*\\.sleep\\(").stream()
            .filter(type -> !MAY_SLEEP.contains(type) && !type.startsWith("example."))
            .filter(type -> !type.startsWith("embedded."))
            .collect(Collectors.toSet()));
  }

  @Test
  void fields_are_not_injected() {
    noFields().should().beAnnotatedWith("jakarta.inject.Inject").check(HOUSE);
    noFields()
        .should()
        .beAnnotatedWith("org.eclipse.microprofile.config.inject.ConfigProperty")
        .check(HOUSE);
  }

  /** A statement is a constant: what is prepared is a name in capitals or a parameter named sql. */
  @Test
  void sql_is_never_put_together() throws IOException {
    Pattern prepared = Pattern.compile("prepare(?:Statement|Call)\\(\\s*([^;]*?)\\)\\s*[;)]");
    var wrong = new ArrayList<String>();
    for (Path file : javaFiles()) {
      var calls = prepared.matcher(Files.readString(file));
      while (calls.find()) {
        if (!calls.group(1).matches("[A-Z][A-Z_0-9]*(\\.[A-Z_0-9]+)?|sql")) {
          wrong.add(file.getFileName() + ": " + calls.group(1));
        }
      }
    }
    assertEquals(List.of(), wrong);
  }

  /**
   * A resource method that is not public is silently no operation; one without a rule is nobody's.
   */
  @Test
  void every_operation_says_who_may_call_it() {
    methods()
        .that()
        .areMetaAnnotatedWith(HttpMethod.class)
        .should()
        .beAnnotatedWith(Allowed.class)
        .andShould()
        .bePublic()
        .check(HOUSE);
  }

  @Test
  void nobody_talks_to_standard_output() throws IOException {
    assertEquals(
        Set.of(),
        sources("System\\.(out|err)\\b").stream()
            .filter(type -> type.contains(".")) // The entrance speaks before there is a log.
            .filter(type -> !type.startsWith("embedded."))
            .collect(Collectors.toSet()));
  }

  private static Set<String> sources(String pattern) throws IOException {
    var found = new TreeSet<String>();
    for (Path file : javaFiles()) {
      if (Pattern.compile(pattern).matcher(Files.readString(file)).find()) {
        String name = MAIN.resolve("dev/waybill").relativize(file).toString();
        found.add(name.replace(".java", "").replace('/', '.'));
      }
    }
    return found;
  }

  private static List<Path> javaFiles() throws IOException {
    try (Stream<Path> all = Files.walk(MAIN)) {
      return all.filter(file -> file.toString().endsWith(".java")).sorted().toList();
    }
  }

  @Test
  void no_package_is_called_after_nothing() {
    var empty = Arrays.asList("util", "common", "impl", "service", "dto", "helper", "misc");
    assertTrue(DOORS.keySet().stream().noneMatch(empty::contains));
  }
}
