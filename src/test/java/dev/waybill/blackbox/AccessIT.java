package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.extension.ExtendWith;

/** Who may do what, with API tokens. */
@ExtendWith(Processes.class)
final class AccessIT {

  private static final String FIRST = "first-token-of-this-test-0123456789abcdef";
  private static final List<String> ROLES = List.of("producer", "worker", "viewer", "operator");
  private static final Path TABLE = Path.of("docs/access.md");

  private static TestDatabase database;
  private static ServiceProcess process;
  private static Asker nobody;
  private static Asker operator;

  @BeforeAll
  static void start() throws SQLException {
    database = TestPostgres.shared().newDatabase();
    int port = Ports.free();
    process =
        ServiceProcess.on(database)
            .with("WAYBILL_HTTP_PORT", String.valueOf(port))
            .with("WAYBILL_AUTH", "token")
            .with("WAYBILL_FIRST_TOKEN", FIRST)
            .with("WAYBILL_POOLS", "none=nothing:1")
            .start();
    nobody = new Asker(port, null);
    operator = nobody.with(FIRST);
    Awaitility.await("it answers with the first token")
        .atMost(ServiceProcess.PATIENCE)
        .ignoreExceptions()
        .until(() -> operator.get("/v1/tokens").status() == 200);
  }

  // ------------------------------------------------------------------------------------- the table

  /** One line of the table in docs/access.md. */
  private record Rule(
      String operation, String method, String path, Set<String> roles, boolean everyTenant) {}

  private static Map<String, Rule> table() throws IOException {
    Pattern line =
        Pattern.compile("\\| `(\\w+)` \\| `([A-Z]+) (/v1[^`]*)` \\| ([a-z, ]*) ?\\| (yes|no) \\|");
    var rules = new TreeMap<String, Rule>();
    for (String text : Files.readAllLines(TABLE)) {
      var match = line.matcher(text);
      if (match.matches()) {
        var roles = new TreeSet<String>(Set.of("operator"));
        for (String role : match.group(4).split(",", -1)) {
          if (!role.isBlank()) {
            roles.add(role.strip());
          }
        }
        rules.put(
            match.group(1),
            new Rule(
                match.group(1),
                match.group(2),
                match.group(3),
                roles,
                match.group(5).equals("yes")));
      }
    }
    return rules;
  }

  /** What the service says of itself. */
  private static Map<String, Rule> document() throws IOException {
    JsonNode document =
        Asker.JSON.readTree(
            nobody.ask("GET", "/q/openapi", null, "Accept", "application/json").body());
    var rules = new TreeMap<String, Rule>();
    for (var path : document.get("paths").properties()) {
      for (var operation : path.getValue().properties()) {
        if (!Set.of("get", "post", "put", "delete", "patch", "head").contains(operation.getKey())) {
          continue;
        }
        JsonNode says = operation.getValue();
        var roles = new TreeSet<String>();
        says.path("x-waybill-roles").forEach(role -> roles.add(role.asText()));
        rules.put(
            says.path("operationId").asText("without id: " + path.getKey()),
            new Rule(
                says.path("operationId").asText(),
                operation.getKey().toUpperCase(java.util.Locale.ROOT),
                path.getKey(),
                roles,
                says.path("x-waybill-every-tenant").asBoolean()));
      }
    }
    return rules;
  }

  @Test
  void the_table_in_the_docs_and_the_document_of_the_service_say_the_same() throws Exception {
    assertEquals(
        String.join("\n", table().values().stream().map(Rule::toString).toList()),
        String.join("\n", document().values().stream().map(Rule::toString).toList()));
  }

  private static String job(String tenant) throws SQLException {
    return String.valueOf(
        database.number("SELECT waybill.enqueue('echo', '{\"secret\": 1}', tenant => ?)", tenant));
  }

  private static String dead(String tenant) throws SQLException {
    String id = job(tenant);
    database.execute(
        """
        WITH gone AS (DELETE FROM waybill.jobs WHERE id = ?::bigint RETURNING *)
        INSERT INTO waybill.jobs_dead (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, kind,
          tenant, payload, last_error, fingerprint)
        SELECT id, run_at, created_at, now(), priority, 1, 0, 1, kind, tenant, payload, 'test', 'test' FROM gone
        """,
        id);
    return id;
  }

