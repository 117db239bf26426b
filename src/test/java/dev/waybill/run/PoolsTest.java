package dev.waybill.run;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.waybill.Stalls;
import dev.waybill.TestDatabase;
import dev.waybill.db.Listener;
import dev.waybill.job.Outcome;
import dev.waybill.retain.Reaper;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PoolsTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  /** Handlers that wait for the test, wait here. */
  private final CountDownLatch gate = new CountDownLatch(1);

  private final ConcurrentLinkedQueue<String> said = new ConcurrentLinkedQueue<>();

  @AfterEach
  void audit() throws SQLException {
    gate.countDown();
    DB.auditIsClean();
  }

  private static void waitForState(long id, String state) {
    await().until(() -> DB.state(id).equals(state));
  }

  private static long running() throws SQLException {
    return DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'running'");
  }

  /** Waits for the gate, or says that it was interrupted and fails for it. */
  private Outcome waiting(JsonNode payload, JobContext context) throws InterruptedException {
    said.add("at work");
    try {
      gate.await();
    } catch (InterruptedException stop) {
      said.add("interrupted, cancelled=" + context.cancelled());
      throw stop;
    }
    return Outcome.done();
  }

  // --------------------------------------------------------------------------------------------
  // slots

  @Test
  void a_capped_kind_is_worked_off_one_after_the_other_and_the_rest_beside_it() throws Exception {
    DB.execute("INSERT INTO waybill.kinds (kind, tenant_cap) VALUES ('k', 1)");
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, tenant) SELECT 'k', t FROM unnest(ARRAY['a', 'b']) t, generate_series(1, 100)
        """);
    DB.enqueue("free", 20);
    var inside = new AtomicInteger();
    var most = new AtomicInteger();
    try (var _ =
        new TestHouse(DB, "p=*:50")
            .with(
                "k",
                (_, context) -> {
                  boolean a = context.tenant().equals("a");
                  most.accumulateAndGet(a ? inside.incrementAndGet() : 0, Math::max);
                  TimeUnit.MILLISECONDS.sleep(1);
                  if (a) {
                    inside.decrementAndGet();
                  }
                  return Outcome.done();
                })
            .with("free", (_, _) -> Outcome.done())
            .start()) {
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs") == 0);
    }
    assertEquals(1, most.get(), "of one tenant at once");
  }

  @Test
  void a_pool_never_holds_more_jobs_than_it_has_slots() throws Exception {
    DB.enqueue("k", 300);
    var inside = new AtomicInteger();
    var most = new AtomicInteger();
    try (var house =
        new TestHouse(DB, "p=k:7")
            .with(
                "k",
                (_, _) -> {
                  most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                  assertTrue(running() <= 7, "running in the database");
                  inside.decrementAndGet();
                  return Outcome.done();
                })
            .start()) {
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs") == 0);
      await().until(() -> house.running().slotsInUse().values().stream().allMatch(n -> n == 0));
    }
    assertEquals(300, DB.number("SELECT count(*) FROM waybill.jobs_done WHERE attempt = 1"));
    assertTrue(most.get() <= 7, "at work at once: " + most);
  }

  @ParameterizedTest
  @CsvSource({
    "1, 0, false", // The only slot.
    "8, 0, true", // Four of eight.
    "7, 0, false", // Four of seven.
    "64, 8, false", // A place under a cap.
  })
  void an_outcome_may_wait_when_nobody_waits_for_its_slot_or_place(
      int slots, int kindCap, boolean may) throws Exception {
    DB.execute(
        "INSERT INTO waybill.kinds (kind, kind_cap) VALUES ('k', nullif(%d, 0))"
            .formatted(kindCap));
    int jobs = Math.min(4, slots);
    var atWork = new CountDownLatch(jobs);
    var answers = new ConcurrentLinkedQueue<Boolean>();
    try (var _ =
        new TestHouse(DB, "p=*:" + slots)
            .with(
                "k",
                (_, context) -> {
                  atWork.countDown();
                  gate.await();
                  answers.add(((Running) context).mayWait());
                  return Outcome.done();
                })
            .start()) {
      DB.enqueue("k", jobs);
      atWork.await();
      gate.countDown();
      await().until(() -> answers.size() == jobs);
    }
    assertEquals(may, answers.peek(), "the first");
  }

  /** It knows of one that a cap holds back: perhaps this is what holds it back. */
  @Test
  void while_a_claim_left_something_no_outcome_waits() throws Exception {
    DB.execute("INSERT INTO waybill.kinds (kind, kind_cap) VALUES ('capped', 1)");
    DB.enqueue("capped", 2);
    var answer = new CompletableFuture<Boolean>();
    try (var _ =
        new TestHouse(DB, "p=*:64")
            .with("capped", this::waiting)
            .with(
                "free",
                (_, context) -> {
                  answer.complete(((Running) context).mayWait());
                  return Outcome.done();
                })
            .start()) {
      await().until(() -> said.contains("at work"));
      DB.enqueue("free");
      assertFalse(answer.get());
      gate.countDown();
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs") == 0);
    }
  }

  @Test
  void while_it_drains_no_outcome_waits() throws Exception {
    var answer = new CompletableFuture<Boolean>();
    var house =
        new TestHouse(DB, "p=*:64")
            .with(
                "k",
                (payload, context) -> {
                  Outcome done = waiting(payload, context);
                  answer.complete(((Running) context).mayWait());
                  return done;
                })
            .start();
    DB.enqueue("k");
    await().until(() -> said.contains("at work"));
    var closing = Thread.ofVirtual().start(house::close);
    await()
        .until(() ->
            Thread.getAllStackTraces().keySet().stream()
                .noneMatch(t -> t.getName().equals("pool-p")));
    gate.countDown();
    assertFalse(answer.get());
    closing.join();
  }

  /** However slow the machine is: so many are the most in the time that it took. */
  @Test
  void while_jobs_come_in_groups_settles_lie_apart() throws Exception {
    try (var _ = new TestHouse(DB, "p=*:1000").with("k", (_, _) -> Outcome.done()).start()) {
      for (int i = 0; i < 40; i++) {
        DB.enqueue("k", 10);
        TimeUnit.MILLISECONDS.sleep(10);
      }
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs") == 0);
    }
    assertTrue(
        DB.is(
            """
            SELECT count(DISTINCT xmin::text) <= 2 + extract(epoch FROM max(finished_at) - min(created_at)) * 1000 / 20
            FROM waybill.jobs_done
            """));
  }

  @Test
  void a_full_pool_claims_nothing_and_does_not_stand_in_the_way_of_another() throws Exception {
    DB.enqueue("slow", 10);
    try (var _ =
        new TestHouse(DB, "a=slow:2;b=quick:2")
            .with("slow", this::waiting)
            .with("quick", (_, _) -> Outcome.done())
            .start()) {
      await().until(() -> said.size() == 2);
      for (long id : DB.enqueue("quick", 20)) {
        waitForState(id, "done");
      }
      assertEquals(2, running(), "the rest waits in the database, for whoever has a slot");
      gate.countDown();
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs") == 0);
    }
  }

  @Test
  void every_kind_without_a_pool_of_its_own_runs_in_the_rest() throws Exception {
    try (var _ =
        new TestHouse(DB, "one=a:1;rest=*:4")
            .with("a", (_, _) -> Outcome.done())
            .with("b", (_, _) -> Outcome.done())
            .start()) {
      waitForState(DB.enqueue("a"), "done");
      waitForState(DB.enqueue("b"), "done");
    }
  }

  // -----------------------------------------------------------------------------------------
  // outcomes

  /** Or a wait of a random part of it may be over before anybody has looked. */
  private static void retriesLater(String kind) throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind) VALUES (?) ON CONFLICT DO NOTHING", kind);
    DB.execute(
        "UPDATE waybill.kinds SET backoff_base_ms = 3600000, backoff_jitter = false WHERE kind = ?",
        kind);
  }

  @Test
  void what_a_handler_throws_is_a_retry() throws Exception {
    retriesLater("exception");
    retriesLater("error");
    retriesLater("nothing");
    try (var house =
        new TestHouse(DB, "p=*:4")
            .with(
                "exception",
                (_, _) -> {
                  throw new IllegalStateException("out of luck");
                })
            .with(
                "error",
                (_, _) -> {
                  throw new StackOverflowError("too deep");
                })
            .with("nothing", (_, _) -> nothing())
            .start()) {
      for (String kind : List.of("exception", "error", "nothing")) {
        long id = DB.enqueue(kind);
        waitForState(id, "scheduled");
        assertTrue(
            DB.is("SELECT attempt = 1 AND last_error <> '' FROM waybill.jobs WHERE id = ?", id));
        await().until(() -> house.heard("settled " + id + " retry SETTLED"));
      }
      await().until(() -> house.running().slotsInUse().values().stream().allMatch(n -> n == 0));
      assertEquals(
          "java.lang.IllegalStateException: out of luck",
          DB.text("SELECT last_error FROM waybill.jobs WHERE kind = 'exception'"));
    }
  }

  @SuppressWarnings("NullAway") // What a handler compiled without checks may return.
  private static Outcome nothing() {
    return null;
  }

  /** A payload with a shape. */
  record Order(long number, String to) {}

  private record TakesOrders(ConcurrentLinkedQueue<String> said) implements JobHandler<Order> {
    @Override
    public String kind() {
      return "order";
    }

    @Override
    public int payloadVersion() {
      return 3;
    }

    @Override
    public Outcome run(Order order, JobContext context) {
      said.add(order.number() + " to " + order.to());
      return Outcome.done();
    }
  }

  private record Lifts(int fromVersion, String from, String into) implements Upcaster {
    @Override
    public String kind() {
      return "order";
    }

    @Override
    public JsonNode lift(JsonNode payload) {
      JsonNode value = payload.get(from);
      return value == null ? payload : ((ObjectNode) payload).set(into, value);
    }
  }

  private TestHouse orders() {
    return new TestHouse(DB, "p=*:4").with(new TakesOrders(said));
  }

  @Test
  void upcasters_lift_older_payloads_step_by_step() throws Exception {
    try (var _ =
        orders().with(new Lifts(1, "no", "nr")).with(new Lifts(2, "nr", "number")).start()) {
      for (String arguments :
          List.of(
              "payload => '{\"no\": 1, \"to\": \"a\"}'",
              "payload => '{\"nr\": 2, \"to\": \"b\"}', payload_version => 2",
              "payload => '{\"number\": 3, \"to\": \"c\", \"new\": 1}', payload_version => 3")) {
        waitForState(DB.number("SELECT waybill.enqueue('order', " + arguments + ")"), "done");
      }
      assertEquals(List.of("1 to a", "2 to b", "3 to c"), List.copyOf(said));
      long newer = DB.number("SELECT waybill.enqueue('order', payload_version => 4)");
      waitForState(
          DB.number(
              "SELECT waybill.enqueue('order', payload => '{\"number\": 4}', payload_version => 3)"),
          "done");
      assertEquals("ready", DB.state(newer));
    }
  }

  @Test
  void a_payload_that_cannot_be_read_is_a_dead_letter_that_does_not_quote_it() throws Exception {
    try (var _ = orders().start()) {
      for (String arguments :
          List.of(
              "payload => '{\"number\": \"secret\"}', payload_version => 3",
              "payload => '\"secret\"', payload_version => 3",
              "payload => '[\"secret\"]', payload_version => 3",
              "payload => '{\"number\": {\"secret\": 1}}', payload_version => 3",
              "payload => '{\"number\": 1e300, \"to\": \"secret\"}', payload_version => 3",
              "payload => 'null', payload_version => 3",
              "payload => '{\"secret\": 1}', payload_version => 2")) {
        long id = DB.number("SELECT waybill.enqueue('order', " + arguments + ")");
        waitForState(id, "dead");
        String error = DB.text("SELECT last_error FROM waybill.jobs_dead WHERE id = ?", id);
        assertTrue(error.contains("payload"), error);
        assertFalse(error.contains("secret"), error);
      }
      assertEquals(List.of(), List.copyOf(said));
    }
  }

  @Test
  void an_exhausted_job_is_buried_and_not_run() throws Exception {
    long id = DB.enqueue("k");
    DB.execute("UPDATE waybill.jobs SET attempt = 3");
    DB.execute("INSERT INTO waybill.kinds (kind, max_attempts) VALUES ('k', 2)");
    try (var _ = new TestHouse(DB, "p=*:4").with("k", this::waiting).start()) {
      waitForState(id, "dead");
      assertEquals(List.of(), List.copyOf(said));
    }
  }

  @Test
  void a_handler_settles_in_its_own_transaction() throws Exception {
    DB.execute("CREATE TABLE IF NOT EXISTS effect (job bigint)");
    try (var house =
        new TestHouse(DB, "p=*:4")
            .with(
                "k",
                (_, context) -> {
                  try (Connection connection = DB.connect()) {
                    connection.setAutoCommit(false);
                    TestDatabase.execute(connection, "INSERT INTO effect VALUES (?)", context.id());
                    context.settleIn(connection, Outcome.done("kept"));
                    connection.commit();
                    connection.setAutoCommit(true);
                  }
                  return new Outcome.Settled();
                })
            .start()) {
      long id = DB.enqueue("k");
      waitForState(id, "done");
      assertEquals(1, DB.number("SELECT count(*) FROM effect WHERE job = ?", id));
      await().until(() -> house.heard("settled " + id + " done SETTLED"));
    }
  }

  @Test
  void an_idle_pool_is_woken_by_whoever_enqueues() throws Exception {
    try (var house = new TestHouse(DB, "p=*:4").with("k", (_, _) -> Outcome.done()).start()) {
      var listener =
          new Listener(DB.url(), "postgres", "postgres", "waybill", house.running()::wake);
      house.running().wokenWhile(listener::connected);
      listener.start();
      try {
        pickedUpAtOnce();
      } finally {
        listener.stop();
      }
    }
  }

  /** It has disarmed the kind, and its notification leaves with its commit. */
  @Test
  void a_producer_that_takes_its_time_keeps_nobody_else_from_waking_the_pool() throws Exception {
    try (var house = new TestHouse(DB, "p=*:4").with("k", (_, _) -> Outcome.done()).start();
        Connection slow = DB.connect()) {
      var listener =
          new Listener(DB.url(), "postgres", "postgres", "waybill", house.running()::wake);
      house.running().wokenWhile(listener::connected);
      listener.start();
      try {
        awaitArmed();
        slow.setAutoCommit(false);
        TestDatabase.execute(slow, "SET LOCAL idle_in_transaction_session_timeout = 0");
        TestDatabase.execute(slow, "SELECT waybill.enqueue('k')");
        pickedUpAtOnce();
        slow.commit();
        slow.setAutoCommit(true);
        await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs") == 0);
      } finally {
        listener.stop();
      }
    }
  }

  /**
   * Five are picked up within 150 ms before four are not. The pool polls once in 1.3 s by then, and
   * the next poll is a second away: by polling alone hardly one would be, nor one in eight if the
   * polls came at any time, and five of eight so once in five hundred runs. And a machine that
   * stands still three times does no harm.
   */
  private static void pickedUpAtOnce() throws SQLException {
    int quick = 0;
    var slow = new ConcurrentLinkedQueue<String>();
    while (quick < 5) {
      awaitArmed();
      long id = DB.enqueue("k");
      waitForState(id, "done");
      String millis =
          DB.text(
              "SELECT round(extract(epoch FROM started_at - created_at) * 1000) FROM waybill.jobs_done WHERE id = ?",
              id);
      if (Long.parseLong(millis) < 150) {
        quick++;
      } else {
        slow.add(millis);
      }
      assertTrue(slow.size() < 4, () -> "not woken: picked up after ms " + slow);
    }
  }

  /** As over a LISTEN socket that is dead and looks alive. */
  @Test
  void what_nobody_told_of_is_begun_within_two_seconds_by_an_idle_pool_and_by_a_busy_one()
      throws Exception {
    try (var stalls = new Stalls(DB);
        var house = new TestHouse(DB, "p=*:4").with("k", (_, _) -> Outcome.done()).start()) {
      house.running().wokenWhile(() -> true);
      awaitArmed();
      whatNobodyToldOf(stalls);
      var stop = new AtomicBoolean();
      var load =
          CompletableFuture.runAsync(() -> {
            try {
              while (!stop.get()) {
                if (DB.number("SELECT count(*) FROM waybill.jobs") < 200) {
                  DB.enqueue("k", 50);
                }
              }
            } catch (SQLException broken) {
              throw new IllegalStateException(broken);
            }
          });
      whatNobodyToldOf(stalls);
      stop.set(true);
      load.join();
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs") == 0);
    }
  }

  private static void whatNobodyToldOf(Stalls stalls) throws Exception {
    for (int i = 0; i < 3; i++) {
      long now = System.nanoTime();
      begunInTime(
          DB.number("SELECT waybill.enqueue('k', tenant => 'other')"),
          DB.text("SELECT clock_timestamp()"),
          stalls,
          now);
      now = System.nanoTime();
      begunInTime(
          DB.number("SELECT waybill.enqueue('k', run_at => now() - interval '1 day')"),
          DB.text("SELECT clock_timestamp()"),
          stalls,
          now);
      try (Connection late = DB.connect()) {
        late.setAutoCommit(false);
        String id =
            String.valueOf(
                TestDatabase.column(late, "SELECT waybill.enqueue('k', tenant => 'new')")
                    .getFirst());
        TimeUnit.MILLISECONDS.sleep(150L * i);
        now = System.nanoTime();
        String committed = DB.text("SELECT clock_timestamp()");
        late.commit();
        late.setAutoCommit(true);
        begunInTime(Long.parseLong(id), committed, stalls, now);
      }
    }
  }

  /** Beyond what this machine stood still: the next time it would look by itself is after ten. */
  private static void begunInTime(long id, String from, Stalls stalls, long fromNanos)
      throws SQLException {
    waitForState(id, "done");
    long stood = stalls.millisWithin(fromNanos, System.nanoTime());
    double took =
        Double.parseDouble(
            DB.text(
                "SELECT extract(epoch FROM started_at - ?::timestamptz) * 1000 FROM waybill.jobs_done WHERE id = ?",
                from,
                id));
    assertTrue(took - stood < 2_000, () -> "begun after ms " + took + ", of a stall " + stood);
  }

  private static void awaitArmed() {
    // So long that the pool's pauses have grown to more than a second.
    await()
        .during(Duration.ofMillis(1_400))
        .until(() ->
            DB.number("SELECT count(*) FROM waybill.waiting WHERE kind = 'k' AND armed") == 1);
  }

  /** Each look is a transaction that counts what runs. */
  @Test
  void where_a_cap_is_reached_and_sweeps_are_dear_it_looks_less_and_less_often() throws Exception {
    DB.execute("INSERT INTO waybill.kinds (kind, kind_cap) VALUES ('k', 1)");
    DB.execute(
        "INSERT INTO waybill.jobs (kind, tenant) SELECT 'k', t FROM generate_series(1, 4000) t");
    var begun = new AtomicInteger();
    try (var house =
        new TestHouse(DB, "p=*:50")
            .with(
                "k",
                (_, _) -> {
                  begun.incrementAndGet();
                  TimeUnit.MILLISECONDS.sleep(200);
                  return Outcome.done();
                })
            .start()) {
      await().until(() -> begun.get() > 5);
      int before = begun.get();
      house.heard.looks.set(0);
      await().until(() -> begun.get() >= before + 10);
      int looks = house.heard.looks.get();
      int jobs = begun.get() - before; // More than ten, when this thread was late.
      assertTrue(looks <= jobs * 18, looks + " looks for jobs: " + jobs);
      DB.execute("UPDATE waybill.kinds SET paused = true, kind_cap = NULL");
      DB.execute("DELETE FROM waybill.jobs WHERE state = 'ready'");
      DB.execute("DELETE FROM waybill.tally");
      DB.execute("DELETE FROM waybill.arrivals");
    }
    DB.execute("DELETE FROM waybill.jobs_done");
    DB.execute("DELETE FROM waybill.tally");
    DB.execute("DELETE FROM waybill.arrivals");
  }

  @Test
  void while_sweeps_are_dear_claims_go_on_and_who_comes_late_is_found() throws Exception {
    // A sweep goes over 4,000 lanes.
    DB.execute(
        """
        INSERT INTO waybill.jobs (kind, priority) SELECT 'flood', p FROM generate_series(1, 4000) p, generate_series(1, 10)
        """);
    try (var _ =
        new TestHouse(DB, "p=*:50")
            .with(
                "flood",
                (_, _) -> {
                  TimeUnit.MILLISECONDS.sleep(20); // So that it lasts, however slow this thread is.
                  return Outcome.done();
                })
            .with("late", (_, _) -> Outcome.done())
            .start()) {
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs_done") > 1_000);
      for (int i = 1; i <= 3; i++) {
        // Ready for an hour, so it lies before all that was claimed: in a lane of its own, and in
        // one that was emptied.
        DB.execute(
            """
            INSERT INTO waybill.jobs (kind, priority, run_at) SELECT k, 1, now() - interval '1 hour' FROM unnest(ARRAY['late', 'flood']) k
            """);
        int late = i;
        await()
            .until(() ->
                DB.number(
                        "SELECT count(*) FROM waybill.jobs_done WHERE run_at < now() - interval '50 minutes'")
                    == 2L * late);
      }
      assertTrue(DB.number("SELECT count(*) FROM waybill.jobs") > 0, "the flood is still there");
    }
    assertEquals(0, running());
  }

  @Test
  void promoted_jobs_are_picked_up() throws Exception {
    try (var _ = new TestHouse(DB, "p=*:4").with("k", (_, _) -> Outcome.done()).start()) {
      long id = DB.number("SELECT waybill.enqueue('k', run_at => now() + interval '150 ms')");
      waitForState(id, "done");
      assertTrue(DB.is("SELECT started_at >= run_at FROM waybill.jobs_done WHERE id = ?", id));
    }
  }

  // ------------------------------------------------------------------------ time limits and lost
  // leases

  private static void policy(String column, long value) throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind, " + column + ") VALUES ('k', ?)", value);
  }

  @Test
  void the_time_limit_interrupts_the_handler_and_is_a_retry() throws Exception {
    policy("timeout_ms", 50);
    retriesLater("k");
    try (var _ = new TestHouse(DB, "p=*:4").with("k", this::waiting).start()) {
      long id = DB.enqueue("k");
      waitForState(id, "scheduled");
      assertEquals("timeout", DB.text("SELECT last_error FROM waybill.jobs WHERE id = ?", id));
      assertTrue(said.contains("interrupted, cancelled=true"), said.toString());
    }
  }

  private Outcome attempts(JsonNode payload, JobContext context) {
    said.add("attempt " + context.attempt());
    return Outcome.done();
  }

  @Test
  void a_job_that_no_thread_came_for_in_its_time_goes_back_with_its_attempt() throws Exception {
    policy("timeout_ms", 50);
    int carriers = Runtime.getRuntime().availableProcessors();
    try (var _ =
        new TestHouse(DB, "p=*:" + (carriers + 1))
            .with(
                "busy",
                (_, _) -> {
                  said.add("at work");
                  while (gate.getCount() > 0) {
                    Thread.onSpinWait();
                  }
                  return Outcome.done();
                })
            .with("k", this::attempts)
            .start()) {
      DB.enqueue("busy", carriers);
      await().until(() -> said.size() == carriers);
      long id = DB.enqueue("k");
      await().until(() -> DB.is("SELECT attempts IS NOT NULL FROM waybill.jobs WHERE id = ?", id));
      assertEquals(
          "scheduled 0 0 snooze",
          DB.text(
              """
              SELECT concat_ws(' ', state, attempt, crashes, attempts->0->>'outcome') FROM waybill.jobs WHERE id = ?
              """,
              id));
      gate.countDown();
      waitForState(id, "done");
      assertEquals(List.of("attempt 1"), said.stream().skip(carriers).toList());
    }
  }

  /** As when the process was frozen meanwhile. */
  @Test
  void a_job_whose_claim_was_answered_after_its_lease_is_not_begun_and_left_to_the_reaper()
      throws Exception {
    policy("lease_ms", 1_000);
    try (var house = new TestHouse(DB, "p=*:4").with("k", this::attempts)) {
      var answered = new CountDownLatch(1);
      house.heard.holding = answered;
      house.start();
      long id = DB.enqueue("k");
      await().until(() -> house.heard("claimed " + id));
      await().until(() -> DB.is("SELECT lease_until < now() FROM waybill.jobs"));
      answered.countDown();
      await().until(() -> house.heard("settled " + id + " release GIVEN_UP"));
      assertEquals(1, house.heard.lines.stream().filter(("lost " + id)::equals).count());
      assertEquals("running 1", DB.text("SELECT concat_ws(' ', state, attempt) FROM waybill.jobs"));
      assertEquals(Map.of("k", 1L), new Reaper(DB.database()).reap());
      waitForState(id, "done");
      assertEquals(List.of("attempt 2"), List.copyOf(said));
      assertTrue(DB.is("SELECT crashes = 1 FROM waybill.jobs_done"));
    }
  }

  /** Handlers as short as these share threads. */
  @Test
  void an_interrupt_that_a_handler_leaves_behind_does_not_reach_the_next() throws Exception {
    DB.enqueue("k", 500);
    try (var _ = new TestHouse(DB, "p=*:100").with("k", this::leavesAnInterrupt).start()) {
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs_done") == 500);
    }
    assertTrue(said.isEmpty(), said.toString());
  }

  private Outcome leavesAnInterrupt(JsonNode payload, JobContext context) {
    if (Thread.currentThread().isInterrupted()) {
      said.add("interrupted before it began");
    }
    Thread.currentThread().interrupt();
    return Outcome.done();
  }

  /** One thread cannot wait for all of them. */
  @Test
  void handlers_of_one_claim_that_wait_for_each_other_all_begin() throws Exception {
    var all = new CountDownLatch(50);
    DB.enqueue("k", 50);
    try (var _ =
        new TestHouse(DB, "p=*:50")
            .with(
                "k",
                (_, _) -> {
                  all.countDown();
                  return all.await(1, TimeUnit.MINUTES) ? Outcome.done() : Outcome.dead("alone");
                })
            .start()) {
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs_done") == 50);
    }
  }

  @Test
  void a_handler_that_does_not_heed_its_interrupt_is_left_behind_with_its_slot() throws Exception {
    policy("timeout_ms", 50);
    retriesLater("k");
    DB.enqueue("k", 2);
    try (var house =
        new TestHouse(DB, "p=*:1")
            .grants(Duration.ofMillis(300))
            .with(
                "k",
                (_, _) -> {
                  deaf();
                  return Outcome.done();
                })
            .start()) {
      await()
          .until(() ->
              DB.number("SELECT count(*) FROM waybill.jobs WHERE last_error LIKE '%did not heed%'")
                  == 1);
      assertEquals(1, house.running().slotsInUse().get("p"), "its thread is still at work");
      assertEquals(1, DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'ready'"));
      // What came too late is done, unless this machine stands still for as long as its limit.
      DB.execute("UPDATE waybill.kinds SET timeout_ms = NULL");
      house.policies.refresh();
      gate.countDown();
      await().until(() -> DB.number("SELECT count(*) FROM waybill.jobs_done") == 1);
    }
  }

  /** Waits for the gate, whoever interrupts. */
  private void deaf() {
    while (gate.getCount() > 0) {
      try {
        gate.await();
      } catch (InterruptedException _) {
        said.add("not now");
      }
    }
  }

  @Test
  void a_handler_whose_lease_was_taken_over_is_interrupted_and_changes_nothing() throws Exception {
    policy("lease_ms", 10_000); // Not to be lost before somebody takes it.
    try (var house = new TestHouse(DB, "p=*:4").with("k", this::waiting).start()) {
      long id = DB.enqueue("k");
      await().until(() -> said.size() == 1);
      // Somebody else's reaper and claim, in one: another token.
      DB.execute(
          "UPDATE waybill.jobs SET token = gen_random_uuid(), worker = 'other', attempt = 2, lease_until = now() + interval '1 hour'");
      DB.noteClaims();
      await().until(() -> said.contains("interrupted, cancelled=true"));
      await().until(() -> house.heard("settled " + id + " retry LOST"));
      assertEquals(1, house.heard.lines.stream().filter(("lost " + id)::equals).count());
      assertTrue(
          DB.is("SELECT state = 'running' AND worker = 'other' AND attempt = 2 FROM waybill.jobs"));
    }
  }

  /** Its row is locked, so that no heartbeat gets through and nobody takes it either. */
  @Test
  void a_lease_that_could_not_be_kept_uses_its_attempt_although_nobody_took_it() throws Exception {
    policy("lease_ms", 3_000);
    retriesLater("k");
    try (var house = new TestHouse(DB, "p=*:4").with("k", this::waiting).start()) {
      long id = DB.enqueue("k");
      await().until(() -> said.size() == 1);
      try (Connection other = DB.connect()) {
        other.setAutoCommit(false);
        TestDatabase.column(other, "SELECT id FROM waybill.jobs WHERE id = ? FOR UPDATE", id);
        await().until(() -> said.contains("interrupted, cancelled=true"));
        other.rollback();
        other.setAutoCommit(true);
      }
      waitForState(id, "scheduled");
      assertTrue(
          DB.is(
              """
              SELECT attempt = 1 AND crashes = 0 AND last_error = 'the lease could not be kept' FROM waybill.jobs
              """));
      await().until(() -> house.heard("settled " + id + " retry SETTLED"));
      assertEquals(1, house.heard.lines.stream().filter(("lost " + id)::equals).count());
    }
  }

  @Test
  void a_listener_that_throws_costs_no_slot_and_no_job() throws Exception {
    DB.execute(
        "INSERT INTO waybill.kinds (kind, max_attempts, timeout_ms) VALUES ('fails', 1, NULL), ('deaf', 1, 30)");
    var house =
        new TestHouse(DB, "p=*:3")
            .grants(Duration.ofMillis(300))
            .with("k", (_, _) -> Outcome.done())
            .with("fails", (_, _) -> Outcome.retry("failed"))
            .with("snoozes", (_, _) -> Outcome.snooze(Duration.ofHours(1)))
            .with(
                "deaf",
                (_, _) -> {
                  deaf();
                  return Outcome.done();
                })
            .with(
                "own",
                (_, context) -> {
                  try (Connection connection = DB.connect()) {
                    context.settleIn(connection, Outcome.done());
                  }
                  return new Outcome.Settled();
                });
    house.heard.throwing = true;
    try (var _ = house.start()) {
      for (String kind : List.of("k", "fails", "snoozes", "own")) {
        DB.enqueue(kind, 10);
      }
      long deaf = DB.enqueue("deaf");
      await().until(() -> DB.state(deaf).equals("dead"));
      await()
          .until(() -> DB.number("SELECT count(*) FROM waybill.all_jobs WHERE attempt = 1") == 31);
      assertEquals(1, house.running().slotsInUse().get("p"), "the deaf one's thread is at work");
      gate.countDown();
      await().until(() -> house.running().slotsInUse().equals(Map.of("p", 0)));
      assertEquals(20, DB.number("SELECT count(*) FROM waybill.jobs_done"));
      assertEquals(11, DB.number("SELECT count(*) FROM waybill.jobs_dead"));
      // All slots are free: it waits for nobody. It would for thirty seconds.
      assertTimeout(Duration.ofSeconds(15), house::drain);
    }
  }

  @Test
  void cancelling_interrupts_a_running_handler() throws Exception {
    try (var house = new TestHouse(DB, "p=*:4").with("k", this::waiting).start()) {
      long id = DB.enqueue("k");
      await().until(() -> said.size() == 1);
      assertTrue(DB.is("SELECT waybill.cancel(?)", id));
      await().until(() -> said.contains("interrupted, cancelled=true"));
      assertEquals("cancelled", DB.state(id));
      await().until(() -> house.heard("settled " + id + " retry CANCELLED"));
      assertFalse(house.heard("lost " + id), "cancelling is no fault");
    }
  }

  @Test
  void a_job_longer_than_its_lease_keeps_it() throws Exception {
    policy("lease_ms", 5_000);
    try (var house = new TestHouse(DB, "p=*:4").with("k", this::waiting).start()) {
      List<Long> ids = DB.enqueue("k", 3);
      await().until(() -> said.size() == 3);
      await()
          .until(() -> {
            new Reaper(DB.database()).reap();
            return DB.number(
                    """
                    SELECT count(*) FROM waybill.jobs WHERE lease_until > started_at + interval '10.5 s' AND attempt = 1
                    """)
                == 3;
          });
      gate.countDown();
      for (long id : ids) {
        waitForState(id, "done");
        assertFalse(house.heard("lost " + id));
      }
    }
  }

  @Test
  void progress_reported_once_shows_up() throws Exception {
    policy("lease_ms", 6_000);
    try (var _ =
        new TestHouse(DB, "p=*:4")
            .with(
                "k",
                (payload, context) -> {
                  context.progress(0.25, "a quarter");
                  return waiting(payload, context);
                })
            .start()) {
      DB.enqueue("k");
      await()
          .until(() ->
              DB.number("SELECT count(*) FROM waybill.jobs WHERE progress ->> 'note' = 'a quarter'")
                  == 1);
      gate.countDown();
    }
  }

  // ---------------------------------------------------------------------------------------------
  // drain

  @Test
  void a_drain_lets_jobs_finish() throws Exception {
    long id;
    try (var house =
        new TestHouse(DB, "p=*:4")
            .with(
                "k",
                (_, _) -> {
                  said.add("at work");
                  TimeUnit.MILLISECONDS.sleep(300);
                  return Outcome.done();
                })
            .start()) {
      id = DB.enqueue("k");
      await().until(() -> said.size() == 1);
      house.drain();
    }
    assertEquals("done", DB.state(id));
  }

  @Test
  void a_drain_gives_back_what_does_not_finish_with_its_attempt() throws Exception {
    List<Long> ids = DB.enqueue("k", 9);
    try (var house =
        new TestHouse(DB, "p=*:5")
            .drainsIn(Duration.ofMillis(50))
            .with("k", this::waiting)
            .start()) {
      await().until(() -> said.size() == 5);
      house.drain();
      assertFalse(house.running().ready());
    }
    assertEquals(9, ids.size());
    assertEquals(
        9,
        DB.number(
            "SELECT count(*) FROM waybill.jobs WHERE state = 'ready' AND attempt = 0 AND token IS NULL"));
  }

  @Test
  void a_drain_goes_on_without_a_handler_that_does_not_stop() throws Exception {
    long id = DB.enqueue("k");
    try (var house =
        new TestHouse(DB, "p=*:5")
            .drainsIn(Duration.ofMillis(50))
            .grants(Duration.ofMillis(300))
            .with(
                "k",
                (_, _) -> {
                  said.add("at work");
                  deaf();
                  return Outcome.done();
                })
            .start()) {
      await().until(() -> said.contains("at work"));
      house.drain();
    }
    assertTrue(
        DB.is(
            "SELECT state = 'ready' AND attempt = 0 AND token IS NULL FROM waybill.jobs WHERE id = ?",
            id));
  }

  @Test
  void no_claim_after_the_drain_began() throws Exception {
    var house = new TestHouse(DB, "p=*:5").with("k", (_, _) -> Outcome.done()).start();
    waitForState(DB.enqueue("k"), "done");
    house.close();
    DB.enqueue("k", 3);
    assertEquals(3, DB.number("SELECT count(*) FROM waybill.jobs WHERE state = 'ready'"));
  }

  // -------------------------------------------------------------------------------------------
  // liveness

  /**
   * One of two loops hangs after its claim, in code that it calls, and heeds nothing. The other one
   * turns, and that is not enough.
   */
  @Test
  void a_wedged_claim_loop_is_not_live_and_one_that_goes_on_is() throws Exception {
    policy("lease_ms", 600_000); // Or it would be the reaper's when the loop goes on.
    var wedge = new CountDownLatch(1);
    try (var house =
        new TestHouse(DB, "wedged=k:5;turning=other:5")
            .with("k", (_, _) -> Outcome.done())
            .with("other", (_, _) -> Outcome.done())
            .start()) {
      await().until(() -> house.running().live());
      house.heard.holding = wedge;
      try {
        long id = DB.enqueue("k");
        await().until(() -> house.heard("claimed " + id));
        house.heard.holding = new CountDownLatch(0);
        assertTrue(house.running().live(), "a slow round is no wedge");
        await().atMost(Duration.ofSeconds(60)).until(() -> !house.running().live());
        waitForState(DB.enqueue("other"), "done");
        assertFalse(house.running().live());
        wedge.countDown();
        waitForState(id, "done");
        await().until(() -> house.running().live());
      } finally {
        wedge.countDown();
      }
    }
  }

  // -------------------------------------------------------------------------------------------
  // handlers

  @Test
  void two_handlers_for_one_kind_are_refused() {
    var house =
        new TestHouse(DB, "p=*:5")
            .with("k", (_, _) -> Outcome.done())
            .with("k", (_, _) -> Outcome.done());
    @Nullable RuntimeException refused = null;
    try {
      house.start();
    } catch (SQLException | IllegalStateException e) {
      refused = new IllegalStateException(e);
    }
    assertTrue(String.valueOf(refused).contains("two handlers for the kind k"));
  }
}
