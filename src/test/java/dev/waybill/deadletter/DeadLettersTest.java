package dev.waybill.deadletter;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.retain.Reaper;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DeadLettersTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  static final Scope OPS = new Scope("ops", null, null);

  private final TestJobs jobs = new TestJobs(DB);
  private final ReplayRunner runner = new ReplayRunner(DB.database());
  private final DeadCounts counts = new DeadCounts(DB.database());

  @BeforeEach
  void noReplays() throws SQLException {
    DB.execute("DELETE FROM waybill.replays");
  }

  private static String fingerprint(String error) throws SQLException {
    return DB.text("SELECT waybill.fingerprint(?)", error);
  }

  /** The failures of a line, separated by |, are the same. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "order 6f9619ff-8b86-d011-b42d-00c04fc964ff gone|order 123e4567e89b12d3a456426614174000 gone|Order 42 gone",
        "expired at 2026-01-02T03:04:05Z|expired at 2025-12-31 23:59:59.123456+01:00|expired at 2026-01-02",
        "column \"email\" is wrong|column \"x\\\"y\" is wrong|column `e` is wrong|column 'abc def' is wrong",
        "cannot open /var/a/u1.txt: denied|cannot open /tmp/b: denied|cannot open C:\\x\\y.txt: denied|cannot open ./a.csv: denied",
        "HTTP 404 from https://api.example.com/a/b?x=1|HTTP 404 from https://api.example.com/zzz",
        "Error 1062 (23000): Duplicate entry 'a@b-1' for key 'x'|Error 1062 (23000): Duplicate entry 'z' for key 'y'",
        "com.acme.Foo@1a2b3c4d is closed|com.acme.Foo@99ffee00 is closed",
        "bad address 0xDEADBEEF|bad address 0x1",
        "commit 4f045cd9a1 missing|commit 865f050 missing",
        "no customer cus_NffrFeUfNV2Hib at all|no customer cus_9sjd8fjskd8fjsk at all",
        "no mailbox john.doe+x@example.com|no mailbox m@y.org",
        "value -5 is out of range|value 12.75 is out of range|value 1,234 is out of range",
        "ids [1, 2, 3] missing|ids [4] missing",
        "connect to 10.0.0.1:5432 refused|connect to 192.168.17.4:80 refused|connect to fe80::1:2:3:4 refused",
        "{\"id\": 17, \"name\": \"x\"} refused|{\"id\": 18, \"name\": \"y\"} refused",
        "unexpected token at line 3, column 14|unexpected token at line 300, column 1",
        "too   many\n spaces|too many spaces",
        "user42 unknown|user7 unknown",
      })
  void the_same_failure_has_the_same_fingerprint(String failures) throws SQLException {
    var found = new HashSet<String>();
    for (String failure : failures.split("\\|", -1)) {
      found.add(fingerprint(failure));
    }
    assertEquals(1, found.size(), failures);
  }

  @Test
  void different_failures_have_different_fingerprints() throws SQLException {
    List<String> failures =
        List.of(
            "HTTP 404 from https://api.example.com/a",
            "HTTP 500 from https://api.example.com/a",
            "HTTP 404 from https://other.example.com/a",
            "status code 404",
            "status code 500",
            "SQLSTATE 23505",
            "SQLSTATE 40001",
            "exit code 1",
            "exit code 137",
            "can't open user's file",
            "can't read user's file",
            "sha256 mismatch",
            "md5 mismatch",
            "java.lang.IllegalStateException: boom",
            "java.lang.IllegalArgumentException: boom",
            "timeout",
            "timed out",
            "read and/or write failed",
            "the holder vanished",
            "no reason given");
    var found = new HashSet<String>();
    for (String failure : failures) {
      assertTrue(found.add(fingerprint(failure)), failure);
    }
  }

  @Test
  void a_long_quotation_does_not_cut_the_failure_in_two() throws SQLException {
    assertEquals(
        fingerprint("\"" + "x".repeat(300) + "\" is too long"),
        fingerprint("\"" + "y".repeat(2_500) + "\" is too long"));
  }

  /** Dead letters with this error, buried through the door that handlers use. */
  private List<Long> bury(String kind, String tenant, String error, int n) throws SQLException {
    var ids = new ArrayList<Long>();
    for (int i = 0; i < n; i++) {
      DB.number("SELECT waybill.enqueue(?, tenant => ?)", kind, tenant);
    }
    List<Claimed> claimed = jobs.claim(kind, n);
    while (claimed.size() < n) {
      claimed = new ArrayList<>(claimed);
      claimed.addAll(jobs.claim(kind, n - claimed.size()));
    }
    for (Claimed job : claimed) {
      assertTrue(jobs.settle(job, Outcome.dead(error + " " + job.id())));
      ids.add(job.id());
    }
    return ids;
  }

  private static List<DeadLetter> list(Scope scope, DeadFilter filter) throws SQLException {
    return DB.database().transaction(c -> DeadLetters.list(c, scope, filter, null, 1_000));
  }

  private static List<Long> ids(List<DeadLetter> letters) {
    return letters.stream().map(DeadLetter::id).toList();
  }

  private static DeadFilter of(
      @Nullable String kind, @Nullable String tenant, @Nullable String print) {
    return new DeadFilter(kind, tenant, print, null, null, null);
  }

  @Test
  void a_list_is_newest_first_and_its_pages_meet() throws SQLException {
    List<Long> all = bury("k", "", "boom", 7);
    // Some at the same moment: the id decides.
    DB.execute("UPDATE waybill.jobs_dead SET finished_at = '2026-01-01Z' WHERE id % 2 = 0");
    List<Long> whole = ids(list(OPS, DeadFilter.ALL));
    var paged = new ArrayList<Long>();
    @Nullable Position after = null;
    for (int page = 0; page < 10; page++) {
      @Nullable Position from = after;
      List<DeadLetter> some =
          DB.database().transaction(c -> DeadLetters.list(c, OPS, DeadFilter.ALL, from, 3));
      if (some.isEmpty()) {
        break;
      }
      paged.addAll(ids(some));
      after = some.getLast().position();
    }
    assertEquals(whole, paged);
    assertEquals(Set.copyOf(all), Set.copyOf(paged));
    assertEquals(
        DB.column("SELECT id FROM waybill.jobs_dead ORDER BY finished_at DESC, id DESC"),
        whole.stream().map(String::valueOf).toList());
  }

  @Test
  void a_filter_takes_what_it_says() throws SQLException {
    List<Long> mine = bury("k", "mine", "boom", 2);
    List<Long> theirs = bury("k", "theirs", "bang", 2);
    List<Long> other = bury("other", "mine", "boom", 1);
    DB.execute(
        "UPDATE waybill.jobs_dead SET finished_at = '2026-01-01Z' WHERE id = ?", mine.get(0));
    var old = OffsetDateTime.parse("2026-01-01T00:00:00Z");
    String boom = fingerprint("boom 1");
    assertAll(
        () -> assertEquals(4, list(OPS, DeadFilter.ofKind("k")).size()),
        () -> assertEquals(3, list(OPS, of(null, "mine", null)).size()),
        () -> assertEquals(2, list(OPS, of("k", null, boom)).size()),
        () -> assertEquals(3, list(OPS, of(null, null, boom)).size()),
        () -> assertEquals(other, ids(list(OPS, of("other", "mine", boom)))),
        () ->
            assertEquals(
                List.of(mine.get(0)),
                ids(list(OPS, new DeadFilter(null, null, null, old, old.plusNanos(1_000), null)))),
        () ->
            assertEquals(
                4, list(OPS, new DeadFilter(null, null, null, old.plusDays(1), null, null)).size()),
        () ->
            assertEquals(
                theirs.reversed(),
                ids(list(OPS, new DeadFilter("k", null, null, null, null, theirs)))));
  }

  @Test
  void who_is_bound_to_a_tenant_or_to_kinds_sees_no_others() throws SQLException {
    List<Long> mine = bury("k", "mine", "boom", 1);
    List<Long> theirs = bury("k", "theirs", "boom", 1);
    bury("other", "mine", "boom", 1);
    var bound = new Scope("m", "mine", Set.of("k"));
    assertEquals(mine, ids(list(bound, DeadFilter.ALL)));
    assertEquals(List.of(), list(bound, of(null, "theirs", null)));
    assertEquals(List.of(), list(bound, of("other", null, null)));
    long mineOnly = DB.database().transaction(c -> DeadLetters.count(c, bound, DeadFilter.ALL, 9));
    assertEquals(1, mineOnly);
    List<DeadGroup> groups =
        DB.database().transaction(c -> DeadLetters.groups(c, bound, DeadFilter.ALL, null, 9));
    assertEquals(List.of(1L), groups.stream().map(DeadGroup::count).toList());
    assertEquals(mine, groups.stream().map(DeadGroup::sampleId).toList());
    long other = theirs.getFirst();
    assertInstanceOf(
        DeadLetters.Acted.NotThere.class,
        DB.database().transaction(c -> DeadLetters.retry(c, bound, other, null)));
    assertInstanceOf(
        DeadLetters.Acted.NotThere.class,
        DB.database().transaction(c -> DeadLetters.delete(c, bound, other)));
    assertEquals("dead", DB.state(other));
  }

  private static List<DeadGroup> groups() throws SQLException {
    return DB.database().transaction(c -> DeadLetters.groups(c, OPS, DeadFilter.ALL, null, 100));
  }

  private static List<String> shown() throws SQLException {
    return groups().stream().map(g -> g.kind() + " " + g.count()).toList();
  }

  @Test
  void groups_count_what_is_there_whoever_buried_or_removed_it() throws SQLException {
    List<Long> booms = bury("k", "a", "boom", 3);
    bury("k", "b", "boom", 1);
    bury("k", "a", "bang", 2);
    jobs.running("crash");
    DB.execute("UPDATE waybill.jobs SET max_attempts = 1");
    jobs.leaseOver(DB.number("SELECT id FROM waybill.jobs"));
    new Reaper(DB.database()).reap();
    assertEquals(List.of("k 4", "k 2", "crash 1"), shown());
    counts.fold();
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.dead_moves"));
    assertEquals(List.of("k 4", "k 2", "crash 1"), shown());

    DeadGroup boom = groups().getFirst();
    assertEquals(
        DB.text("SELECT min(finished_at) FROM waybill.jobs_dead WHERE last_error LIKE 'boom%'"),
        DB.text("SELECT ?::timestamptz", boom.first()));
    assertEquals(
        DB.number(
            "SELECT id FROM waybill.jobs_dead WHERE last_error LIKE 'boom%' ORDER BY finished_at DESC, id DESC LIMIT 1"),
        boom.sampleId());
    assertTrue(String.valueOf(boom.sampleError()).startsWith("boom"));

    DB.execute("DELETE FROM waybill.jobs_dead WHERE id = ?", booms.getFirst());
    DB.execute("UPDATE waybill.jobs_dead SET fingerprint = 'x' WHERE kind = 'crash'");
    assertEquals(List.of("k 3", "k 2", "crash 1"), shown());
    assertEquals("x", groups().getLast().fingerprint());
    counts.fold();
    assertEquals(List.of("k 3", "k 2", "crash 1"), shown());
    DB.execute("DELETE FROM waybill.jobs_dead");
    assertEquals(List.of(), shown());
    counts.fold();
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.dead_counts"));
  }

  @Test
  void pages_of_groups_meet() throws SQLException {
    for (int i = 0; i < 5; i++) {
      bury("k" + i, "", "boom", 1 + i / 2);
    }
    var seen = new ArrayList<String>();
    DeadGroup.@Nullable After after = null;
    for (int page = 0; page < 6; page++) {
      DeadGroup.@Nullable After from = after;
      List<DeadGroup> some =
          DB.database().transaction(c -> DeadLetters.groups(c, OPS, DeadFilter.ALL, from, 2));
      if (some.isEmpty()) {
        break;
      }
      some.forEach(g -> seen.add(g.kind() + " " + g.count()));
      DeadGroup last = some.getLast();
      after = new DeadGroup.After(last.count(), last.kind(), last.fingerprint());
    }
    assertEquals(List.of("k4 3", "k3 2", "k2 2", "k1 1", "k0 1"), seen);
  }

  private static DeadLetters.Acted retry(long id, @Nullable String payload) throws SQLException {
    return DB.database().transaction(c -> DeadLetters.retry(c, OPS, id, payload));
  }

  private static String audit() throws SQLException {
    return DB.text(
        "SELECT concat_ws(' ', who, what, target, filter, jobs) FROM waybill.audit_log ORDER BY id DESC LIMIT 1");
  }

  @Test
  void a_returned_job_keeps_its_id_and_its_history_and_may_fail_as_often_as_before()
      throws SQLException {
    long id = DB.number("SELECT waybill.enqueue('k', '{\"n\": 1}', max_attempts => 2)");
    DB.execute("INSERT INTO waybill.kinds (kind, backoff_base_ms) VALUES ('k', 0)");
    jobs.policies().refresh();
    for (int round = 1; round <= 3; round++) {
      for (int attempt = 1; attempt <= 2; attempt++) {
        Claimed job = jobs.claimOne("k");
        assertEquals(2 * (round - 1) + attempt, job.attempt());
        assertEquals(2 * round, job.maxAttempts());
        assertTrue(jobs.settle(job, Outcome.retry("boom")));
        jobs.promote();
      }
      assertEquals("dead", DB.state(id), "after round " + round);
      assertInstanceOf(DeadLetters.Acted.Done.class, retry(id, null));
      assertEquals("ready", DB.state(id));
      assertEquals("ops retry " + id + " 1", audit());
      DB.auditIsClean();
    }
    assertEquals(
        "retry dead replayed retry dead replayed retry dead replayed",
        DB.text(
            "SELECT string_agg(e->>'outcome', ' ' ORDER BY n) FROM waybill.jobs, jsonb_array_elements(attempts) WITH ORDINALITY AS a(e, n)"));
    assertEquals("{\"n\": 1}", DB.text("SELECT payload FROM waybill.jobs"));
  }

  @Test
  void a_job_without_a_limit_of_its_own_is_allowed_what_the_policy_says_now() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, max_attempts) VALUES ('k', 3)");
    long id = bury("k", "", "boom", 1).getFirst();
    retry(id, null);
    assertEquals("1 4", DB.text("SELECT attempt || ' ' || max_attempts FROM waybill.jobs"));
    long other = bury("none", "", "boom", 1).getFirst();
    retry(other, null);
    assertEquals(11, DB.number("SELECT max_attempts FROM waybill.jobs WHERE id = ?", other));
  }

  @Test
  void an_edited_payload_is_checked_and_taken() throws SQLException {
    long id = bury("k", "", "boom", 1).getFirst();
    SQLException refused =
        assertThrows(
            SQLException.class, () -> retry(id, "{\"x\": \"" + "y".repeat(300_000) + "\"}"));
    assertEquals("22023", refused.getSQLState());
    assertEquals("dead", DB.state(id));
    retry(id, "{\"fixed\": true}");
    assertEquals("{\"fixed\": true}", DB.text("SELECT payload FROM waybill.jobs"));
    assertEquals("ops retry " + id + " {\"payload\": \"edited\"} 1", audit());
  }

  @Test
  void a_live_job_with_the_same_dedupe_key_keeps_it_dead() throws SQLException {
    long first = DB.number("SELECT waybill.enqueue('k', dedupe_key => 'one')");
    assertTrue(jobs.settle(jobs.claimOne("k"), Outcome.dead("boom")));
    long second = DB.number("SELECT waybill.enqueue('k', dedupe_key => 'one')");
    assertNotEquals(first, second);
    String before = audit();
    assertEquals(new DeadLetters.Acted.KeyTaken(second), retry(first, null));
    assertEquals("dead", DB.state(first));
    assertEquals(before, audit());
    DB.is("SELECT waybill.cancel(?)", second);
    assertInstanceOf(DeadLetters.Acted.Done.class, retry(first, null));
    DB.auditIsClean();
  }

  @Test
  void a_return_wakes_who_waits_for_the_kind() throws SQLException {
    long id = bury("k", "", "boom", 1).getFirst();
    jobs.claimer("k").arm();
    retry(id, null);
    assertTrue(DB.is("SELECT NOT armed FROM waybill.waiting WHERE kind = 'k'"));
  }

  @Test
  void a_deleted_one_is_counted_as_purged() throws SQLException {
    List<Long> ids = bury("k", "t", "boom", 2);
    long id = ids.getFirst();
    assertInstanceOf(
        DeadLetters.Acted.Done.class,
        DB.database().transaction(c -> DeadLetters.delete(c, OPS, id)));
    assertEquals("ops delete " + id + " 1", audit());
    assertInstanceOf(
        DeadLetters.Acted.NotThere.class,
        DB.database().transaction(c -> DeadLetters.delete(c, OPS, id)));
    assertEquals("gone", DB.state(id));
    DB.auditIsClean();
  }

  private static Replay start(DeadFilter filter, double rate) throws SQLException {
    @Nullable Replay started = DB.database().transaction(c -> Replays.start(c, OPS, filter, rate));
    if (started == null) {
      throw new AssertionError("too many");
    }
    return started;
  }

  private static Replay now(Replay replay) throws SQLException {
    @Nullable Replay read = DB.database().transaction(c -> Replays.read(c, OPS, replay.id()));
    if (read == null) {
      throw new AssertionError("gone");
    }
    return read;
  }

  /** As if so much time had passed since the last slice. */
  private static void later(Replay replay, double seconds) throws SQLException {
    DB.execute(
        "UPDATE waybill.replays SET paid_until = now() - ? * interval '1 second' WHERE id = ?",
        seconds,
        replay.id());
  }

  @Test
  void a_replay_returns_what_was_dead_when_it_began_and_nothing_else() throws SQLException {
    List<Long> booms = bury("k", "a", "boom", 5);
    List<Long> others = bury("k", "b", "boom", 2);
    Replay replay = start(of("k", "a", null), 10_000);
    assertEquals(5, replay.matched());
    List<Long> late = bury("k", "a", "boom", 1);
    boolean _ = runner.beat();
    Replay ended = now(replay);
    assertEquals("done 5 0 0", told(ended));
    booms.forEach(id -> assertState("ready", id));
    others.forEach(id -> assertState("dead", id));
    late.forEach(id -> assertState("dead", id));
    assertEquals(
        "ops replay-end replay " + replay.id() + " {\"kind\": \"k\", \"tenant\": \"a\"} 5",
        audit());
    DB.auditIsClean();
  }

  private static String told(Replay replay) {
    return replay.state()
        + " "
        + replay.returned()
        + " "
        + replay.skippedDedupe()
        + " "
        + replay.skippedBusy();
  }

  private static void assertState(String state, long id) {
    try {
      assertEquals(state, DB.state(id));
    } catch (SQLException failure) {
      throw new AssertionError(failure);
    }
  }

  @Test
  void the_rate_is_a_trickle_and_no_outage_makes_it_burst() throws SQLException {
    bury("k", "", "boom", 60);
    Replay replay = start(DeadFilter.ALL, 10);
    later(replay, 1.05);
    assertEquals(10, runner.slice(replay.id()));
    assertEquals(0, runner.slice(replay.id()), "nothing is earned at once");
    later(replay, 0.55);
    assertEquals(5, runner.slice(replay.id()));
    later(replay, 3_600);
    assertEquals(20, runner.slice(replay.id()), "two seconds' worth after an hour");
    assertEquals(0, runner.slice(replay.id()));
    assertEquals("running 35 0 0", told(now(replay)));
  }

  @Test
  void a_slow_rate_begins_at_once_and_waits_then() throws SQLException {
    bury("k", "", "boom", 3);
    Replay replay = start(DeadFilter.ALL, 0.1);
    assertEquals(1, runner.slice(replay.id()));
    later(replay, 9);
    assertEquals(0, runner.slice(replay.id()));
    later(replay, 10.5);
    assertEquals(1, runner.slice(replay.id()));
  }

  @Test
  void a_job_that_dies_again_is_not_returned_again() throws SQLException {
    bury("k", "", "boom", 30);
    Replay replay = start(DeadFilter.ALL, 10_000);
    DB.execute("UPDATE waybill.replays SET rate_per_second = 10 WHERE id = ?", replay.id());
    for (int round = 0; round < 10; round++) {
      later(replay, 1.01);
      runner.slice(replay.id());
      for (Claimed job : jobs.claim("k", 100)) {
        assertTrue(jobs.settle(job, Outcome.dead("boom again")));
      }
    }
    assertEquals("done 30 0 0", told(now(replay)));
    assertEquals(
        30,
        DB.number(
            "SELECT count(*) FROM waybill.jobs_dead WHERE jsonb_path_query_array(attempts, '$[*].outcome') @> '[\"replayed\"]'"));
    assertEquals(
        30,
        DB.number(
            "SELECT count(*) FROM waybill.jobs_dead, jsonb_array_elements(attempts) e WHERE e->>'outcome' = 'replayed'"));
    DB.auditIsClean();
  }

  /** Its transaction began before another process moved the replay and paid. */
  @Test
  void a_process_that_comes_late_moves_nothing() throws SQLException {
    bury("k", "", "boom", 3);
    Replay replay = start(DeadFilter.ALL, 100);
    DB.execute(
        "UPDATE waybill.replays SET paid_until = now() + interval '1 second' WHERE id = ?",
        replay.id());
    assertEquals(0, runner.slice(replay.id()));
    assertEquals(0, now(replay).returned());
  }

  @Test
  void two_replays_at_once_return_each_job_once() throws Exception {
    bury("k", "", "boom", 400);
    Replay one = start(DeadFilter.ALL, 10_000);
    Replay two = start(DeadFilter.ofKind("k"), 10_000);
    var threads = new ArrayList<Thread>();
    var failed = new ConcurrentLinkedQueue<Throwable>();
    for (int i = 0; i < 4; i++) {
      threads.add(
          Thread.ofVirtual()
              .start(() -> {
                try {
                  for (int round = 0;
                      round < 200
                          && (now(one).state().equals("running")
                              || now(two).state().equals("running"));
                      round++) {
                    runner.slice(one.id());
                    runner.slice(two.id());
                  }
                } catch (SQLException | RuntimeException failure) {
                  failed.add(failure);
                }
              }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(List.of(), List.copyOf(failed));
    assertEquals(400, now(one).returned() + now(two).returned());
    assertEquals(
        0,
        DB.number(
            "SELECT count(*) FROM waybill.jobs WHERE jsonb_array_length(attempts) <> 2 OR state <> 'ready'"));
    assertEquals(400, DB.number("SELECT count(*) FROM waybill.jobs"));
    DB.auditIsClean();
  }

  @Test
  void what_a_dedupe_key_or_another_hand_keeps_is_passed_by_and_counted() throws Exception {
    for (int i = 0; i < 4; i++) {
      DB.number("SELECT waybill.enqueue('k', dedupe_key => ?)", "key" + i);
    }
    for (Claimed job : jobs.claim("k", 4)) {
      assertTrue(jobs.settle(job, Outcome.dead("boom")));
    }
    DB.number("SELECT waybill.enqueue('k', dedupe_key => 'key0')");
    Replay replay = start(DeadFilter.ALL, 10_000);
    try (Connection held = DB.connect()) {
      held.setAutoCommit(false);
      TestDatabase.column(
          held, "SELECT id FROM waybill.jobs_dead WHERE dedupe_key = 'key1' FOR UPDATE");
      boolean _ = runner.beat();
      held.rollback();
    }
    assertEquals("done 2 1 1", told(now(replay)));
    assertEquals(
        List.of("key0", "key1"),
        DB.column("SELECT dedupe_key FROM waybill.jobs_dead ORDER BY dedupe_key"));
    DB.auditIsClean();
  }

  @Test
  void a_producer_that_does_not_commit_holds_up_one_job_and_not_the_replay() throws Exception {
    for (int i = 0; i < 3; i++) {
      DB.number("SELECT waybill.enqueue('k', dedupe_key => ?)", "key" + i);
    }
    for (Claimed job : jobs.claim("k", 3)) {
      assertTrue(jobs.settle(job, Outcome.dead("boom")));
    }
    Replay replay = start(DeadFilter.ALL, 10_000);
    try (Connection producer = DB.connect()) {
      producer.setAutoCommit(false);
      TestDatabase.column(producer, "SELECT waybill.enqueue('k', dedupe_key => 'key1')");
      for (int beat = 0; beat < 5 && now(replay).state().equals("running"); beat++) {
        boolean _ = runner.beat();
      }
      producer.rollback();
    }
    assertEquals("done 2 0 1", told(now(replay)));
    DB.auditIsClean();
  }

  @Test
  void a_stopped_replay_moves_nothing_more() throws SQLException {
    bury("k", "", "boom", 20);
    Replay replay = start(DeadFilter.ALL, 10);
    later(replay, 1.01);
    runner.slice(replay.id());
    @Nullable Replay stopped = DB.database().transaction(c -> Replays.stop(c, OPS, replay.id()));
    assertEquals("stopped 10 0 0", told(Objects.requireNonNull(stopped)));
    assertEquals("ops replay-stop replay " + replay.id() + " {} 10", audit());
    later(replay, 100);
    boolean _ = runner.beat();
    assertEquals("stopped 10 0 0", told(now(replay)));
    String line = audit();
    assertEquals(
        "stopped",
        Objects.requireNonNull(DB.database().transaction(c -> Replays.stop(c, OPS, replay.id())))
            .state());
    assertEquals(line, audit(), "stopping twice is one act");
  }

  @Test
  void a_replay_by_ids_returns_these_within_the_scope() throws SQLException {
    List<Long> mine = bury("k", "mine", "boom", 3);
    List<Long> theirs = bury("k", "theirs", "boom", 1);
    var bound = new Scope("m", "mine", null);
    var asked =
        new DeadFilter(
            null, null, null, null, null, Arrays.asList(mine.get(0), mine.get(2), theirs.get(0)));
    @Nullable Replay replay =
        DB.database().transaction(c -> Replays.start(c, bound, asked, 10_000));
    boolean _ = runner.beat();
    assertEquals("done 2 0 0", told(now(Objects.requireNonNull(replay))));
    assertState("dead", theirs.get(0));
    assertState("dead", mine.get(1));
  }

  @Test
  void who_is_bound_to_a_tenant_neither_sees_nor_stops_another_replay() throws SQLException {
    bury("k", "", "boom", 3);
    Replay replay = start(DeadFilter.ALL, 10);
    var bound = new Scope("m", "mine", null);
    assertNull(DB.database().transaction(c -> Replays.read(c, bound, replay.id())));
    assertNull(DB.database().transaction(c -> Replays.stop(c, bound, replay.id())));
    assertEquals(List.of(), DB.database().transaction(c -> Replays.list(c, bound, null, 10)));
    assertEquals("running", now(replay).state());
  }

  @Test
  void so_many_replays_run_at_once_and_no_more() throws SQLException {
    DB.execute("UPDATE waybill.replays SET state = 'stopped' WHERE state = 'running'");
    for (int i = 0; i < Replays.RUNNING_MAX; i++) {
      start(DeadFilter.ofKind("nothing" + i), 1);
    }
    assertNull(DB.database().transaction(c -> Replays.start(c, OPS, DeadFilter.ALL, 1)));
    DB.execute("UPDATE waybill.replays SET state = 'stopped' WHERE state = 'running'");
  }

  @Test
  void one_tenant_leaves_room_for_the_replays_of_others() throws SQLException {
    DB.execute("UPDATE waybill.replays SET state = 'stopped' WHERE state = 'running'");
    var greedy = new Scope("m", "mine", null);
    for (int i = 0; i < Replays.RUNNING_OF_TENANT_MAX; i++) {
      assertTrue(
          DB.database().transaction(c -> Replays.start(c, greedy, DeadFilter.ALL, 1)) != null);
    }
    assertNull(DB.database().transaction(c -> Replays.start(c, greedy, DeadFilter.ALL, 1)));
    var other = new Scope("o", "other", null);
    assertTrue(DB.database().transaction(c -> Replays.start(c, other, DeadFilter.ALL, 1)) != null);
    assertTrue(DB.database().transaction(c -> Replays.start(c, OPS, DeadFilter.ALL, 1)) != null);
    DB.execute("UPDATE waybill.replays SET state = 'stopped' WHERE state = 'running'");
  }
}