  /** A path with a thing of that tenant in it, so that the operation has something to find. */
  private static String filled(Rule rule, String tenant) throws SQLException {
    String path = rule.path();
    if (path.startsWith("/v1/dlq/{id}")) {
      path = path.replace("{id}", dead(tenant));
    } else if (path.startsWith("/v1/jobs/{id}")) {
      path = path.replace("{id}", job(tenant));
    }
    return path.replaceAll("\\{kind}", "echo").replaceAll("\\{\\w+}", "987654321");
  }

  private static Asker token(String role, @Nullable String tenant) throws IOException {
    ObjectNode body = Asker.JSON.createObjectNode().put("name", "matrix " + role).put("role", role);
    if (tenant != null) {
      body.put("tenant", tenant);
    }
    return minted(body);
  }

  private static Asker minted(ObjectNode body) throws IOException {
    Asker.Answer answer = operator.post("/v1/tokens", body.toString());
    assertEquals(201, answer.status(), answer.body());
    return nobody.with(answer.json().get("token").asText());
  }

  private static Asker.Answer call(Asker who, Rule rule, String path) throws IOException {
    boolean body = rule.method().equals("POST") || rule.method().equals("PUT");
    return who.ask(rule.method(), path, body ? "{}" : null);
  }

  /**
   * Every role, with a tenant and without, on every operation of the document. What is let in may
   * find the body wrong or the thing missing; it is not told that it may not come in.
   */
  @TestFactory
  Stream<DynamicTest> role_by_tenant_by_operation() throws Exception {
    Map<String, Rule> rules = table();
    var tests = new ArrayList<DynamicTest>();
    for (String role : ROLES) {
      for (String tenant : new String[] {"", "acme"}) {
        Asker who = token(role, tenant.isEmpty() ? null : tenant);
        for (Rule served : document().values()) {
          String name = role + (tenant.isEmpty() ? "" : " of " + tenant) + " " + served.operation();
          tests.add(
              DynamicTest.dynamicTest(
                  name,
                  () -> assertHeeded(rules.get(served.operation()), served, who, role, tenant)));
        }
      }
    }
    return tests.stream();
  }

  private static void assertHeeded(
      @Nullable Rule rule, Rule served, Asker who, String role, String tenant) throws Exception {
    assertTrue(rule != null, "there is no rule for " + served.operation() + " in " + TABLE);
    boolean may = rule.roles().contains(role) && (tenant.isEmpty() || !rule.everyTenant());
    boolean slow = served.operation().toLowerCase(java.util.Locale.ROOT).contains("lease");
    String own = filled(served, tenant);
    Asker.Answer answer = call(who, served, own);
    if (!may) {
      assertEquals(403, answer.status(), answer.body());
      assertEquals("/problems/forbidden", answer.json().get("type").asText());
      return;
    }
    assertTrue(answer.status() < 500 && answer.status() != 401, answer.status() + answer.body());
    assertTrue(answer.status() != 403 || slow, answer.body());
    boolean holdsJob =
        served.path().startsWith("/v1/jobs/{id}") || served.path().startsWith("/v1/dlq/{id}");
    if (holdsJob) {
      assertTrue(answer.status() != 404, "its own is there: " + answer.body());
    }
    if (holdsJob && !tenant.isEmpty()) {
      assertEquals(404, call(who, served, filled(served, "beta")).status(), "another tenant's");
    }
  }

  @TestFactory
  Stream<DynamicTest> nobody_gets_in_without_a_token() throws Exception {
    return document().values().stream()
        .map(rule ->
            DynamicTest.dynamicTest(
                rule.operation(),
                () -> {
                  for (Asker who :
                      List.of(
                          nobody,
                          nobody.with("wrong"),
                          nobody.with(FIRST + "x"),
                          nobody.with(""))) {
                    Asker.Answer answer = call(who, rule, filled(rule, ""));
                    assertEquals(401, answer.status(), answer.body());
                    assertTrue(answer.header("WWW-Authenticate").startsWith("Bearer"));
                    assertEquals("/problems/unauthenticated", answer.json().get("type").asText());
                  }
                }));
  }

  // ---------------------------------------------------------------------------------- the tokens

