package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Dead letters as an operator finds them, over REST, with processes that come and go. */
@ExtendWith(Processes.class)
final class DeadLettersIT {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private TestDatabase database;

  @BeforeEach
  void empty() throws SQLException {
    database = TestPostgres.shared().newDatabase();
  }

  private ServiceProcess start() {
    return ServiceProcess.on(database).startReady();
  }

  /** Dead letters of a kind that nobody works, so that what is returned stays ready. */
  private List<Long> dead(Rest rest, int n) throws SQLException, IOException {
    List<Long> ids = database.enqueueMany("mail", "{}", n);
    for (int left = n; left > 0; ) {
      JsonNode jobs =
          ok(rest.post("/v1/leases", "{\"kinds\": [\"mail\"], \"max\": 500, \"wait\": 10}"), 200)
              .get("jobs");
      var outcomes = new ArrayList<String>();
      for (JsonNode job : jobs) {
        outcomes.add(
            "{\"id\": %s, \"token\": %s, \"outcome\": \"dead\", \"error\": \"mailbox %s is full\"}"
                .formatted(job.get("id"), job.get("token"), job.get("id")));
      }
      ok(rest.post("/v1/leases/settle", "{\"outcomes\": " + outcomes + "}"), 200);
      left -= jobs.size();
    }
    assertEquals(n, database.number("SELECT count(*) FROM waybill.jobs_dead"));
    return ids;
  }

  private static JsonNode ok(Rest.Answer answer, int status) {
    assertEquals(status, answer.status(), answer.body());
    return answer.json();
  }

  private void auditIsClean() throws SQLException {
    assertEquals(
        List.of(),
        database.texts("SELECT guarantee || ': ' || detail FROM waybill.audit() WHERE NOT ok"));
  }

  @Test
  void a_dead_letter_is_found_looked_at_edited_returned_and_deleted() throws Exception {
    Rest rest = start().rest();
    List<Long> ids = dead(rest, 3);
    JsonNode list = ok(rest.get("/v1/dlq?kind=mail&limit=2"), 200);
    assertEquals(2, list.get("jobs").size());
    JsonNode rest2 =
        ok(rest.get("/v1/dlq?kind=mail&limit=2&after=" + list.get("next").asText()), 200);
    assertEquals(1, rest2.get("jobs").size());
    assertFalse(rest2.has("next"));
    assertFalse(list.at("/jobs/0").has("payload"), "lists leave out what is inside");

    JsonNode group = ok(rest.get("/v1/dlq/groups"), 200).at("/groups/0");
    assertEquals(3, group.get("count").asInt());
    String print = group.get("fingerprint").asText();
    assertEquals(3, ok(rest.get("/v1/dlq?fingerprint=" + print), 200).get("jobs").size());
    assertEquals(
        0, ok(rest.get("/v1/dlq?diedBefore=2001-01-01T00:00:00Z"), 200).get("jobs").size());

    long id = ids.getFirst();
    JsonNode one = ok(rest.get("/v1/dlq/" + id), 200);
    assertEquals("dead", one.at("/attempts/0/outcome").asText());
    assertEquals("{}", one.get("payload").toString());
    JsonNode back = ok(rest.post("/v1/dlq/" + id + "/retry", "{\"payload\": {\"fixed\": 1}}"), 200);
    assertEquals("ready", back.get("state").asText());
    assertEquals("{\"fixed\":1}", back.get("payload").toString());
    assertEquals(11, back.get("maxAttempts").asInt());
    assertEquals(404, rest.post("/v1/dlq/" + id + "/retry", "").status());
    assertEquals(404, rest.get("/v1/dlq/" + id).status());

    assertEquals(204, rest.delete("/v1/dlq/" + ids.get(1)).status());
    assertEquals(404, rest.delete("/v1/dlq/" + ids.get(1)).status());
    assertEquals(404, rest.get("/v1/jobs/" + ids.get(1)).status());
    assertEquals(200, rest.post("/v1/dlq/" + ids.get(2) + "/retry", "").status());

    List<String> acts = new ArrayList<>();
    ok(rest.get("/v1/audit"), 200)
        .get("lines")
        .forEach(line -> acts.add(line.get("what").asText() + " " + line.get("target").asText()));
    assertEquals(
        List.of("retry " + ids.get(2), "delete " + ids.get(1), "retry " + ids.get(0)), acts);
    auditIsClean();
  }

