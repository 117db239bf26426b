package dev.waybill.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.dataformat.yaml.YAMLFactory;
import dev.waybill.Promtool;
import dev.waybill.TestDatabase;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The alert rules, the dashboard and the runbook, as an operator gets them. */
class MonitoringTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final Path RULES = Path.of("deploy/prometheus/waybill-rules.yml");
  private static final Path SCENARIOS = Path.of("deploy/prometheus/waybill-rules-test.yml");
  private static final Path DASHBOARD = Path.of("deploy/grafana/waybill.json");
  private static final Path RUNBOOK = Path.of("docs/runbook.md");
  private static final String LINK = "docs/runbook.md#";

  private static JsonNode yaml(Path file) throws IOException {
    return new ObjectMapper(new YAMLFactory()).readTree(file.toFile());
  }

  private static List<JsonNode> items(JsonNode array) {
    return StreamSupport.stream(array.spliterator(), false).toList();
  }

  private static List<JsonNode> alerts() throws IOException {
    return items(yaml(RULES).at("/groups")).stream()
        .flatMap(group -> items(group.path("rules")).stream())
        .filter(rule -> rule.has("alert"))
        .toList();
  }

  private static Set<String> alertNames() throws IOException {
    var names = new TreeSet<String>();
    alerts().forEach(alert -> names.add(alert.path("alert").asText()));
    return names;
  }

  @Test
  void promtool_accepts_the_rules() throws Exception {
    Promtool.accepts("check", "rules", RULES.toString());
  }

  @Test
  void alerts_fire_when_they_must_and_only_then() throws Exception {
    Promtool.accepts("test", "rules", SCENARIOS.toString());
  }

  @Test
  void every_alert_has_a_scenario_in_which_it_fires_and_is_silent() throws IOException {
    Map<String, Set<Boolean>> seen = new TreeMap<>();
    for (JsonNode scenario : items(yaml(SCENARIOS).path("tests"))) {
      String alert = scenario.path("name").asText().split(":", 2)[0];
      for (JsonNode look : items(scenario.path("promql_expr_test"))) {
        boolean fires =
            items(look.path("exp_samples")).stream()
                .anyMatch(sample -> sample.path("labels").asText().contains("\"" + alert + "\""));
        seen.computeIfAbsent(alert, _ -> new HashSet<>()).add(fires);
      }
    }
    assertEquals(alertNames(), seen.keySet());
    seen.forEach((alert, both) -> assertEquals(Set.of(true, false), both, alert));
  }

  @Test
  void every_alert_says_how_urgent_it_is_and_links_to_its_page() throws IOException {
    assertTrue(alerts().size() >= 15);
    for (JsonNode alert : alerts()) {
      String name = alert.path("alert").asText();
      assertTrue(Set.of("page", "ticket").contains(alert.at("/labels/severity").asText()), name);
      assertFalse(alert.at("/annotations/summary").asText().isEmpty(), name);
      assertFalse(alert.at("/annotations/description").asText().isEmpty(), name);
      assertEquals(
          LINK + name.toLowerCase(Locale.ROOT), alert.at("/annotations/runbook_url").asText());
    }
  }

  private static Map<String, String> pages() throws IOException {
    var pages = new TreeMap<String, String>();
    for (String part : Files.readString(RUNBOOK).split("(?m)^## ", -1)) {
      String[] page = part.split("\n", 2);
      if (page[0].startsWith("Waybill")) {
        pages.put(page[0].strip(), page[1]);
      }
    }
    return pages;
  }

  @Test
  void every_alert_has_a_page_of_the_same_four_parts() throws IOException {
    assertEquals(alertNames(), pages().keySet());
    pages()
        .forEach((name, page) -> {
          for (String part :
              List.of("What it means", "How to see it", "What to do", "What not to do")) {
            assertTrue(page.contains("**" + part + ".**"), name + " does not say: " + part);
          }
        });
  }

  /** The statements as they stand there, on the schema as it is, one after the other. */
  @Test
  void every_statement_of_the_runbook_runs() throws IOException, SQLException {
    var statements = Pattern.compile("(?s)```sql\n(.*?)```").matcher(Files.readString(RUNBOOK));
    int run = 0;
    DB.enqueue("mail");
    try (Connection connection = DB.connect();
        Statement statement = connection.createStatement()) {
      while (statements.find()) {
        String sql = statements.group(1);
        try {
          boolean _ = statement.execute(sql);
          run++;
        } catch (SQLException failure) {
          throw new AssertionError(sql, failure);
        }
      }
    }
    assertTrue(run >= 30, run + " statements");
  }

  @Test
  void the_runbook_links_to_what_is_there() throws IOException {
    String runbook = Files.readString(RUNBOOK);
    var anchors = new HashSet<String>();
    pages().keySet().forEach(name -> anchors.add(name.toLowerCase(Locale.ROOT)));
    var links = Pattern.compile("\\]\\(#([a-z-]+)\\)").matcher(runbook);
    while (links.find()) {
      assertTrue(anchors.contains(links.group(1)), links.group(1));
    }
    var files =
        Pattern.compile("\\]\\((\\.\\./)?([a-zA-Z/.-]+\\.(?:md|yml|json))").matcher(runbook);
    while (files.find()) {
      Path file = Path.of(files.group(1) == null ? "docs" : ".", files.group(2));
      assertTrue(Files.exists(file), file.toString());
    }
  }

  @Test
  void the_dashboard_has_five_panels_that_link_to_their_pages() throws IOException {
    JsonNode dashboard = new ObjectMapper().readTree(DASHBOARD.toFile());
    assertEquals(5, dashboard.path("panels").size());
    assertTrue(dashboard.path("schemaVersion").asInt() >= 39);
    assertEquals(
        List.of("datasource", "kind", "pool", "runbook"),
        items(dashboard.at("/templating/list")).stream()
            .map(variable -> variable.path("name").asText())
            .toList());
    var ids = new HashSet<Integer>();
    var linked = new TreeSet<String>();
    for (JsonNode panel : items(dashboard.path("panels"))) {
      String title = panel.path("title").asText();
      assertTrue(ids.add(panel.path("id").asInt()), title);
      assertEquals("timeseries", panel.path("type").asText(), title);
      assertFalse(panel.path("description").asText().isEmpty(), title);
      JsonNode place = panel.path("gridPos");
      assertTrue(place.path("x").asInt() + place.path("w").asInt() <= 24, title);
      assertTrue(panel.at("/fieldConfig/defaults/thresholds/steps").size() >= 1, title);
      assertFalse(panel.path("targets").isEmpty(), title);
      for (JsonNode target : items(panel.path("targets"))) {
        assertEquals("${datasource}", target.at("/datasource/uid").asText(), title);
        assertFalse(target.path("expr").asText().isEmpty(), title);
      }
      for (JsonNode link : items(panel.path("links"))) {
        linked.add(link.path("url").asText());
        String page = link.path("title").asText().replace("Runbook: ", "");
        assertTrue(pages().containsKey(page), page);
        assertEquals("${runbook}#" + page.toLowerCase(Locale.ROOT), link.path("url").asText());
      }
    }
    assertTrue(linked.size() >= 8, linked::toString);
  }
}