  @Test
  void of_a_token_only_its_hash_is_kept_and_it_is_in_no_log() throws Exception {
    Asker who = token("viewer", null);
    String secret = String.valueOf(who.credential());
    assertTrue(secret.length() >= 43, secret);
    byte[] hash =
        MessageDigest.getInstance("SHA-256").digest(secret.getBytes(StandardCharsets.UTF_8));
    assertEquals(1, database.number("SELECT count(*) FROM waybill.tokens WHERE hash = ?", hash));
    String all = database.text("SELECT string_agg(t::text, '') FROM waybill.tokens t");
    String audit = database.text("SELECT string_agg(a::text, '') FROM waybill.audit_log a");
    for (String kept : List.of(all, audit, process.output(), operator.get("/v1/tokens").body())) {
      assertFalse(kept.contains(secret) || kept.contains(FIRST), "the secret is kept");
      assertFalse(
          kept.contains(HexFormat.of().formatHex(secret.getBytes(StandardCharsets.UTF_8))),
          "in hex");
    }
    assertTrue(audit.contains("token-mint"), audit);
  }

  @Test
  void a_token_is_made_once_under_its_key_and_its_secret_shown_once() throws Exception {
    String body =
        "{\"name\": \"keyed\", \"role\": \"producer\", \"tenant\": \"acme\", \"expiresIn\": \"P1D\"}";
    Asker.Answer made = operator.ask("POST", "/v1/tokens", body, "Idempotency-Key", "t-1");
    assertEquals(201, made.status());
    Asker.Answer again = operator.ask("POST", "/v1/tokens", body, "Idempotency-Key", "t-1");
    assertEquals(200, again.status(), again.body());
    assertEquals(made.json().get("id"), again.json().get("id"));
    assertTrue(made.json().has("token") && !again.json().has("token"), again.body());
    assertEquals(made.header("Location"), again.header("Location"));
    Asker.Answer other =
        operator.ask("POST", "/v1/tokens", body.replace("acme", "beta"), "Idempotency-Key", "t-1");
    assertEquals(409, other.status());
    assertEquals("/problems/idempotency-conflict", other.json().get("type").asText());
    assertEquals(1, database.number("SELECT count(*) FROM waybill.tokens WHERE name = 'keyed'"));
  }

  @Test
  void the_first_token_and_each_after_it_are_in_the_audit_log() throws Exception {
    Asker who = token("viewer", "logged");
    assertTrue(String.valueOf(who.credential()).length() > 40);
    List<String> lines =
        database.texts(
            "SELECT who || ' ' || what || ' ' || target FROM waybill.audit_log ORDER BY id");
    assertTrue(
        lines.stream().anyMatch(line -> line.matches("setting token-mint 1 first")),
        lines::toString);
    assertTrue(
        lines.stream().anyMatch(line -> line.matches("first token-mint [0-9]+ matrix viewer")),
        lines::toString);
  }

  @Test
  void progress_is_for_those_who_may_read_payloads() throws Exception {
    String id = job("acme");
    database.execute(
        "UPDATE waybill.jobs SET progress = '{\"to\": \"a@b.c\"}' WHERE id = ?::bigint", id);
    assertTrue(operator.get("/v1/jobs/" + id).json().has("progress"));
    assertFalse(token("viewer", "acme").get("/v1/jobs/" + id).json().has("progress"));
  }

  @Test
  void where_jobs_are_pushed_to_is_not_for_callers_of_one_tenant() throws Exception {
    assertEquals(
        201,
        operator
            .ask(
                "PUT",
                "/v1/kinds/pushed",
                "{\"delivery\": \"http\", \"url\": \"https://example.com/hook?key=1\", \"secretRef\": \"hooks\"}")
            .status());
    assertTrue(token("viewer", null).get("/v1/kinds/pushed").body().contains("example.com"));
    Asker bound = token("viewer", "acme");
    for (String path : List.of("/v1/kinds/pushed", "/v1/kinds")) {
      Asker.Answer answer = bound.get(path);
      assertEquals(200, answer.status());
      assertFalse(
          answer.body().contains("example.com") || answer.body().contains("hooks"), answer.body());
    }
  }

  @Test
  void a_list_refuses_what_it_does_not_know_by_name() throws Exception {
    int lists = 0;
    for (Rule rule : document().values()) {
      if (!rule.method().equals("GET") || rule.path().contains("{")) {
        continue;
      }
      Asker.Answer answer = operator.get(rule.path() + "?nonsense=1");
      assertEquals(400, answer.status(), rule.operation());
      assertEquals("nonsense", answer.json().get("field").asText(), rule.operation());
      lists++;
    }
    assertTrue(lists >= 10, "lists: " + lists);
  }