  @Test
  void a_job_that_is_returned_is_worked_and_may_die_again() throws Exception {
    Rest rest = start().rest();
    long id = database.number("SELECT waybill.enqueue('fail', max_attempts => 1)");
    Awaitility.await("dead").atMost(PATIENCE).until(() -> database.state(id).equals("dead"));
    ok(rest.post("/v1/dlq/" + id + "/retry", ""), 200);
    Awaitility.await("dead again")
        .atMost(PATIENCE)
        .until(() ->
            database.state(id).equals("dead")
                && rest.get("/v1/dlq/" + id).json().get("attempt").asInt() == 2);
    assertEquals(
        "dead replayed dead",
        database.text(
            "SELECT string_agg(e->>'outcome', ' ' ORDER BY n) FROM waybill.jobs_dead, jsonb_array_elements(attempts) WITH ORDINALITY AS a(e, n)"));
    auditIsClean();
  }

  @Test
  void a_replay_goes_on_when_the_process_that_moved_it_is_killed() throws Exception {
    ServiceProcess one = start();
    int n = 300;
    dead(one.rest(), n);
    JsonNode begun =
        ok(
            one.rest()
                .post(
                    "/v1/dlq/replays", "{\"filter\": {\"kind\": \"mail\"}, \"ratePerSecond\": 40}"),
            202);
    assertEquals(n, begun.get("matched").asInt());
    String path = "/v1/dlq/replays/" + begun.get("id").asLong();
    Awaitility.await("under way")
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(20))
        .until(() -> database.number("SELECT returned FROM waybill.replays") > 0);
    one.kill9();
    long atDeath = database.number("SELECT returned FROM waybill.replays");
    assertTrue(atDeath < n, "killed too late: " + atDeath);
    assertEquals(
        atDeath,
        database.number("SELECT count(*) FROM waybill.jobs WHERE state = 'ready'"),
        "what it says is what it did");

