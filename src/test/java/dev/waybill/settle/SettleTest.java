package dev.waybill.settle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.retain.Reaper;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class SettleTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final TestJobs jobs = new TestJobs(DB);
  private final Settler settler = jobs.settler();

  @BeforeEach
  void start() {
    settler.start();
  }

  @AfterEach
  void stop() throws Exception {
    settler.stop();
    DB.auditIsClean();
  }

  private Settled settle(Claimed job, Outcome outcome) {
    return TestJobs.settle(settler, job, outcome);
  }

  static List<Outcome> everyOutcome() {
    return List.of(
        Outcome.done(),
        Outcome.done(Map.of("a", 1)),
        Outcome.retry("again"),
        Outcome.retry(Duration.ofSeconds(9), "again"),
        Outcome.snooze(Duration.ofHours(1)),
        new Outcome.Release(),
        Outcome.dead("hopeless"));
  }

  // ---------------------------------------------------------------------------- the state changes

  @Test
  void done_moves_the_job_to_history_with_its_result() throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, Outcome.done(Map.of("answer", 42))));
    assertEquals("done", DB.state(job.id()));
    assertTrue(
        DB.is(
            """
            SELECT result = '{"answer": 42}' AND attempt = 1 AND worker = 'tester' AND started_at <= finished_at
              AND last_error IS NULL FROM waybill.jobs_done WHERE id = ?
            """,
            job.id()));
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.jobs"));
  }

  @Test
  void retry_waits_and_keeps_the_attempt_and_the_error() throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, Outcome.retry(Duration.ofMinutes(5), "no luck")));
    assertEquals("scheduled", DB.state(job.id()));
    assertTrue(
        DB.is(
            """
            SELECT attempt = 1 AND last_error = 'no luck' AND token IS NULL AND worker IS NULL AND lease_until IS NULL
              AND started_at IS NULL AND run_at BETWEEN now() + interval '4 min 50 s' AND now() + interval '5 min'
              AND attempts -> 0 ->> 'outcome' = 'retry' AND attempts -> 0 ->> 'error' = 'no luck'
              AND attempts -> 0 ->> 'worker' = 'tester' AND attempts -> 0 -> 'startedAt' IS NOT NULL
              AND attempts -> 0 -> 'endedAt' IS NOT NULL
            FROM waybill.jobs
            """));
    jobs.due(job.id());
    assertEquals(2, jobs.claimOne("k").attempt());
  }

  @Test
  void snooze_waits_and_gives_the_attempt_back() throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, Outcome.snooze(Duration.ofHours(2))));
    assertEquals("scheduled", DB.state(job.id()));
    assertTrue(
        DB.is(
            """
            SELECT attempt = 0 AND token IS NULL AND run_at BETWEEN now() + interval '119 min' AND now() + interval '120 min'
              AND last_error IS NULL FROM waybill.jobs
            """));
    jobs.due(job.id());
    assertEquals(1, jobs.claimOne("k").attempt());
  }

  @Test
  void release_gives_the_attempt_back_and_keeps_the_place() throws SQLException {
    Claimed job = jobs.running("k");
    String runAt = DB.text("SELECT run_at FROM waybill.jobs");
    assertEquals(Settled.SETTLED, settle(job, new Outcome.Release()));
    assertEquals("ready", DB.text("SELECT state FROM waybill.jobs"));
    assertEquals(runAt, DB.text("SELECT run_at FROM waybill.jobs"));
    assertEquals(1, jobs.claimOne("k").attempt());
  }

  @Test
  void giving_back_an_attempt_that_the_claim_did_not_take_leaves_the_number() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, max_attempts) VALUES ('k', 2)");
    jobs.policies().refresh();
    for (Outcome outcome : List.of(new Outcome.Release(), Outcome.snooze(Duration.ZERO))) {
      DB.enqueue("k");
      DB.execute("UPDATE waybill.jobs SET attempt = 2");
      Claimed exhausted = jobs.claimOne("k");
      assertTrue(exhausted.exhausted());
      assertEquals(Settled.SETTLED, settle(exhausted, outcome));
      assertEquals(2, DB.number("SELECT attempt FROM waybill.jobs"));
      DB.execute("DELETE FROM waybill.jobs");
      DB.execute("DELETE FROM waybill.tally");
      DB.execute("DELETE FROM waybill.arrivals");
    }
  }

  @Test
  void dead_moves_the_job_to_the_dead_letters() throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, Outcome.dead("no such order 4711")));
    assertEquals("dead", DB.state(job.id()));
    assertTrue(
        DB.is(
            """
            SELECT last_error = 'no such order 4711' AND attempt = 1 AND fingerprint = waybill.fingerprint('No such order 12')
              AND attempts -> 0 ->> 'outcome' = 'dead' FROM waybill.jobs_dead
            """));
  }

  @Test
  void a_retry_of_the_last_attempt_is_a_dead_letter() throws SQLException {
    long id = DB.number("SELECT waybill.enqueue('k', max_attempts => 2)");
    assertEquals(Settled.SETTLED, settle(jobs.claimOne("k"), Outcome.retry("first")));
    jobs.due(id);
    Claimed last = jobs.claimOne("k");
    assertTrue(last.lastAttempt());
    assertEquals(Settled.SETTLED, settle(last, Outcome.retry("second")));
    assertEquals("dead", DB.state(id));
    assertEquals(
        "first, second",
        DB.text(
            """
            SELECT string_agg(a ->> 'error', ', ' ORDER BY a -> 'attempt') FROM waybill.jobs_dead, jsonb_array_elements(attempts) a
            """));
  }

  @Test
  void history_keeps_the_last_fifty_attempts() throws SQLException {
    long id = DB.enqueue("k");
    for (int i = 1; i <= 55; i++) {
      assertTrue(jobs.settle(jobs.claimOne("k"), new Outcome.Release()));
    }
    assertEquals(
        50, DB.number("SELECT jsonb_array_length(attempts) FROM waybill.jobs WHERE id = ?", id));
  }

  @Test
  void a_kind_that_keeps_nothing_leaves_a_count_only() throws SQLException {
    keepNothing();
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, Outcome.done("r")));
    assertEquals("gone", DB.state(job.id()));
    assertEquals(1, DB.number("SELECT sum(n) FROM waybill.tally WHERE what = 'purged'"));
    Claimed dead = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(dead, Outcome.dead("kept all the same")));
    assertEquals("dead", DB.state(dead.id()));
  }

  private void keepNothing() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, retention_ms) VALUES ('k', 0)");
    jobs.policies().refresh();
  }

  // -------------------------------------------------------------------------------------- the
  // fence

  @ParameterizedTest
  @MethodSource("everyOutcome")
  void a_holder_whose_lease_was_taken_over_writes_nothing(Outcome outcome) throws SQLException {
    Claimed first = jobs.running("k");
    jobs.claimedAgain(first);
    String before = everything();
    assertEquals(Settled.LOST, settle(first, outcome));
    assertEquals(before, everything());
  }

  @ParameterizedTest
  @MethodSource("everyOutcome")
  void an_attempt_is_settled_once(Outcome outcome) throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, outcome));
    String before = everything();
    for (Outcome second : everyOutcome()) {
      assertEquals(Settled.LOST, settle(job, second));
    }
    assertEquals(before, everything());
  }

  @ParameterizedTest
  @MethodSource("everyOutcome")
  void a_kind_that_keeps_nothing_is_fenced_too(Outcome outcome) throws SQLException {
    keepNothing();
    a_holder_whose_lease_was_taken_over_writes_nothing(outcome);
  }

  @ParameterizedTest
  @MethodSource("everyOutcome")
  void the_holder_of_a_cancelled_job_writes_nothing(Outcome outcome) throws SQLException {
    Claimed job = jobs.running("k");
    assertTrue(DB.is("SELECT waybill.cancel(?)", job.id()));
    assertEquals(Settled.CANCELLED, settle(job, outcome));
    assertEquals("cancelled", DB.state(job.id()));
  }

  @Test
  void a_stale_one_among_good_ones_does_not_stop_them() throws SQLException {
    DB.enqueue("k", 40);
    List<Claimed> all = jobs.claim("k", 40);
    for (int i = 0; i < 40; i += 4) {
      jobs.leaseOver(all.get(i).id());
    }
    new Reaper(DB.database()).reap();
    List<Outcome> outcomes = everyOutcome();
    var told = new ArrayList<CompletableFuture<Settled>>();
    for (int i = 0; i < 40; i++) {
      told.add(TestJobs.hand(settler, all.get(i), outcomes.get(i % outcomes.size())));
    }
    for (int i = 0; i < 40; i++) {
      assertEquals(i % 4 == 0 ? Settled.LOST : Settled.SETTLED, told.get(i).join(), "job " + i);
    }
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running'"));
  }

  /** They come as handlers end, not in the order of their ids, and of several claims. */
  @Test
  void each_result_goes_to_its_job() throws SQLException {
    DB.enqueue("k", 60);
    var all = new ArrayList<Claimed>();
    for (int i = 0; i < 3; i++) {
      all.addAll(jobs.claim("k", 20));
    }
    Collections.shuffle(all, new Random(17));
    settler.expect(60); // So that they go together.
    var told = new ArrayList<CompletableFuture<Settled>>();
    for (Claimed job : all) {
      Outcome outcome =
          job.id() % 3 == 0 ? Outcome.done() : Outcome.done(Map.of("by", "job " + job.id()));
      told.add(TestJobs.handExpected(settler, job, outcome));
    }
    told.forEach(t -> assertEquals(Settled.SETTLED, t.join()));
    assertEquals(
        60,
        DB.number(
            """
            SELECT count(*) FROM waybill.jobs_done
            WHERE result ->> 'by' IS NOT DISTINCT FROM CASE WHEN id % 3 > 0 THEN 'job ' || id END
            """));
  }

  /** The first attempt was only slow, and ends at the same time as the second. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void of_two_holders_in_one_batch_the_one_that_has_the_lease_settles(boolean lateFirst)
      throws SQLException {
    Claimed late = jobs.running("k");
    Claimed holder = jobs.claimedAgain(late);
    settler.expect(2);
    var told = new ArrayList<CompletableFuture<Settled>>();
    for (Claimed job : lateFirst ? List.of(late, holder) : List.of(holder, late)) {
      Outcome outcome = Outcome.done(Map.of("by", job.equals(late) ? "late" : "holder"));
      told.add(TestJobs.handExpected(settler, job, outcome));
    }
    assertEquals(Settled.SETTLED, told.remove(lateFirst ? 1 : 0).join());
    assertEquals(Settled.LOST, told.getFirst().join());
    assertEquals(
        "holder", DB.text("SELECT string_agg(result ->> 'by', ',') FROM waybill.jobs_done"));
  }

  /** As when a job was given on, and nobody knows whether that was written. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void of_two_tokens_of_one_job_the_right_one_settles(boolean lateFirst) throws SQLException {
    Claimed late = jobs.running("k");
    Claimed holder = jobs.claimedAgain(late);
    List<Settler.Ended> both =
        Stream.of(lateFirst ? late : holder, lateFirst ? holder : late)
            .map(job -> new Settler.Ended(job, new Outcome.Release()))
            .toList();
    assertEquals(
        List.of(both.get(lateFirst ? 1 : 0)),
        DB.database().transaction(c -> settler.settleIn(c, both)));
    assertEquals("ready", DB.state(holder.id()));
  }

  /** The batch is tried again, and what it did is found in the history. */
  @Test
  void after_an_answer_that_was_lost_only_the_holder_that_had_the_lease_has_settled()
      throws SQLException {
    Claimed late = jobs.running("k");
    Claimed holder = jobs.claimedAgain(late);
    var told = new ArrayList<String>();
    var writer =
        new Writer(
            DB.database(),
            new Statements(jobs.policies()),
            (s, how) -> told.add(s.job().attempt() + " " + how));
    List<Settlement> batch =
        Stream.of(late, holder)
            .map(job ->
                new Settlement(
                    job,
                    Outcome.done(),
                    null,
                    TestJobs.holder(job.leaseEndNanos(), false, new CompletableFuture<>())))
            .toList();
    writer.write(batch);
    assertEquals(List.of("1 LOST", "2 SETTLED"), told);
    told.clear();
    assertEquals(List.of(), writer.writeAgain(batch));
    assertEquals(List.of("1 LOST", "2 SETTLED"), told);
  }

  /** One collects at a time; health asks whether all turn. */
  @Test
  void all_settlers_turn_while_nothing_comes() throws InterruptedException {
    for (int i = 0; i < 20; i++) {
      Thread.sleep(100);
      assertTrue(settler.turnsWithin(Duration.ofSeconds(1)), "look " + i);
    }
  }

  /** A statement costs as much as several jobs; a machine that stands still may part them. */
  @Test
  void the_jobs_of_a_claim_that_end_together_are_settled_together() throws SQLException {
    var transactions = new ArrayList<Long>();
    for (int round = 0; round < 20 && !transactions.contains(1L); round++) {
      DB.enqueue("k", 20);
      List<Claimed> all = jobs.claim("k", 20);
      settler.expect(all.size());
      var told = new ArrayList<CompletableFuture<Settled>>();
      for (Claimed job : all) {
        LockSupport.parkNanos(50_000);
        told.add(TestJobs.handExpected(settler, job, Outcome.done()));
      }
      told.forEach(t -> assertEquals(Settled.SETTLED, t.join()));
      transactions.add(transactionsFrom(all.getFirst()));
    }
    assertTrue(transactions.contains(1L), "transactions: " + transactions);
  }

  private static long transactionsFrom(Claimed first) throws SQLException {
    return DB.number(
        "SELECT count(DISTINCT xmin::text) FROM waybill.jobs_done WHERE id >= ?", first.id());
  }

  /** A slow machine has more time for them; one that stands still may part a group. */
  @Test
  void what_nobody_waits_for_is_settled_in_batches_that_lie_apart() throws SQLException {
    DB.enqueue("k", 400);
    List<Claimed> all = jobs.claim("k", 400);
    settler.expect(all.size());
    var told = new ArrayList<CompletableFuture<Settled>>();
    long beganNanos = System.nanoTime();
    for (int i = 0; i < all.size(); i += 10) {
      told.addAll(handThoseThatMayWait(all.subList(i, i + 10)));
      LockSupport.parkNanos(10_000_000);
    }
    told.forEach(t -> assertEquals(Settled.SETTLED, t.join()));
    long most = 2 + (System.nanoTime() - beganNanos) / 20_000_000;
    long transactions = transactionsFrom(all.getFirst());
    assertTrue(transactions <= most, transactions + " transactions, at most " + most);
  }

  /** Of 31 times, since the machine may stand still now and then. */
  @Test
  void what_somebody_waits_for_is_settled_at_once_with_what_would_have_waited()
      throws SQLException {
    DB.enqueue("k", 31 * 6);
    List<Claimed> all = jobs.claim("k", 31 * 6);
    settler.expect(all.size());
    var millis = new ArrayList<Long>();
    for (int i = 0; i < all.size(); i += 6) {
      var wait = handThoseThatMayWait(all.subList(i, i + 5));
      long handedNanos = System.nanoTime();
      var hurries = TestJobs.handExpected(settler, all.get(i + 5), Outcome.done());
      assertEquals(Settled.SETTLED, hurries.join());
      millis.add((System.nanoTime() - handedNanos) / 1_000_000);
      wait.forEach(t -> assertEquals(Settled.SETTLED, t.join()));
    }
    assertTrue(median(millis) < 25, "ms: " + millis);
    long transactions = transactionsFrom(all.getFirst());
    assertTrue(transactions < 45, transactions + " transactions for 31 times two");
  }

  @Test
  void who_comes_alone_does_not_wait_for_others() throws SQLException {
    DB.enqueue("k", 31);
    List<Claimed> all = jobs.claim("k", 31);
    settler.expect(all.size());
    var millis = new ArrayList<Long>();
    for (Claimed job : all) {
      long handedNanos = System.nanoTime();
      var told = TestJobs.handExpected(settler, job, Outcome.done(), true);
      assertEquals(Settled.SETTLED, told.join());
      millis.add((System.nanoTime() - handedNanos) / 1_000_000);
    }
    assertTrue(median(millis) < 25, "ms: " + millis);
  }

  private List<CompletableFuture<Settled>> handThoseThatMayWait(List<Claimed> some) {
    return some.stream()
        .map(job -> TestJobs.handExpected(settler, job, Outcome.done(), true))
        .toList();
  }

  private static long median(List<Long> numbers) {
    return numbers.stream().sorted().skip(numbers.size() / 2).findFirst().orElseThrow();
  }

  /**
   * From the tables: in the view a job whose time comes meanwhile turns from scheduled to ready.
   */
  private static String everything() throws SQLException {
    return DB.text(
        """
        SELECT coalesce(string_agg(line, E'\\n' ORDER BY line), '') FROM (
          SELECT 'live ' || j::text FROM waybill.jobs j UNION ALL SELECT 'done ' || j::text FROM waybill.jobs_done j
          UNION ALL SELECT 'dead ' || j::text FROM waybill.jobs_dead j) every(line)
        """);
  }

  // ------------------------------------------------------------------------------------ the
  // backoff

  @Test
  void backoff_grows_to_its_cap_without_jitter() throws SQLException {
    backoff(2_000, 3, 30_000, false);
    assertEquals(List.of("2", "6", "18", "30", "30"), waits(5));
  }

  @Test
  void a_backoff_beyond_all_numbers_is_its_cap() throws SQLException {
    backoff(86_400_000, 100, 60_000, false);
    DB.enqueue("k");
    DB.execute("UPDATE waybill.jobs SET attempt = 900, max_attempts = 1000");
    assertEquals(Settled.SETTLED, settle(jobs.claimOne("k"), Outcome.retry("x")));
    assertEquals(60, DB.number(WAIT));
  }

  @Test
  void jitter_spreads_jobs_that_failed_together_over_the_whole_wait() throws SQLException {
    backoff(100_000, 1, 100_000, true);
    DB.enqueue("k", 200);
    List<CompletableFuture<Settled>> told =
        jobs.claim("k", 200).stream()
            .map(job -> TestJobs.hand(settler, job, Outcome.retry("x")))
            .toList();
    told.forEach(CompletableFuture::join);
    assertTrue(
        DB.is(
            """
            SELECT min(run_at) >= now() - interval '5 s' AND max(run_at) <= now() + interval '100 s'
              AND min(run_at) < now() + interval '20 s' AND max(run_at) > now() + interval '80 s'
              AND count(DISTINCT run_at) > 150 FROM waybill.jobs
            """));
  }

  @Test
  void what_the_handler_asked_for_outweighs_the_backoff() throws SQLException {
    backoff(1_000, 2, 1_000, true);
    assertEquals(
        Settled.SETTLED, settle(jobs.running("k"), Outcome.retry(Duration.ofHours(3), "busy")));
    assertTrue(DB.is("SELECT run_at > now() + interval '179 min' FROM waybill.jobs"));
  }

  @Test
  void a_wait_below_zero_is_none() throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, Outcome.retry(Duration.ofSeconds(-5), "x")));
    assertEquals(1, jobs.promote());
    assertEquals(job.id(), jobs.claimOne("k").id());
  }

  @Test
  void a_wait_beyond_all_numbers_is_bounded_and_does_not_harm_its_neighbours() throws SQLException {
    Duration endless = Duration.ofSeconds(Long.MAX_VALUE);
    for (Outcome outcome : List.of(Outcome.snooze(endless), Outcome.retry(endless, "x"))) {
      Claimed job = jobs.running("k");
      Claimed neighbour = jobs.running("k");
      var endlessly = TestJobs.hand(settler, job, outcome);
      assertEquals(Settled.SETTLED, settle(neighbour, Outcome.done()), "the neighbour");
      assertEquals(Settled.SETTLED, endlessly.join());
      assertTrue(
          DB.is(
              "SELECT run_at > now() + interval '9 years' FROM waybill.jobs WHERE id = ?",
              job.id()));
    }
  }

  private void backoff(long baseMillis, double factor, long capMillis, boolean jitter)
      throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.kinds (kind, backoff_base_ms, backoff_factor, backoff_cap_ms, backoff_jitter) VALUES ('k', ?, ?, ?, ?)
        """,
        baseMillis,
        factor,
        capMillis,
        jitter);
    jobs.policies().refresh();
  }

  /** From the end of the attempt, however long ago that is. */
  private static final String WAIT =
      "SELECT round(extract(epoch FROM run_at - (attempts -> -1 ->> 'endedAt')::timestamptz)) FROM waybill.jobs";

  /** How many seconds the job waits after each failure. */
  private List<String> waits(int failures) throws SQLException {
    long id = DB.enqueue("k");
    var waits = new ArrayList<String>();
    for (int i = 0; i < failures; i++) {
      assertEquals(Settled.SETTLED, settle(jobs.claimOne("k"), Outcome.retry("x")));
      waits.add(DB.text(WAIT));
      jobs.due(id);
    }
    return waits;
  }

  // ----------------------------------------------------------------------------- what handlers
  // return

  /** Its getter fails in a way that is no exception. */
  public static final class Broken {
    @SuppressWarnings("DoNotCallSuggester") // Jackson calls it.
    public int getValue() {
      throw new AssertionError("broken");
    }
  }

  static List<Object> resultsThatCannotBeKept() {
    var cycle = new HashMap<String, Object>();
    cycle.put("self", cycle);
    ObjectNode deep = new ObjectMapper().createObjectNode();
    ObjectNode at = deep;
    for (int i = 0; i < 5_000; i++) {
      at = at.putObject("d");
    }
    return List.of(
        "nul \u0000 inside",
        Map.of("key \u0000", 1),
        "x".repeat(262_145),
        "\u00e4".repeat(140_000),
        cycle,
        deep,
        new Object(),
        new BigDecimal("1e200000"),
        new Broken());
  }

  @Test
  void a_result_that_cannot_be_kept_makes_a_dead_letter_that_does_not_quote_it()
      throws SQLException {
    for (Object result : resultsThatCannotBeKept()) {
      String what = result.getClass().getName();
      Claimed bad = jobs.running("k");
      Claimed good = jobs.running("k");
      var told = TestJobs.hand(settler, bad, Outcome.done(result));
      assertEquals(Settled.SETTLED, settle(good, Outcome.done()), what);
      assertEquals(Settled.SETTLED, told.join(), what);
      assertEquals("dead", DB.state(bad.id()), what);
      String error = DB.text("SELECT last_error FROM waybill.jobs_dead WHERE id = ?", bad.id());
      assertTrue(error.contains("result") && error.length() < 200, error);
      assertFalse(error.contains("inside"), error);
    }
  }

  @Test
  void a_result_with_a_lone_surrogate_does_not_stay_running() throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, Outcome.done("lone \ud800 surrogate")));
    assertTrue(List.of("done", "dead").contains(DB.state(job.id())), DB.state(job.id()));
  }

  @Test
  void a_result_that_only_talks_about_nul_is_kept() throws SQLException {
    Claimed job = jobs.running("k");
    assertEquals(Settled.SETTLED, settle(job, Outcome.done("write it \\u0000")));
    assertEquals("done", DB.state(job.id()));
    assertEquals("write it \\u0000", DB.text("SELECT result #>> '{}' FROM waybill.jobs_done"));
  }

  @Test
  void error_text_is_not_trusted() throws SQLException {
    for (String text :
        List.of("", " ", "nul \0", "\ud800", "\udc00\ud800", "\033[31m", "e".repeat(99_999))) {
      Claimed retried = jobs.running("k");
      assertEquals(Settled.SETTLED, settle(retried, Outcome.retry(text)));
      Claimed dead = jobs.running("k");
      assertEquals(Settled.SETTLED, settle(dead, Outcome.dead(text)));
    }
    assertEquals(
        0,
        DB.number(
            """
            SELECT count(*) FROM waybill.all_jobs
            WHERE last_error IS NULL OR length(last_error) NOT BETWEEN 1 AND 4000 OR last_error ~ '[\\x01-\\x08\\x1b]'
            """));
  }

  // ----------------------------------------------------------------------- the handler's
  // transaction

  @Test
  void settling_in_the_handlers_transaction_commits_with_it() throws SQLException {
    DB.execute("CREATE TABLE IF NOT EXISTS effect (job bigint)");
    for (Outcome outcome : everyOutcome()) {
      Claimed job = jobs.running("k");
      try (Connection connection = DB.connect()) {
        connection.setAutoCommit(false);
        TestDatabase.execute(connection, "INSERT INTO effect VALUES (?)", job.id());
        assertTrue(settler.settleIn(connection, job, outcome));
        assertEquals("running", DB.state(job.id()), "before the commit");
        connection.commit();
        connection.setAutoCommit(true);
      }
      assertFalse(DB.state(job.id()).equals("running"), "after the commit of " + outcome);
      boolean _ = DB.is("SELECT waybill.cancel(?)", job.id());
    }
    assertEquals(7, DB.number("SELECT count(*) FROM effect"));
  }

  @Test
  void settling_in_the_handlers_transaction_rolls_back_with_it() throws SQLException {
    Claimed job = jobs.running("k");
    String before = everything();
    for (Outcome outcome : everyOutcome()) {
      try (Connection connection = DB.connect()) {
        connection.setAutoCommit(false);
        assertTrue(settler.settleIn(connection, job, outcome));
        connection.rollback();
        connection.setAutoCommit(true);
      }
      assertEquals(before, everything());
    }
    assertEquals(Settled.SETTLED, settle(job, Outcome.done()));
  }

  @Test
  void a_handler_that_lost_its_lease_learns_it_inside_its_transaction() throws SQLException {
    Claimed job = jobs.running("k");
    jobs.leaseOver(job.id());
    new Reaper(DB.database()).reap();
    try (Connection connection = DB.connect()) {
      assertFalse(settler.settleIn(connection, job, Outcome.done()));
    }
  }
}