  @Test
  void a_token_in_the_url_is_no_token() throws Exception {
    assertEquals(401, nobody.get("/v1/tokens?token=" + FIRST + "&access_token=" + FIRST).status());
  }

  @Test
  void a_revoked_token_is_refused_here_at_once_and_stays_in_the_list() throws Exception {
    Asker.Answer made = operator.post("/v1/tokens", "{\"name\": \"short\", \"role\": \"viewer\"}");
    long id = made.json().get("id").asLong();
    Asker who = nobody.with(made.json().get("token").asText());
    String job = job("");
    assertEquals(200, who.get("/v1/jobs/" + job).status());
    assertEquals(204, operator.delete("/v1/tokens/" + id).status());
    assertEquals(401, who.get("/v1/jobs/" + job).status());
    JsonNode kept = operator.get("/v1/tokens/" + id).json();
    assertTrue(kept.hasNonNull("revokedAt") && !kept.has("token"), kept::toString);
    assertEquals(204, operator.delete("/v1/tokens/" + id).status(), "a second time too");
    assertEquals(404, operator.delete("/v1/tokens/987654321").status());
  }

  @Test
  void a_token_revoked_elsewhere_is_refused_within_seconds() throws Exception {
    Asker who = token("viewer", "elsewhere");
    String job = job("elsewhere");
    assertEquals(200, who.get("/v1/jobs/" + job).status());
    database.execute("UPDATE waybill.tokens SET revoked_at = now() WHERE tenant = 'elsewhere'");
    Awaitility.await("refused")
        .atMost(Duration.ofSeconds(20))
        .pollInterval(Duration.ofMillis(100))
        .until(() -> who.get("/v1/jobs/" + job).status() == 401);
  }

  @Test
  void a_token_that_expired_is_refused() throws Exception {
    Asker who =
        minted(
            Asker.JSON
                .createObjectNode()
                .put("name", "brief")
                .put("role", "viewer")
                .put("tenant", "brief")
                .put("expiresIn", "PT1H"));
    String job = job("brief");
    assertEquals(200, who.get("/v1/jobs/" + job).status());
    database.execute("UPDATE waybill.tokens SET expires_at = now() WHERE tenant = 'brief'");
    Awaitility.await("refused")
        .atMost(Duration.ofSeconds(20))
        .until(() -> who.get("/v1/jobs/" + job).status() == 401);
  }

  @Test
  void a_request_costs_no_query_while_its_token_is_fresh() throws Exception {
    Asker who = token("viewer", "used");
    String job = job("used");
    for (int i = 0; i < 20; i++) {
      assertEquals(200, who.get("/v1/jobs/" + job).status());
    }
    JsonNode seen =
        operator
            .get("/v1/tokens")
            .json()
            .get("tokens")
            .valueStream()
            .filter(t -> t.path("tenant").asText().equals("used"))
            .findFirst()
            .orElseThrow();
    assertTrue(seen.hasNonNull("lastUsedAt"), seen::toString);
    // A change behind the service's back is not seen at once: nobody asked.
    database.execute("UPDATE waybill.tokens SET revoked_at = now() WHERE tenant = 'used'");
    Awaitility.await("refused later")
        .atMost(Duration.ofSeconds(20))
        .until(() -> who.get("/v1/jobs/" + job).status() == 401);
  }

  @Test
  void wrong_fields_of_a_new_token_are_named() throws IOException {
    Map<String, String> wrong =
        Map.of(
            "{\"role\": \"viewer\"}", "name",
            "{\"name\": \"a\"}", "role",
            "{\"name\": \"a\", \"role\": \"root\"}", "role",
            "{\"name\": \"a\", \"role\": \"viewer\", \"kinds\": []}", "kinds",
            "{\"name\": \"a\", \"role\": \"viewer\", \"kinds\": [\"No\"]}", "kinds",
            "{\"name\": \"a\\u0000\", \"role\": \"viewer\"}", "name",
            "{\"name\": \"a\", \"role\": \"viewer\", \"expiresIn\": \"PT0S\"}", "expiresIn",
            "{\"name\": \"a\", \"role\": \"viewer\", \"expiresIn\": \"soon\"}", "expiresIn",
            "{\"name\": \"a\", \"role\": \"viewer\", \"hash\": \"x\"}", "hash");
    assertAll(
        wrong.entrySet().stream()
            .map(entry ->
                () -> {
                  Asker.Answer answer = operator.post("/v1/tokens", entry.getKey());
                  assertEquals(400, answer.status(), entry.getKey() + answer.body());
                  assertEquals(entry.getValue(), answer.json().path("field").asText());
                }));
  }