    Rest rest = start().rest();
    Awaitility.await("done")
        .atMost(PATIENCE)
        .until(() -> rest.get(path).json().get("state").asText().equals("done"));
    JsonNode done = rest.get(path).json();
    assertEquals(n, done.get("returned").asInt(), done::toString);
    assertEquals(0, done.at("/skipped/busy").asInt() + done.at("/skipped/dedupe").asInt());
    assertEquals(n, database.number("SELECT count(*) FROM waybill.jobs WHERE state = 'ready'"));
    assertEquals(
        0,
        database.number(
            "SELECT count(*) FROM waybill.jobs WHERE jsonb_array_length(attempts) <> 2 OR attempts->1->>'outcome' <> 'replayed'"));
    assertEquals(
        List.of("replay-start " + n, "replay-end " + n),
        database.texts("SELECT what || ' ' || jobs FROM waybill.audit_log ORDER BY id"));
    auditIsClean();
  }

  @Test
  void the_rate_holds_over_all_processes_and_a_stop_stops() throws Exception {
    Rest rest = start().rest();
    start();
    start();
    dead(rest, 200);
    JsonNode begun =
        ok(rest.post("/v1/dlq/replays", "{\"filter\": {}, \"ratePerSecond\": 10}"), 202);
    String path = "/v1/dlq/replays/" + begun.get("id").asLong();
    Awaitility.await("under way for a while")
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(100))
        .until(() -> {
          // By the database's clock, in one snapshot: never more than the rate and what begins it.
          String said =
              database.text(
                  "SELECT returned || ' ' || extract(epoch FROM now() - created_at) FROM waybill.replays");
          int returned = Integer.parseInt(said.split(" ", 2)[0]);
          double seconds = Double.parseDouble(said.split(" ", 2)[1]);
          assertTrue(returned <= 10 * seconds + 1, said);
          return returned >= 30;
        });
    JsonNode stopped = ok(rest.delete(path), 200);
    assertEquals("stopped", stopped.get("state").asText());
    int returned = stopped.get("returned").asInt();
    assertEquals(
        returned, database.number("SELECT count(*) FROM waybill.jobs WHERE state = 'ready'"));
    assertEquals(
        "replay-stop " + returned,
        database.text(
            "SELECT what || ' ' || jobs FROM waybill.audit_log ORDER BY id DESC LIMIT 1"));
    JsonNode again = ok(rest.delete(path), 200);
    assertEquals(returned, again.get("returned").asInt());
    assertEquals(1, ok(rest.get("/v1/dlq/replays"), 200).get("replays").size());
    auditIsClean();
  }

  @Test
  void a_dry_run_says_what_would_be_and_changes_nothing() throws Exception {
    Rest rest = start().rest();
    dead(rest, 25);
    JsonNode dry =
        ok(
            rest.post(
                "/v1/dlq/replays",
                "{\"filter\": {\"kind\": \"mail\"}, \"ratePerSecond\": 5, \"dryRun\": true}"),
            200);
    assertEquals(25, dry.get("matched").asInt());
    assertFalse(dry.get("matchedMore").asBoolean());
    assertEquals(5.0, dry.get("seconds").asDouble());
    assertEquals(10, dry.get("samples").size());
    assertEquals(0, database.number("SELECT count(*) FROM waybill.replays"));
    assertEquals(0, database.number("SELECT count(*) FROM waybill.audit_log"));
  }

  @Test
  void what_is_wrong_is_named() throws Exception {
    Rest rest = start().rest();
    String[][] wrong = {
      {"GET", "/v1/dlq?limit=0", "", "limit"},
      {"GET", "/v1/dlq?limit=1001", "", "limit"},
      {"GET", "/v1/dlq?limit=x", "", "limit"},
      {"GET", "/v1/dlq?after=x", "", "after"},
      {"GET", "/v1/dlq?after=1-", "", "after"},
      {"GET", "/v1/dlq?after=9223372036854775807-1", "", "after"},
      {"GET", "/v1/dlq?kind=NO", "", "kind"},
      {"GET", "/v1/dlq?kinds=no", "", "kinds"},
      {"GET", "/v1/dlq?kind=a&kind=b", "", "kind"},
      {"GET", "/v1/dlq?fingerprint=zz", "", "fingerprint"},
      {"GET", "/v1/dlq?tenant=%00", "", "tenant"},
      {"GET", "/v1/dlq?diedAfter=yesterday", "", "diedAfter"},
      {"GET", "/v1/dlq?diedBefore=-999999999-01-01T00:00:00Z", "", "diedBefore"},
      {"GET", "/v1/dlq/x", "", "id"},
      {"GET", "/v1/dlq/99999999999999999999", "", "id"},
      {"GET", "/v1/dlq/groups?after=1:2", "", "after"},
      {"GET", "/v1/dlq/groups?fingerprint=0123456789abcdef", "", "fingerprint"},
      {"GET", "/v1/dlq/replays?after=x", "", "after"},
      {"GET", "/v1/audit?limit=-1", "", "limit"},
      {"POST", "/v1/dlq/1/retry", "{\"pay\": 1}", "pay"},
      {"POST", "/v1/dlq/1/retry", "{\"payload\": {\"x\": \"\\u0000\"}}", "payload"},
      {"POST", "/v1/dlq/1/retry", "{\"payload\": 1e400}", "payload"},
      {"POST", "/v1/dlq/replays", "{}", "filter"},
      {"POST", "/v1/dlq/replays", "{\"filter\": 1}", "filter"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {}, \"rate\": 1}", "rate"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {\"kinds\": \"mail\"}}", "filter.kinds"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {\"kind\": 7}}", "filter.kind"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {\"ids\": [1, \"2\"]}}", "filter.ids"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {}, \"ratePerSecond\": 0}", "ratePerSecond"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {}, \"ratePerSecond\": 1e9}", "ratePerSecond"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {}, \"ratePerSecond\": \"1\"}", "ratePerSecond"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {\"kind\": \"NO\"}}", "filter.kind"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {\"ids\": []}}", "filter.ids"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {\"ids\": [null]}}", "filter.ids"},
      {"POST", "/v1/dlq/replays", "{\"filter\": {\"diedAfter\": \"x\"}}", "filter.diedAfter"},
    };
    for (String[] one : wrong) {
      Rest.Answer answer = one[0].equals("GET") ? rest.get(one[1]) : rest.post(one[1], one[2]);
      String said = String.join(" ", one) + ": " + answer.status() + " " + answer.body();
      assertEquals(400, answer.status(), said);
      assertEquals(one[3], answer.json().path("field").asText(), said);
    }
    assertEquals(404, rest.get("/v1/dlq/replays/9").status());
    assertEquals(404, rest.delete("/v1/dlq/replays/9").status());
    assertEquals(404, rest.get("/v1/dlq/" + Long.MAX_VALUE).status());
    assertEquals(404, rest.get("/v1/dlq/replays/" + Long.MAX_VALUE).status());
  }

  @Test
  void a_hundred_thousand_dead_letters_are_listed_and_grouped_quickly() throws Exception {
    Rest rest = start().rest();
    database.execute(
        """
        INSERT INTO waybill.jobs_dead (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, kind, tenant, payload,
          last_error, fingerprint)
        SELECT -i, now(), now(), now() - i * interval '1 second', 0, 1, 0, 1, 'kind' || i % 20, 'tenant' || i % 500, '{}',
          'failure ' || repeat('x', 1 + i % 40), waybill.fingerprint('failure ' || repeat('x', 1 + i % 40))
        FROM generate_series(1, 100000) i
        """);
    database.execute(
        "INSERT INTO waybill.tally (kind, what, n) SELECT kind, 'enqueued', count(*) FROM waybill.jobs_dead GROUP BY kind");
    database.execute("ANALYZE waybill.jobs_dead");
    String print = database.text("SELECT fingerprint FROM waybill.jobs_dead LIMIT 1");
    for (String path :
        List.of(
            "/v1/dlq",
            "/v1/dlq?kind=kind7",
            "/v1/dlq?tenant=tenant3",
            "/v1/dlq?tenant=tenant3&kind=kind3",
            "/v1/dlq?fingerprint=" + print,
            "/v1/dlq?kind=kind1&fingerprint=" + print,
            "/v1/dlq/groups",
            "/v1/dlq/groups?tenant=tenant3")) {
      long millis = Long.MAX_VALUE;
      for (int i = 0; i < 3; i++) { // The first of its kind loads classes and reads pages.
        long began = System.nanoTime();
        ok(rest.get(path), 200);
        millis = Math.min(millis, (System.nanoTime() - began) / 1_000_000);
      }
      System.out.println(path + ": " + millis + " ms");
      assertTrue(millis < 1_500, path + " took " + millis + " ms");
    }
    assertEquals(
        100_000,
        database.number(
            "SELECT sum(n) FROM (SELECT n FROM waybill.dead_counts UNION ALL SELECT n FROM waybill.dead_moves) c"));
    JsonNode dry = ok(rest.post("/v1/dlq/replays", "{\"filter\": {}, \"dryRun\": true}"), 200);
    assertEquals(100_000, dry.get("matched").asInt());
    assertFalse(dry.get("matchedMore").asBoolean());
    auditIsClean();
  }
}
