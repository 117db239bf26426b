package dev.waybill.pull;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.claim.Claimer;
import dev.waybill.job.Claimed;
import dev.waybill.job.Delivery;
import dev.waybill.job.Outcome;
import dev.waybill.policy.Policies;
import dev.waybill.retain.Reaper;
import dev.waybill.settle.ResultWriter;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class PullTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final Duration LONG = Duration.ofSeconds(20);

  /** What was counted, one line each. */
  private static final class Heard implements PullEvents {
    final ConcurrentLinkedQueue<String> lines = new ConcurrentLinkedQueue<>();
    final AtomicInteger claims = new AtomicInteger();

    @Override
    public void claimed(String pool, List<Claimed> batch, long nanos) {
      claims.incrementAndGet();
    }

    @Override
    public void ran(Claimed job, Outcome outcome, long nanos) {
      lines.add("ran " + outcome.word());
    }

    @Override
    public void settled(Claimed job, Outcome outcome, Settled how) {
      lines.add("settled " + outcome.word());
    }

    @Override
    public void leaseLost(Claimed job) {
      lines.add("lost");
    }
  }

  private static final Holders.Scope EVERYTHING = new Holders.Scope(null, null);

  private final TestJobs jobs = new TestJobs(DB);
  private final Policies policies = jobs.policies();
  private final Settler settler =
      new Settler(DB.database(), policies, new ResultWriter(new ObjectMapper()));
  private final Heard heard = new Heard();
  private final Holders holders = new Holders(DB.database(), settler, heard);
  private Desk desk = desk(1_000);

  private Desk desk(int pollsMax) {
    return new Desk(
        DB.database(),
        policies,
        new Handing(DB.database(), policies, settler, heard),
        heard,
        () -> pollsMax);
  }

  @BeforeEach
  void open() throws SQLException {
    policies.refresh();
    desk.start(kind -> kind.equals("bean"));
  }

  @AfterEach
  void close() throws InterruptedException {
    desk.stop();
  }

  private static Ask ask(String kind, int max) {
    return new Ask(Set.of(kind), "me", max, null, null);
  }

  private Poll enter(Ask ask, Duration wait) {
    return assertInstanceOf(Desk.Entry.In.class, desk.enter(ask, wait)).poll();
  }

  private static CompletableFuture<List<Leased>> later(Poll poll) {
    var answer = new CompletableFuture<List<Leased>>();
    Thread.ofVirtual()
        .start(() -> {
          try {
            answer.complete(poll.await());
          } catch (InterruptedException | Poll.NotLooked failure) {
            answer.completeExceptionally(failure);
          }
        });
    return answer;
  }

  private List<Leased> lease(Ask ask) throws Exception {
    return enter(ask, LONG).await();
  }

  private static void waitsFor(int polls, Desk desk) {
    Awaitility.await().until(() -> desk.waitingPolls() == polls);
  }

  @Test
  void what_is_there_is_leased_at_once_and_each_job_has_a_token_of_its_own() throws Exception {
    DB.enqueue("k", 5);
    List<Leased> leased = lease(ask("k", 3));
    assertEquals(3, leased.size());
    var tokens = new HashSet<UUID>();
    for (Leased one : leased) {
      assertTrue(tokens.add(one.token()));
      assertEquals(1, one.job().attempt());
      assertEquals(
          "running me " + one.token(),
          DB.text(
              "SELECT concat_ws(' ', state, worker, token) FROM waybill.jobs WHERE id = ?",
              one.job().id()));
      assertEquals(
          DB.text("SELECT lease_until FROM waybill.jobs WHERE id = ?", one.job().id()),
          DB.text("SELECT ?::timestamptz", one.leaseUntil()));
    }
    DB.auditIsClean();
  }

  @Test
  void a_poll_that_does_not_wait_is_answered_after_one_look() throws Exception {
    assertEquals(List.of(), enter(ask("k", 1), Duration.ZERO).await());
    DB.enqueue("k");
    assertEquals(1, enter(ask("k", 1), Duration.ZERO).await().size());
  }

  @Test
  void who_waits_gets_what_comes() throws Exception {
    CompletableFuture<List<Leased>> answer = later(enter(ask("k", 10), LONG));
    waitsFor(1, desk);
    long id = DB.enqueue("k");
    assertEquals(id, answer.join().getFirst().job().id());
    waitsFor(0, desk);
  }

  @Test
  void waiting_ends_with_nothing_when_its_time_is_over() throws Exception {
    assertEquals(List.of(), enter(ask("k", 1), Duration.ofMillis(150)).await());
    assertEquals(0, desk.waitingPolls());
  }

  @Test
  void jobs_are_dealt_in_turns() throws Exception {
    var answers = new ArrayList<CompletableFuture<List<Leased>>>();
    for (int i = 0; i < 4; i++) {
      answers.add(later(enter(ask("k", 10), LONG)));
    }
    waitsFor(4, desk);
    DB.enqueue("k", 8);
    for (CompletableFuture<List<Leased>> answer : answers) {
      assertEquals(2, answer.join().size());
    }
  }

  @Test
  void one_poll_takes_jobs_of_several_kinds() throws Exception {
    DB.enqueue("a", 2);
    DB.enqueue("b", 2);
    List<Leased> leased = lease(new Ask(Set.of("a", "b"), "me", 4, null, null));
    assertEquals(4, leased.size());
  }

  @Test
  void a_thousand_who_wait_cost_as_many_queries_as_one() throws Exception {
    var answers = new ArrayList<CompletableFuture<List<Leased>>>();
    for (int i = 0; i < 1_000; i++) {
      answers.add(later(enter(ask("k", 1), LONG)));
    }
    waitsFor(1_000, desk);
    // Let in first, each with a look of its own at most.
    Awaitility.await().pollDelay(Duration.ofMillis(500)).until(() -> true);
    int before = desk.rounds();
    Awaitility.await().pollDelay(Duration.ofMillis(2_500)).until(() -> true);
    int looks = desk.rounds() - before;
    // Four or so, more on a machine that stands still meanwhile; each by itself a thousand and
    // more.
    assertTrue(looks < 100, looks + " looks in 2.5 s");
    Awaitility.await().until(() -> desk.rounds() > before);
    DB.enqueue("k", 1_000);
    answers.forEach(answer -> assertEquals(1, answer.join().size()));
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'ready'"));
  }

  @Test
  void what_was_claimed_for_somebody_who_hung_up_goes_back_with_its_attempt() throws Exception {
    long id = DB.enqueue("k");
    Poll poll = enter(ask("k", 1), LONG);
    assertEquals(1, poll.await().size());
    poll.hangUp(); // Before the answer was written.
    Awaitility.await().until(() -> DB.state(id).equals("ready"));
    assertEquals(0, DB.number("SELECT attempt FROM waybill.jobs"));
    assertEquals("release", DB.text("SELECT attempts->0->>'outcome' FROM waybill.jobs"));
    DB.auditIsClean();
  }

  @Test
  void who_hangs_up_while_waiting_is_given_nothing() throws Exception {
    Poll gone = enter(ask("k", 1), LONG);
    CompletableFuture<List<Leased>> answer = later(gone);
    waitsFor(1, desk);
    gone.hangUp();
    assertEquals(List.of(), answer.join());
    long id = DB.enqueue("k");
    assertEquals(id, lease(ask("k", 1)).getFirst().job().id());
    assertEquals(1, DB.number("SELECT attempt FROM waybill.jobs"));
  }

  @Test
  void no_job_is_lost_among_many_who_come_and_go() throws Exception {
    int n = 300;
    DB.enqueue("k", n);
    var done = new AtomicInteger();
    var threads = new ArrayList<Thread>();
    for (int i = 0; i < 20; i++) {
      int number = i;
      threads.add(
          Thread.ofVirtual()
              .start(() -> {
                try {
                  for (int round = 0; done.get() < n && round < 400; round++) {
                    Poll poll = enter(ask("k", 5), Duration.ofMillis(30));
                    if ((round + number) % 3 == 0) {
                      Thread.ofVirtual().start(poll::hangUp);
                    }
                    List<Leased> some = poll.await();
                    if ((round + number) % 3 == 0) {
                      poll.hangUp();
                    } else {
                      done.addAndGet(settle(some, Outcome.done()));
                    }
                  }
                } catch (Exception failure) {
                  throw new IllegalStateException(failure);
                }
              }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    Awaitility.await()
        .until(() -> DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running'") == 0);
    while (done.get() < n) {
      List<Leased> rest = enter(ask("k", 500), LONG).await();
      assertTrue(!rest.isEmpty(), "lost: " + (n - done.get()));
      done.addAndGet(settle(rest, Outcome.done()));
    }
    assertEquals(n, DB.number("SELECT count(*) FROM waybill.jobs_done WHERE attempt = 1"));
    DB.auditIsClean();
  }

  private int settle(List<Leased> leased, Outcome outcome) throws SQLException {
    if (leased.isEmpty()) {
      return 0;
    }
    List<Holders.Answer> answers =
        holders.settle(
            leased.stream()
                .map(
                    one -> new Holders.Said(new Holders.Held(one.job().id(), one.token()), outcome))
                .toList(),
            EVERYTHING);
    return (int) answers.stream().filter(a -> a instanceof Holders.Answer.Settled).count();
  }

  @Test
  void only_so_many_wait_at_once() throws Exception {
    desk.stop();
    desk = desk(2);
    desk.start(_ -> false);
    Poll one = enter(ask("k", 1), LONG);
    enter(ask("k", 1), LONG);
    assertEquals(new Desk.Entry.Full(2), desk.enter(ask("k", 1), LONG));
    one.hangUp();
    assertEquals(List.of(), one.await());
    enter(ask("k", 1), LONG);
  }

  @Test
  void a_drain_answers_who_waits_at_once_and_lets_nobody_in() throws Exception {
    CompletableFuture<List<Leased>> answer = later(enter(ask("k", 1), LONG));
    waitsFor(1, desk);
    desk.stop();
    assertEquals(List.of(), answer.join());
    assertEquals(new Desk.Entry.Closed(), desk.enter(ask("k", 1), LONG));
  }

  @Test
  void a_job_without_an_attempt_left_is_buried_and_not_handed_out() throws Exception {
    long id = DB.enqueue("k");
    assertEquals(1, settle(lease(ask("k", 1)), Outcome.retry(Duration.ZERO, "boom")));
    jobs.promote();
    DB.execute("UPDATE waybill.jobs SET max_attempts = 1");
    Awaitility.await()
        .until(() -> {
          assertEquals(List.of(), enter(ask("k", 1), Duration.ofMillis(300)).await());
          return DB.state(id).equals("dead");
        });
    DB.auditIsClean();
  }

  @Test
  void a_lease_is_as_long_as_was_asked_but_no_attempt_longer_than_its_limit() throws Exception {
    DB.enqueue("k", 3);
    Leased asked = lease(new Ask(Set.of("k"), "me", 1, Duration.ofMinutes(5), null)).getFirst();
    assertTrue(seconds(asked) > 290 && seconds(asked) <= 300, "" + seconds(asked));
    Leased own = lease(ask("k", 1)).getFirst();
    assertTrue(seconds(own) > 20 && seconds(own) <= 30, "" + seconds(own));
    DB.execute("INSERT INTO waybill.kinds (kind, timeout_ms) VALUES ('k', 60000)");
    policies.refresh();
    Leased limited = lease(new Ask(Set.of("k"), "me", 1, Duration.ofMinutes(5), null)).getFirst();
    assertTrue(seconds(limited) > 50 && seconds(limited) <= 60, "" + seconds(limited));
  }

  private static double seconds(Leased leased) throws SQLException {
    return Double.parseDouble(
        DB.text("SELECT extract(epoch FROM ?::timestamptz - now())", leased.leaseUntil()));
  }

  @Test
  void an_outcome_is_written_as_handlers_outcomes_are() throws Exception {
    DB.execute(
        "INSERT INTO waybill.kinds (kind, backoff_base_ms, backoff_jitter, max_attempts) VALUES ('k', 60000, false, 2)");
    policies.refresh();
    long id = DB.enqueue("k");
    assertEquals(1, settle(lease(ask("k", 1)), new Outcome.Retry(null, "boom")));
    assertEquals("scheduled", DB.state(id));
    assertTrue(DB.is("SELECT run_at > now() + interval '50 seconds' FROM waybill.jobs"));
    jobs.due(id);
    assertEquals(1, settle(lease(ask("k", 1)), Outcome.snooze(Duration.ofSeconds(9))));
    assertEquals("scheduled", DB.state(id));
    jobs.due(id);
    assertEquals(1, settle(lease(ask("k", 1)), new Outcome.Release()));
    assertEquals(1, DB.number("SELECT attempt FROM waybill.jobs"));
    assertEquals(1, settle(lease(ask("k", 1)), new Outcome.Retry(null, "boom")));
    assertEquals("dead", DB.state(id), "the last attempt");
    long other = DB.enqueue("k");
    assertEquals(1, settle(lease(ask("k", 1)), Outcome.done(Map.of("n", 1))));
    assertEquals("{\"n\": 1}", DB.text("SELECT result FROM waybill.jobs_done"));
    assertEquals("done", DB.state(other));
    assertEquals(
        List.of("retry", "snooze", "release", "retry", "done"),
        heard.lines.stream()
            .filter(line -> line.startsWith("settled"))
            .map(line -> line.substring(8))
            .toList());
    DB.auditIsClean();
  }

  @Test
  void a_token_of_somebody_else_changes_nothing() throws Exception {
    DB.enqueue("k", 2);
    Leased one = lease(ask("k", 1)).getFirst();
    Leased two = lease(ask("k", 1)).getFirst();
    assertNotEquals(one.token(), two.token());
    var swapped = new Holders.Held(one.job().id(), two.token());
    assertEquals(
        List.of(new Holders.Answer.Lost(), new Holders.Answer.Settled()),
        holders.settle(
            List.of(
                new Holders.Said(swapped, Outcome.done()),
                new Holders.Said(new Holders.Held(two.job().id(), two.token()), Outcome.done())),
            EVERYTHING));
    assertEquals(
        List.of(new Holders.Answer.Lost()), holders.extend(List.of(swapped), null, EVERYTHING));
    assertEquals("running", DB.state(one.job().id()));
  }

  @Test
  void a_vanished_holders_job_is_reaped_and_its_late_word_is_lost() throws Exception {
    long id = DB.enqueue("k");
    Leased late = lease(ask("k", 1)).getFirst();
    jobs.leaseOver(id);
    new Reaper(DB.database()).reap();
    Leased next = lease(ask("k", 1)).getFirst();
    assertEquals(2, next.job().attempt());
    assertEquals(0, settle(List.of(late), Outcome.done()));
    assertEquals(1, settle(List.of(next), Outcome.done()));
    DB.auditIsClean();
  }

  @Test
  void an_extended_lease_lasts_longer_until_the_attempts_time_is_over() throws Exception {
    DB.execute("INSERT INTO waybill.kinds (kind, timeout_ms) VALUES ('k', 60000)");
    policies.refresh();
    long id = DB.enqueue("k");
    Leased leased = lease(ask("k", 1)).getFirst();
    var held = List.of(new Holders.Held(id, leased.token()));
    var extended =
        assertInstanceOf(
            Holders.Answer.Extended.class,
            holders.extend(held, Duration.ofSeconds(45), EVERYTHING).getFirst());
    assertTrue(extended.leaseUntil().isAfter(leased.leaseUntil()));
    DB.execute("UPDATE waybill.jobs SET started_at = now() - interval '2 minutes'");
    assertEquals(List.of(new Holders.Answer.Lost()), holders.extend(held, null, EVERYTHING));
    assertEquals("scheduled", DB.state(id));
    assertEquals("timeout", DB.text("SELECT last_error FROM waybill.jobs"));
    DB.auditIsClean();
  }

  @Test
  void a_lock_on_one_row_keeps_the_others_from_nothing() throws Exception {
    DB.enqueue("k", 3);
    List<Leased> leased = lease(ask("k", 3));
    try (var other = DB.connect()) {
      other.setAutoCommit(false);
      TestDatabase.column(
          other, "SELECT id FROM waybill.jobs WHERE id = ? FOR UPDATE", leased.get(1).job().id());
      List<Holders.Answer> answers =
          holders.settle(
              leased.stream()
                  .map(one ->
                      new Holders.Said(
                          new Holders.Held(one.job().id(), one.token()), Outcome.done()))
                  .toList(),
              EVERYTHING);
      assertEquals(
          List.of(
              new Holders.Answer.Settled(),
              new Holders.Answer.Busy(),
              new Holders.Answer.Settled()),
          answers);
      other.rollback();
    }
    assertEquals(1, settle(List.of(leased.get(1)), Outcome.done()));
  }

  @Test
  void who_is_bound_to_a_tenant_leases_and_settles_only_its_jobs() throws Exception {
    DB.number("SELECT waybill.enqueue('k', tenant => 'theirs')");
    long mine = DB.number("SELECT waybill.enqueue('k', tenant => 'mine')");
    var bound = new Ask(Set.of("k"), "me", 10, null, "mine");
    List<Leased> leased = lease(bound);
    assertEquals(List.of(mine), leased.stream().map(one -> one.job().id()).toList());
    var said =
        List.of(
            new Holders.Said(new Holders.Held(mine, leased.getFirst().token()), Outcome.done()));
    assertEquals(
        List.of(new Holders.Answer.Lost()),
        holders.settle(said, new Holders.Scope("theirs", null)));
    assertEquals(
        List.of(new Holders.Answer.Settled()),
        holders.settle(said, new Holders.Scope("mine", null)));
  }

  /** The token alone would do, were it not for this: a credential is for no more than it says. */
  @Test
  void who_is_bound_to_kinds_extends_and_settles_only_theirs() throws Exception {
    DB.enqueue("k");
    Leased leased = lease(ask("k", 1)).getFirst();
    var held = List.of(new Holders.Held(leased.job().id(), leased.token()));
    var said = List.of(new Holders.Said(held.getFirst(), Outcome.done()));
    var other = new Holders.Scope(null, Set.of("other"));
    assertEquals(List.of(new Holders.Answer.Lost()), holders.extend(held, null, other));
    assertEquals(List.of(new Holders.Answer.Lost()), holders.settle(said, other));
    assertEquals("running", DB.state(leased.job().id()));
    assertEquals(
        List.of(new Holders.Answer.Settled()),
        holders.settle(said, new Holders.Scope(null, Set.of("k", "other"))));
  }

  /** Of any payload version: a tenant's jobs lie behind others of the same version. */
  @Test
  void who_is_bound_to_a_tenant_finds_its_jobs_among_many() throws Exception {
    DB.execute(
        "INSERT INTO waybill.jobs (kind, tenant, payload_version) SELECT 'k', 't' || n, n % 3 + 1 FROM generate_series(1, 500) n");
    assertEquals(List.of(), lease(new Ask(Set.of("k"), "me", 10, null, "mine")));
    for (int version = 1; version <= 3; version++) {
      long mine =
          DB.number("SELECT waybill.enqueue('k', tenant => 'mine', payload_version => ?)", version);
      List<Leased> leased = lease(new Ask(Set.of("k"), "me", 10, null, "mine"));
      assertEquals(List.of(mine), leased.stream().map(one -> one.job().id()).toList());
    }
  }

  private void delivery(String kind, @Nullable String how) throws SQLException {
    DB.execute(
        "INSERT INTO waybill.kinds (kind, delivery) VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET delivery = excluded.delivery",
        kind,
        how);
    policies.refresh();
  }

  @Test
  void the_policy_of_the_moment_says_who_works_a_kind() throws Exception {
    assertTrue(!desk.lends("bean"));
    assertTrue(desk.lends("anything"));
    CompletableFuture<List<Leased>> answer = later(enter(ask("bean", 1), LONG));
    waitsFor(1, desk);
    DB.enqueue("bean", 2);
    assertEquals(1, pool("bean").claim(1).size(), "a pool has it while the delivery is bean");
    delivery("bean", "pull");
    assertEquals(1, answer.join().size());
    DB.enqueue("bean");
    assertEquals(List.of(), pool("bean").claim(1), "a pool leaves it alone now");
    delivery("bean", null);
    assertEquals(1, pool("bean").claim(1).size());
  }

  private Claimer pool(String kind) throws SQLException {
    var claimer =
        new Claimer(
            DB.database(),
            policies,
            "pool",
            Map.of(kind, 1),
            policy -> policy.delivery() == Delivery.BEAN,
            null);
    claimer.sweep();
    return claimer;
  }

  @Test
  void a_paused_kind_is_not_lent() throws Exception {
    DB.execute("INSERT INTO waybill.kinds (kind, paused) VALUES ('k', true)");
    policies.refresh();
    DB.enqueue("k");
    assertEquals(List.of(), enter(ask("k", 1), Duration.ofMillis(200)).await());
  }
}