  @Test
  void tokens_are_listed_in_pages_newest_first() throws IOException {
    token("viewer", null);
    token("viewer", null);
    var seen = new ArrayList<Long>();
    String after = "";
    do {
      JsonNode page = operator.get("/v1/tokens?limit=2" + after).json();
      page.get("tokens").forEach(token -> seen.add(token.get("id").asLong()));
      after = page.has("next") ? "&after=" + page.get("next").asLong() : "";
    } while (!after.isEmpty());
    assertEquals(seen.stream().sorted((a, b) -> Long.compare(b, a)).toList(), seen);
    assertTrue(seen.size() >= 3 && seen.stream().distinct().count() == seen.size(), seen::toString);
    assertEquals(400, operator.get("/v1/tokens?limit=501").status());
    assertEquals(400, operator.get("/v1/tokens?after=x").status());
  }

  // ------------------------------------------------------------------------- what a caller may see

  @Test
  void payloads_and_results_are_for_those_who_may_read_them() throws Exception {
    String job = job("acme");
    for (String role : List.of("viewer", "producer", "worker")) {
      JsonNode seen = token(role, "acme").get("/v1/jobs/" + job).json();
      assertEquals("echo", seen.get("kind").asText());
      assertFalse(seen.has("payload") || seen.has("result"), seen::toString);
    }
    Asker reader =
        minted(
            Asker.JSON
                .createObjectNode()
                .put("name", "reader")
                .put("role", "viewer")
                .put("payloads", true));
    assertEquals(1, reader.get("/v1/jobs/" + job).json().at("/payload/secret").asInt());
    assertEquals(1, operator.get("/v1/jobs/" + job).json().at("/payload/secret").asInt());
    Asker producer = token("producer", "acme");
    Asker.Answer made = producer.post("/v1/jobs", "{\"kind\": \"echo\", \"payload\": {\"a\": 1}}");
    assertEquals(201, made.status(), made.body());
    assertFalse(made.json().has("payload"), made.body());
  }

  @Test
  void a_bound_producer_enqueues_for_its_tenant_and_kinds_only() throws Exception {
    ObjectNode body =
        Asker.JSON
            .createObjectNode()
            .put("name", "acme")
            .put("role", "producer")
            .put("tenant", "acme");
    body.putArray("kinds").add("echo").add("sleep");
    Asker who = minted(body);
    JsonNode job = who.post("/v1/jobs", "{\"kind\": \"echo\"}").json();
    assertEquals("acme", job.get("tenant").asText());
    assertEquals(201, who.post("/v1/jobs", "{\"kind\": \"echo\", \"tenant\": \"acme\"}").status());
    Map<String, String> wrong =
        Map.of(
            "{\"kind\": \"echo\", \"tenant\": \"beta\"}", "tenant",
            "{\"kind\": \"echo\", \"tenant\": \"\"}", "tenant",
            "{\"kind\": \"fail\"}", "kind");
    for (var entry : wrong.entrySet()) {
      Asker.Answer answer = who.post("/v1/jobs", entry.getKey());
      assertEquals(403, answer.status(), answer.body());
      assertEquals(entry.getValue(), answer.json().get("field").asText());
    }
    long other = database.number("SELECT waybill.enqueue('fail', tenant => 'acme')");
    assertEquals(404, who.get("/v1/jobs/" + other).status(), "of another kind");
  }

  private static Asker ofKinds(String role, String... kinds) throws IOException {
    ObjectNode body = Asker.JSON.createObjectNode().put("name", "of kinds").put("role", role);
    for (String kind : kinds) {
      body.withArray("kinds").add(kind);
    }
    return minted(body);
  }

