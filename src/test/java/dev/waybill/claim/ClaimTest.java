package dev.waybill.claim;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.retain.ArmedKinds;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

class ClaimTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);

  @Test
  void asking_to_be_woken_does_not_wait_for_a_producer_that_has_not_committed()
      throws SQLException {
    Claimer claimer = jobs.claimer("k");
    claimer.arm();
    try (Connection producer = DB.connect()) {
      producer.setAutoCommit(false);
      TestDatabase.execute(producer, "SELECT waybill.enqueue('k')");
      claimer.arm(); // With a lock_timeout of a second, waiting would throw.
      producer.commit();
    }
  }

  private static boolean mayBeArmed(String kind) throws SQLException {
    return DB.is("SELECT waybill.may_be_armed(waybill.mask_of(?)) IS TRUE", kind);
  }

  /** Both compute all bits, and neither sees the other's rows before its commit. */
  @Test
  void two_that_ask_to_be_woken_at_once_lose_no_bit() throws Exception {
    try (Connection other = DB.connect();
        Connection patient = DB.connect();
        var executor = Executors.newVirtualThreadPerTaskExecutor()) {
      other.setAutoCommit(false);
      TestDatabase.execute(other, "SELECT waybill.arm('{other}')");
      // A claimer gives up after a second, and that may be over before the other commits here.
      patient.setAutoCommit(false);
      TestDatabase.execute(patient, "SET LOCAL lock_timeout = '1min'");
      TestDatabase.execute(patient, "SET LOCAL statement_timeout = '1min'");
      Future<@Nullable Void> arming =
          executor.submit(() -> {
            TestDatabase.execute(patient, "SELECT waybill.arm('{k}')");
            patient.commit();
            patient.setAutoCommit(true);
            return null;
          });
      await().until(() -> DB.is("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"));
      other.commit();
      assertNull(arming.get());
    }
    assertTrue(mayBeArmed("k") && mayBeArmed("other"));
    assertEquals(2, DB.number("SELECT count(*) FROM waybill.waiting WHERE armed"));
  }

  @Test
  void producers_are_told_that_somebody_may_wait_until_nobody_does() throws SQLException {
    jobs.claimer("k").arm();
    try (Connection producer = DB.connect()) {
      producer.setAutoCommit(false);
      TestDatabase.execute(producer, "SELECT waybill.enqueue('k')");
      DB.text("SELECT waybill.mark_armed()");
      assertTrue(mayBeArmed("k"), "it may roll back, and then somebody waits");
      producer.rollback();
      producer.setAutoCommit(true);
    }
    assertTrue(DB.is("SELECT armed FROM waybill.waiting WHERE kind = 'k'"));
    DB.enqueue("k");
    assertTrue(mayBeArmed("k"));
    DB.text("SELECT waybill.mark_armed()");
    assertFalse(mayBeArmed("k"));
  }

  @Test
  void a_kind_whose_pools_are_gone_is_forgotten_after_five_minutes() throws SQLException {
    Claimer claimer = jobs.claimer("k");
    claimer.arm();
    DB.text("SELECT waybill.arm('{gone}')");
    DB.execute("UPDATE waybill.waiting SET since = since - interval '4 minutes'");
    claimer.arm();
    assertTrue(mayBeArmed("gone"));
    DB.execute("UPDATE waybill.waiting SET since = since - interval '2 minutes'");
    new ArmedKinds(DB.database()).mark();
    assertFalse(mayBeArmed("gone"));
    assertTrue(mayBeArmed("k"));
    assertEquals(List.of("k"), DB.column("SELECT kind FROM waybill.waiting"));
  }

  /** Two producers met it armed: one disarmed it and is gone, the other has its row still. */
  @Test
  void a_row_that_a_producer_keeps_and_will_not_tell_of_is_to_be_armed_again() throws SQLException {
    Claimer claimer = jobs.claimer("k");
    assertTrue(claimer.arm());
    DB.enqueue("k");
    try (Connection producer = DB.connect()) {
      producer.setAutoCommit(false);
      TestDatabase.execute(producer, "SELECT FROM waybill.waiting WHERE kind = 'k' FOR UPDATE");
      assertFalse(claimer.arm());
      producer.commit();
      producer.setAutoCommit(true);
    }
    assertTrue(claimer.arm());
    assertTrue(DB.is("SELECT armed FROM waybill.waiting WHERE kind = 'k'"));
  }

  /** As of a pool in another process, which the same notification woke. */
  @Test
  void who_finds_all_armed_does_not_wait_for_the_others() throws SQLException {
    Claimer claimer = jobs.claimer("k");
    claimer.arm();
    try (Connection other = DB.connect()) {
      other.setAutoCommit(false);
      TestDatabase.execute(other, "SELECT waybill.arm('{other}')");
      assertTrue(claimer.arm()); // With a lock_timeout of a second, waiting would throw.
      other.rollback();
      other.setAutoCommit(true);
    }
  }

  @Test
  void each_of_the_64_bits_is_a_bit() throws SQLException {
    List<@Nullable String> kinds =
        DB.column(
            "SELECT min('k' || n) FROM generate_series(1, 5000) n GROUP BY waybill.mask_of('k' || n)");
    assertEquals(64, kinds.size());
    String all = "{" + String.join(",", kinds) + "}";
    for (@Nullable String kind : kinds) {
      DB.execute("DELETE FROM waybill.waiting");
      DB.text("SELECT waybill.arm(ARRAY[?, ?])", kind, kind);
      assertEquals(
          kind,
          DB.text(
              "SELECT string_agg(k, ',') FROM unnest(?::text[]) k WHERE waybill.may_be_armed(waybill.mask_of(k))",
              all));
    }
    DB.text("SELECT waybill.arm(?::text[])", all);
    assertEquals("-1", DB.text("SELECT last_value FROM waybill.armed"));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT waybill.enqueue('k')",
        "SELECT waybill.enqueue('k', tenant => repeat('t', 100))",
        "SELECT waybill.enqueue('k', dedupe_key => 'a')",
        "SELECT waybill.enqueue_many('k', ARRAY['{}']::jsonb[])",
        "SELECT waybill.enqueue_rows('{k}', ARRAY['{}']::jsonb[], '{NULL}', '{NULL}', '{NULL}', NULL, '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{NULL}')",
        "INSERT INTO waybill.jobs (kind) VALUES ('k')",
      })
  void whoever_is_armed_is_told_by_each_door(String door) throws SQLException {
    jobs.claimer("k").arm();
    try (Connection hears = DB.connect();
        Connection producer = DB.connect()) {
      TestDatabase.execute(hears, "LISTEN waybill");
      TestDatabase.execute(producer, door);
      assertEquals(1, DB.number("SELECT count(*) FROM waybill.jobs"));
      assertTrue(DB.is("SELECT NOT armed FROM waybill.waiting WHERE kind = 'k'"));
      PGNotification[] heard = hears.unwrap(PGConnection.class).getNotifications(30_000);
      assertEquals(List.of("k"), Stream.of(heard).map(PGNotification::getParameter).toList());
      TestDatabase.execute(hears, "UNLISTEN waybill");
    }
  }

  /** 64 bits for all kinds. */
  @Test
  void a_kind_with_the_bit_of_another_wakes_nobody() throws SQLException {
    String twin =
        DB.text(
            "SELECT min('k' || n) FROM generate_series(1, 10000) n WHERE waybill.mask_of('k' || n) = waybill.mask_of('k')");
    jobs.claimer("k").arm();
    assertTrue(mayBeArmed(twin));
    DB.enqueue(twin);
    assertTrue(DB.is("SELECT armed FROM waybill.waiting WHERE kind = 'k'"));
  }

  /** The table and the sequence are unlogged. */
  @Test
  void after_a_crash_producers_find_nobody_waiting_until_somebody_asks_again() throws SQLException {
    Claimer claimer = jobs.claimer("k");
    claimer.arm();
    DB.execute("TRUNCATE waybill.waiting");
    DB.execute("ALTER SEQUENCE waybill.armed RESTART");
    DB.enqueue("k");
    assertFalse(mayBeArmed("k"));
    claimer.arm();
    assertTrue(mayBeArmed("k"));
  }

  @Test
  void a_wake_up_does_not_fail_a_producer_of_a_stricter_isolation() throws SQLException {
    Claimer claimer = jobs.claimer("k");
    claimer.arm();
    try (Connection strict = DB.connect()) {
      strict.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      strict.setAutoCommit(false);
      TestDatabase.execute(strict, "SELECT 1");
      DB.execute("SELECT waybill.enqueue('k')"); // Disarms after the snapshot of the other.
      TestDatabase.execute(strict, "SELECT waybill.enqueue('k')");
      strict.commit();
    }
    assertEquals(2, DB.number("SELECT count(*) FROM waybill.jobs"));
  }

  @Test
  void never_more_than_asked_for() throws SQLException {
    DB.enqueue("k", 100);
    assertEquals(7, jobs.claim("k", 7).size());
    assertEquals(7, DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running'"));
    assertEquals(93, jobs.claim("k", 500).size());
    assertEquals(0, jobs.claim("k", 500).size());
  }

  @Test
  void never_more_than_asked_for_from_many_tenants_and_priorities() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, tenant, priority)
        SELECT 'k', 't' || n % 37, n % 5 FROM generate_series(1, 2000) n
        """);
    Claimer claimer = jobs.claimer("k");
    int total = 0;
    for (int ask = 1; total < 2000; ask = ask % 97 + 1) {
      claimer.sweep();
      int got = claimer.claim(ask).size();
      assertTrue(got <= ask && got > 0, "asked for " + ask + ", got " + got);
      total += got;
      assertEquals(total, DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running'"));
    }
  }

  @Test
  void the_attempt_rises_and_the_lease_begins_at_the_claim() throws SQLException {
    long id = DB.enqueue("k");
    DB.execute("INSERT INTO waybill.kinds (kind, lease_ms) VALUES ('k', 77000)");
    jobs.policies().refresh();
    Claimed job = jobs.claim("k", 1).getFirst();
    assertEquals(id, job.id());
    assertEquals(1, job.attempt());
    assertEquals(77_000, job.leaseMillis());
    assertTrue(
        DB.is(
            """
            SELECT state = 'running' AND attempt = 1 AND token = ? AND worker = 'tester'
              AND lease_until = started_at + interval '77 seconds' AND started_at <= now() FROM waybill.jobs
            """,
            job.token()));
  }

  @Test
  void what_a_job_carries_comes_along() throws SQLException {
    long id =
        DB.number(
            """
            SELECT waybill.enqueue(kind => 'k', payload => '{"a": [1, "\u00e4"]}', tenant => 'acme', priority => -3,
              tags => '{x,y}', payload_version => 1, traceparent => '00-1-2-03', max_attempts => 4)
            """);
    Claimed job = jobs.claim("k", 1).getFirst();
    assertEquals(id, job.id());
    assertEquals("{\"a\": [1, \"\u00e4\"]}", job.payload());
    assertEquals("acme", job.tenant());
    assertEquals(-3, job.priority());
    assertEquals(List.of("x", "y"), job.tags());
    assertEquals("00-1-2-03", job.traceparent());
    assertEquals(4, job.maxAttempts());
    assertTrue(job.pickupMicros() >= 0);
    assertEquals("job=" + id + " kind=k attempt=1", job.toString());
  }

  @Test
  void eight_claimers_never_get_the_same_job() throws Exception {
    int all = 24_000;
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, tenant)
        SELECT 'k', 't' || n % 3 FROM generate_series(1, ?) n
        """,
        all);
    Set<Long> seen = ConcurrentHashMap.newKeySet();
    var total = new AtomicInteger();
    try (var threads = Executors.newFixedThreadPool(8)) {
      var claimers = new ArrayList<Callable<Void>>();
      for (int i = 0; i < 8; i++) {
        claimers.add(() -> claimUntilNothingIsLeft(seen, total));
      }
      for (var claimer : threads.invokeAll(claimers)) {
        claimer.get();
      }
    }
    assertEquals(all, total.get(), "claims");
    assertEquals(all, seen.size(), "different jobs");
    assertEquals(
        all,
        DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running' AND attempt = 1"));
  }

  private Void claimUntilNothingIsLeft(Set<Long> seen, AtomicInteger total) throws SQLException {
    Claimer claimer = jobs.claimer("k");
    while (DB.is("SELECT EXISTS (SELECT FROM waybill.jobs WHERE state = 'ready')")) {
      claimer.sweep();
      List<Claimed> got = claimer.claim(100);
      total.addAndGet(got.size());
      got.forEach(job -> seen.add(job.id()));
    }
    return null;
  }

  @Test
  void a_claimer_passes_by_what_another_holds_locked_and_does_not_wait() throws Exception {
    DB.enqueue("k", 20);
    try (Connection other = DB.connect()) {
      other.setAutoCommit(false);
      TestDatabase.column(
          other,
          "SELECT id FROM waybill.jobs WHERE state = 'ready' ORDER BY id LIMIT 10 FOR NO KEY UPDATE");
      List<Claimed> got =
          assertTimeoutPreemptively(Duration.ofSeconds(10), () -> jobs.claim("k", 20));
      assertEquals(10, got.size());
      other.rollback();
      other.setAutoCommit(true);
    }
    assertEquals(10, jobs.claim("k", 20).size());
  }

  @Test
  void no_attempt_before_its_time() throws SQLException {
    long later = DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '1 hour')");
    assertEquals(List.of(), jobs.claim("k", 10));
    assertEquals(0, jobs.promote());
    assertEquals("scheduled", DB.state(later));
    // Even a row that says ready too early.
    DB.execute("UPDATE waybill.jobs SET state = 'ready'");
    assertEquals(List.of(), jobs.claim("k", 10));
    jobs.due(later);
    assertEquals(1, jobs.claim("k", 10).size());
  }

  @Test
  void within_a_tenant_by_priority_then_run_at_then_id() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, priority, run_at, payload)
        VALUES ('k', 1, now() - interval '1 s', '5'), ('k', 0, now() - interval '1 s', '3'), ('k', 0, now() - interval '1 s', '4'),
          ('k', 0, now() - interval '9 s', '2'), ('k', -1, now(), '1')
        """);
    var order = new ArrayList<String>();
    Claimer claimer = jobs.claimer("k");
    for (int i = 0; i < 5; i++) {
      claimer.sweep();
      order.add(claimer.claim(1).getFirst().payload());
    }
    assertEquals(List.of("1", "2", "3", "4", "5"), order);
  }

  @Test
  void a_job_that_has_waited_overtakes_better_priorities() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, priority, run_at, payload)
        VALUES ('k', 5, now() - interval '10 minutes', '"old"'), ('k', 0, now(), '"new"')
        """);
    assertEquals("\"old\"", jobs.claim("k", 1).getFirst().payload());
  }

  @Test
  void a_late_commit_behind_the_low_bound_is_found_by_the_next_sweep() throws SQLException {
    try (Connection slow = DB.connect()) {
      slow.setAutoCommit(false);
      String late =
          String.valueOf(TestDatabase.column(slow, "SELECT waybill.enqueue('k')").getFirst());
      DB.enqueue("k", 40);
      Claimer claimer = jobs.claimer("k");
      claimer.sweep();
      assertEquals(20, claimer.claim(20).size());
      slow.commit();
      slow.setAutoCommit(true);
      claimer.sweep();
      assertEquals(late, String.valueOf(claimer.claim(1).getFirst().id()));
    }
  }

  @Test
  void a_job_dated_back_is_found_by_the_next_sweep() throws SQLException {
    DB.enqueue("k", 40);
    Claimer claimer = jobs.claimer("k");
    claimer.sweep();
    assertEquals(20, claimer.claim(20).size());
    long old = DB.number("SELECT waybill.enqueue('k', run_at => now() - interval '1 year')");
    claimer.sweep();
    assertEquals(old, claimer.claim(1).getFirst().id());
  }

  @Test
  void a_job_whose_limit_was_lowered_comes_out_as_exhausted_and_its_attempt_stays()
      throws SQLException {
    long id = DB.enqueue("k");
    DB.execute("UPDATE waybill.jobs SET attempt = 5");
    DB.execute("INSERT INTO waybill.kinds (kind, max_attempts) VALUES ('k', 3)");
    jobs.policies().refresh();
    Claimed job = jobs.claim("k", 1).getFirst();
    assertTrue(job.exhausted());
    assertEquals(id, job.id());
    assertEquals(5, job.attempt());
  }

  @Test
  void paused_kinds_are_left_alone_until_they_are_resumed() throws SQLException {
    DB.enqueue("k", 3);
    DB.execute("INSERT INTO waybill.kinds (kind, paused) VALUES ('k', true)");
    jobs.policies().refresh();
    assertEquals(List.of(), jobs.claim("k", 10));
    DB.execute("UPDATE waybill.kinds SET paused = false");
    jobs.policies().refresh();
    assertEquals(3, jobs.claim("k", 10).size());
  }

  @Test
  void where_the_last_came_from_the_next_is_claimed_without_a_sweep() throws SQLException {
    Claimer claimer = jobs.claimer("k", "other");
    assertFalse(claimer.recall(), "nothing is remembered yet");
    DB.enqueue("k");
    DB.enqueue("other");
    claimer.sweep();
    assertEquals(2, claimer.claim(100).size());
    assertFalse(claimer.knowsMore());
    long next = DB.enqueue("k");
    assertTrue(claimer.recall());
    assertEquals(List.of(next), claimer.claim(100).stream().map(Claimed::id).toList());
    assertFalse(claimer.knowsMore(), "both lanes were emptied");
  }

  @Test
  void a_paused_kind_is_not_recalled() throws SQLException {
    Claimer claimer = jobs.claimer("k");
    DB.enqueue("k");
    claimer.sweep();
    assertEquals(1, claimer.claim(10).size());
    DB.enqueue("k");
    DB.execute("INSERT INTO waybill.kinds (kind, paused) VALUES ('k', true)");
    jobs.policies().refresh();
    assertFalse(claimer.recall());
    assertEquals(List.of(), claimer.claim(10));
  }

  @Test
  void kinds_without_a_handler_are_left_alone() throws SQLException {
    long unknown = DB.enqueue("unknown");
    DB.enqueue("k");
    assertEquals(1, jobs.claim("k", 10).size());
    assertEquals("ready", DB.state(unknown));
  }

  @Test
  void a_payload_newer_than_this_build_is_left_for_a_newer_one() throws SQLException {
    long newer = DB.number("SELECT waybill.enqueue('k', payload_version => 3)");
    long same = DB.number("SELECT waybill.enqueue('k', payload_version => 2)");
    var old = new Claimer(DB.database(), jobs.policies(), "old", Map.of("k", 2));
    old.sweep();
    assertEquals(List.of(same), old.claim(10).stream().map(Claimed::id).toList());
    var build = new Claimer(DB.database(), jobs.policies(), "new", Map.of("k", 3));
    build.sweep();
    assertEquals(List.of(newer), build.claim(10).stream().map(Claimed::id).toList());
  }

  @Test
  void lanes_of_a_payload_newer_than_this_build_are_not_even_looked_at() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, tenant, payload_version, priority, run_at)
        SELECT 'k', 't' || n, 3, -9, now() - interval '1 hour' FROM generate_series(1, 3000) n
        """);
    long readable = DB.number("SELECT waybill.enqueue('k', payload_version => 2, tenant => 't7')");
    List<Lane> found = DB.database().run(c -> new Sweep().of(c, Map.of("k", 2), null));
    assertEquals(
        List.of(readable), found.stream().map(Lane::lowId).toList(), "the only lane it enters");
    var old = new Claimer(DB.database(), jobs.policies(), "old", Map.of("k", 2));
    old.sweep();
    assertEquals(List.of(readable), old.claim(10).stream().map(Claimed::id).toList());
    old.sweep();
    assertFalse(old.knowsMore());
  }

  @Test
  void a_sweep_for_one_tenant_finds_its_lanes_and_no_others() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, tenant, payload_version, priority)
        SELECT k, t, v, p FROM unnest('{k,l,m}'::text[]) k, unnest('{a,mine,z}'::text[]) t, generate_series(1, 4) v,
          unnest('{-5,0,9}'::int[]) p
        WHERE NOT (k = 'l' AND t = 'mine' AND v = 2)
        """);
    var asked = Map.of("k", 3, "l", 4);
    List<Lane> all = DB.database().run(c -> new Sweep().of(c, asked, null));
    List<Lane> mine = DB.database().run(c -> new Sweep().of(c, asked, "mine"));
    assertEquals(3 * 3 + 3 * 3, mine.size());
    assertEquals(
        all.stream()
            .filter(lane -> lane.tenant().equals("mine"))
            .map(Lane::lowId)
            .sorted()
            .toList(),
        mine.stream().map(Lane::lowId).sorted().toList());
    assertEquals(List.of(), DB.database().run(c -> new Sweep().of(c, asked, "nobody")));
  }

  @Test
  void a_version_does_not_outrank_a_priority_or_an_earlier_time() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, payload_version, priority, run_at, payload)
        VALUES ('k', 1, 1, now() - interval '9 s', '4'), ('k', 2, 0, now() - interval '9 s', '1'),
          ('k', 1, 0, now() - interval '5 s', '2'), ('k', 2, 0, now() - interval '1 s', '3')
        """);
    var order = new ArrayList<String>();
    var claimer = new Claimer(DB.database(), jobs.policies(), "both", Map.of("k", 2));
    for (int i = 0; i < 4; i++) {
      claimer.sweep();
      order.add(claimer.claim(1).getFirst().payload());
    }
    assertEquals(List.of("1", "2", "3", "4"), order);
  }

  @Test
  void ids_above_two_to_the_31() throws SQLException {
    long high = 3_000_000_000L;
    DB.execute("ALTER TABLE waybill.jobs ALTER COLUMN id RESTART WITH 3000000000");
    DB.enqueue("k", 5);
    List<Claimed> first = jobs.claim("k", 2);
    List<Claimed> second = jobs.claim("k", 10);
    var ids = new HashSet<Long>();
    first.forEach(job -> ids.add(job.id()));
    second.forEach(job -> ids.add(job.id()));
    assertEquals(Set.of(high, high + 1, high + 2, high + 3, high + 4), ids);
    assertEquals(
        Set.of(high, high + 1),
        new Leases(DB.database()).ours(first.stream().map(TestJobs::held).toList()));
    DB.execute("ALTER TABLE waybill.jobs ALTER COLUMN id RESTART WITH 1");
  }

  @Test
  void two_claims_never_share_a_token() throws SQLException {
    DB.enqueue("k", 2);
    assertNotEquals(jobs.claim("k", 1).getFirst().token(), jobs.claim("k", 1).getFirst().token());
  }
}