  @Test
  void a_worker_of_some_kinds_neither_keeps_nor_ends_a_lease_of_another() throws Exception {
    long id = database.number("SELECT waybill.enqueue('errand')");
    JsonNode leased =
        ofKinds("worker", "errand")
            .post("/v1/leases", "{\"kinds\": [\"errand\"], \"wait\": 10}")
            .json()
            .at("/jobs/0");
    assertEquals(id, leased.path("id").asLong(), leased::toString);
    String held = "\"id\": " + id + ", \"token\": \"" + leased.get("token").asText() + "\"";
    String extend = "{\"leases\": [{" + held + "}]}";
    String settle = "{\"outcomes\": [{" + held + ", \"outcome\": \"dead\"}]}";
    Asker other = ofKinds("worker", "parcel");
    assertEquals(403, other.post("/v1/leases", "{\"kinds\": [\"errand\"]}").status());
    assertEquals("lost", status(other.post("/v1/leases/extend", extend)));
    assertEquals("lost", status(other.post("/v1/leases/settle", settle)));
    Asker own = ofKinds("worker", "parcel", "errand");
    assertEquals("extended", status(own.post("/v1/leases/extend", extend)));
    assertEquals("settled", status(own.post("/v1/leases/settle", settle)));
  }

  private static String status(Asker.Answer answer) {
    return answer.json().at("/results/0/status").asText(answer.body());
  }

  /** The tenant is in the matrix above; this is the same for kinds. */
  @TestFactory
  Stream<DynamicTest> a_credential_for_another_kind_finds_nothing_by_id() throws Exception {
    Asker who = ofKinds("operator", "parcel");
    return document().values().stream()
        .filter(rule -> rule.path().matches("/v1/(jobs|dlq)/\\{id}.*|/v1/(kinds|tenants)/.*"))
        .filter(rule -> !rule.operation().equals("readTenantLimits"))
        .map(rule ->
            DynamicTest.dynamicTest(
                rule.operation(),
                () -> {
                  Asker.Answer answer = call(who, rule, filled(rule, ""));
                  boolean reads = rule.path().contains("{id}") || rule.method().equals("GET");
                  assertEquals(reads ? 404 : 403, answer.status(), answer.body());
                }));
  }

  @Test
  void two_tenants_with_the_same_dedupe_key_have_a_job_each() throws Exception {
    String body = "{\"kind\": \"echo\", \"dedupeKey\": \"order-42\"}";
    JsonNode acme = token("producer", "acme").post("/v1/jobs", body).json();
    JsonNode again = token("producer", "acme").post("/v1/jobs", body).json();
    JsonNode beta = token("producer", "beta").post("/v1/jobs", body).json();
    assertEquals(acme.get("id"), again.get("id"));
    assertFalse(acme.get("id").equals(beta.get("id")));
    assertEquals("beta", beta.get("tenant").asText());
  }

  @Test
  void an_operator_of_a_tenant_or_of_kinds_mints_nothing() throws Exception {
    String body = "{\"name\": \"more\", \"role\": \"operator\"}";
    assertEquals(403, token("operator", "acme").post("/v1/tokens", body).status());
    ObjectNode ofKind = Asker.JSON.createObjectNode().put("name", "k").put("role", "operator");
    ofKind.putArray("kinds").add("echo");
    assertEquals(403, minted(ofKind).post("/v1/tokens", body).status());
  }

  @Test
  void probes_metrics_and_the_document_ask_for_no_credential() throws IOException {
    for (String path :
        List.of(
            "/q/health/live", "/q/health/ready", "/q/health/started", "/q/metrics", "/q/openapi")) {
      assertEquals(200, nobody.get(path).status(), path);
    }
    String metrics = nobody.get("/q/metrics").body();
    assertFalse(metrics.contains("acme") || metrics.contains(FIRST), "a tenant or a token");
  }

  @Test
  void a_body_is_not_read_from_somebody_unknown() throws IOException {
    String huge = "x".repeat(4_000_000);
    assertEquals(401, nobody.post("/v1/jobs", huge).status());
    assertEquals(
        Set.of(401),
        Stream.of("{}", "[", "")
            .map(body -> {
              try {
                return nobody.post("/v1/jobs", body).status();
              } catch (IOException failure) {
                throw new java.io.UncheckedIOException(failure);
              }
            })
            .collect(Collectors.toSet()));
  }
}
