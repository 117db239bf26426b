package dev.waybill;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.claim.Claimer;
import dev.waybill.claim.Leases;
import dev.waybill.claim.Promoter;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.retain.Reaper;
import dev.waybill.retain.TallyFolder;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import java.security.SecureRandom;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * Thousands of random operations, each also done to a model in memory; the whole database is
 * compared with the model every so often. A failure prints its seed: {@code ./mvnw test
 * -Dtest=RandomOperationsTest -Dwaybill.test.seed=...} plays it again.
 */
class RandomOperationsTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final int OPERATIONS = Integer.getInteger("waybill.test.operations", 3_000);
  private static final int COMPARE_EVERY = 100;

  /** A kind that keeps its history, and one that keeps nothing. */
  private static final List<String> KINDS = List.of("kept", "brief");

  /** What the model knows of a job. */
  private static final class Job {
    final long id;
    final String kind;
    final String tenant;
    final @Nullable String key;
    final @Nullable Integer maxAttempts;
    String state;
    int attempt;
    int crashes;
    int cancelledAttempt;
    @Nullable UUID token;

    Job(
        long id,
        String kind,
        String tenant,
        @Nullable String key,
        @Nullable Integer maxAttempts,
        String state) {
      this.id = id;
      this.tenant = tenant;
      this.kind = kind;
      this.key = key;
      this.maxAttempts = maxAttempts;
      this.state = state;
    }

    boolean lives() {
      return state.equals("ready") || state.equals("scheduled") || state.equals("running");
    }

    void back(String to) {
      state = to;
      token = null;
    }

    @Override
    public String toString() {
      return id + " " + kind + " " + state + " " + attempt + " " + crashes + " " + key;
    }
  }

  private final long seed = Long.getLong("waybill.test.seed", new SecureRandom().nextLong());
  private final Random random = new Random(seed);
  private final TestJobs rooms = new TestJobs(DB);
  private final Map<Long, Job> model = new TreeMap<>();
  private final Map<String, Integer> limits = new HashMap<>();

  /** Every lease that was ever given, so that most are stale. */
  private final List<Claimed> leases = new ArrayList<>();

  private final List<String> log = new ArrayList<>();
  private final Settler settler = rooms.settler();
  private long enqueued;

  @Test
  void the_database_does_what_the_model_does() throws Exception {
    DB.execute(
        """
        INSERT INTO waybill.kinds (kind, max_attempts, backoff_base_ms, backoff_jitter, retention_ms, lease_ms)
        VALUES ('kept', 3, 3600000, false, 86400000, 86400000), ('brief', 3, 3600000, false, 0, 86400000)
        """);
    KINDS.forEach(kind -> limits.put(kind, 3));
    rooms.policies().refresh();
    settler.start();
    int done = 0;
    try {
      for (; done < OPERATIONS; done++) {
        operate();
        if (done % COMPARE_EVERY == 0) {
          compare();
        }
      }
      compare();
    } catch (AssertionError | SQLException | RuntimeException failure) {
      throw new AssertionError(
          "after %d operations with -Dwaybill.test.seed=%d%n%s"
              .formatted(
                  done,
                  seed,
                  String.join("\n", log.subList(Math.max(0, log.size() - 30), log.size()))),
          failure);
    } finally {
      settler.stop();
    }
  }

  private void operate() throws SQLException {
    switch (random.nextInt(20)) {
      case 0, 1, 2, 3 -> enqueue();
      case 4 -> enqueueMany();
      case 5 -> cancel();
      case 6, 7, 8, 9 -> claim();
      case 10, 11, 12, 13, 14 -> settle();
      case 15 -> extend();
      case 16 -> reap();
      case 17, 18 -> promote();
      case 19 -> {
        if (random.nextInt(4) == 0) {
          changeLimit();
        } else {
          new TallyFolder(DB.database()).fold();
        }
      }
      default -> throw new IllegalStateException();
    }
  }

  private <T> T any(List<T> list) {
    return list.get(random.nextInt(list.size()));
  }

  private void enqueue() throws SQLException {
    String kind = any(KINDS);
    String tenant = "t" + random.nextInt(4);
    @Nullable String key = random.nextInt(3) == 0 ? "key" + random.nextInt(6) : null;
    @Nullable Integer max = random.nextInt(3) == 0 ? 1 + random.nextInt(3) : null;
    boolean later = random.nextInt(4) == 0;
    long id =
        DB.number(
            """
            SELECT waybill.enqueue(kind => ?, tenant => ?, priority => ?, dedupe_key => ?, max_attempts => ?,
              run_at => CASE WHEN ? THEN now() + interval '1 day' END)
            """,
            kind,
            tenant,
            random.nextInt(3) - 1,
            key,
            max,
            later);
    @Nullable Job holder =
        key == null
            ? null
            : model.values().stream()
                .filter(j ->
                    j.lives()
                        && j.kind.equals(kind)
                        && j.tenant.equals(tenant)
                        && key.equals(j.key))
                .findFirst()
                .orElse(null);
    log.add("enqueue " + kind + " key=" + key + " -> " + id);
    if (holder != null) {
      assertEquals(holder.id, id, "the live job with this key");
      return;
    }
    assertTrue(!model.containsKey(id), "a new id");
    enqueued++;
    model.put(id, new Job(id, kind, tenant, key, max, later ? "scheduled" : "ready"));
  }

  private void enqueueMany() throws SQLException {
    String kind = any(KINDS);
    int n = random.nextInt(6);
    List<Long> ids = DB.enqueue(kind, n);
    log.add("enqueue_many " + kind + " -> " + ids);
    assertEquals(n, ids.size());
    enqueued += n;
    ids.forEach(id -> model.put(id, new Job(id, kind, "", null, null, "ready")));
  }

  private void cancel() throws SQLException {
    if (model.isEmpty()) {
      return;
    }
    Job job = any(List.copyOf(model.values()));
    boolean cancelled = DB.is("SELECT waybill.cancel(?)", job.id);
    log.add("cancel " + job + " -> " + cancelled);
    assertEquals(job.lives(), cancelled);
    if (cancelled) {
      job.cancelledAttempt = job.token == null ? 0 : job.attempt;
      job.back("cancelled");
    }
  }

  private int limit(Job job) {
    return job.maxAttempts != null ? job.maxAttempts : limits.getOrDefault(job.kind, 0);
  }

  private void claim() throws SQLException {
    int n = 1 + random.nextInt(6);
    Claimer claimer = rooms.claimer("kept", "brief");
    claimer.sweep();
    List<Claimed> got = claimer.claim(n);
    log.add("claim " + n + " -> " + got);
    boolean any = model.values().stream().anyMatch(j -> j.state.equals("ready"));
    assertTrue(got.size() <= n, "no more than asked for");
    assertEquals(any, !got.isEmpty(), "something ready, something claimed");
    for (Claimed claimed : got) {
      Job job = Objects.requireNonNull(model.get(claimed.id()));
      assertEquals("ready", job.state, job.toString());
      assertEquals(job.attempt >= limit(job), claimed.exhausted(), job.toString());
      if (!claimed.exhausted()) {
        job.attempt++;
      }
      assertEquals(job.attempt, claimed.attempt());
      job.state = "running";
      job.token = claimed.token();
      leases.add(claimed);
    }
  }

  private Outcome anyOutcome(Claimed claimed) {
    if (claimed.exhausted()) {
      return random.nextBoolean() ? Outcome.dead("no attempt left") : new Outcome.Release();
    }
    return switch (random.nextInt(8)) {
      case 0, 1, 2 -> Outcome.done(random.nextInt());
      case 3 -> Outcome.retry("failed");
      case 4 -> Outcome.retry(Duration.ofHours(1), "failed");
      case 5 -> Outcome.snooze(random.nextBoolean() ? Duration.ZERO : Duration.ofHours(1));
      case 6 -> new Outcome.Release();
      default -> Outcome.dead("hopeless");
    };
  }

  /** Several at once, most of the newer ones, some of them stale. */
  private void settle() throws SQLException {
    if (leases.isEmpty()) {
      return;
    }
    var told = new ArrayList<CompletableFuture<Settled>>();
    var expected = new ArrayList<Settled>();
    var seen = new HashSet<Long>();
    for (int i = 1 + random.nextInt(5); i > 0; i--) {
      int back = random.nextInt(Math.min(leases.size(), random.nextInt(5) == 0 ? 200 : 12));
      Claimed claimed = leases.get(leases.size() - 1 - back);
      if (!seen.add(claimed.id())) {
        continue;
      }
      Outcome outcome = anyOutcome(claimed);
      Job job = Objects.requireNonNull(model.get(claimed.id()));
      boolean ours = claimed.token().equals(job.token);
      log.add("settle " + claimed + " " + outcome + (ours ? "" : " (stale)"));
      told.add(TestJobs.hand(settler, claimed, outcome));
      boolean cancelled = job.cancelledAttempt == claimed.attempt() && claimed.attempt() > 0;
      expected.add(ours ? Settled.SETTLED : cancelled ? Settled.CANCELLED : Settled.LOST);
      if (ours) {
        apply(job, claimed, outcome);
      }
    }
    assertEquals(expected, told.stream().map(CompletableFuture::join).toList());
  }

  private static void apply(Job job, Claimed claimed, Outcome outcome) {
    switch (outcome) {
      case Outcome.Done _ -> job.back(job.kind.equals("brief") ? "gone" : "done");
      case Outcome.Retry _ -> job.back(claimed.lastAttempt() ? "dead" : "scheduled");
      case Outcome.Snooze(var delay) -> {
        job.back(delay.isZero() ? "ready" : "scheduled");
        job.attempt--;
      }
      case Outcome.Release _ -> {
        job.back("ready");
        job.attempt -= claimed.exhausted() ? 0 : 1;
      }
      case Outcome.Dead _ -> job.back("dead");
      case Outcome.Settled _ -> throw new IllegalStateException();
    }
  }

  private void extend() throws SQLException {
    var held = new ArrayList<Leases.Held>();
    var expected = new HashSet<Long>();
    for (Claimed claimed : leases.subList(Math.max(0, leases.size() - 40), leases.size())) {
      Job job = Objects.requireNonNull(model.get(claimed.id()));
      held.add(TestJobs.held(claimed));
      if (claimed.token().equals(job.token)) {
        expected.add(claimed.id());
      }
    }
    log.add("extend " + held.size());
    assertEquals(expected, new Leases(DB.database()).extend(held));
  }

  private void reap() throws SQLException {
    Set<Long> dated = new HashSet<>();
    for (Job job : model.values()) {
      if (job.state.equals("running") && random.nextInt(3) == 0) {
        dated.add(job.id);
        rooms.leaseOver(job.id);
      }
    }
    long reaped =
        new Reaper(DB.database()).reap().values().stream().mapToLong(Long::longValue).sum();
    log.add("reap " + dated);
    assertEquals(dated.size(), reaped);
    for (long id : dated) {
      Job job = Objects.requireNonNull(model.get(id));
      job.crashes++;
      job.back(job.attempt >= limit(job) ? "dead" : "ready");
    }
  }

  private void promote() throws SQLException {
    Set<Long> dated = new HashSet<>();
    for (Job job : model.values()) {
      if (job.state.equals("scheduled") && random.nextInt(2) == 0) {
        dated.add(job.id);
        DB.execute("UPDATE waybill.jobs SET run_at = now() WHERE id = ?", job.id);
      }
    }
    log.add("promote " + dated);
    assertEquals(dated.size(), new Promoter(DB.database()).promote().promoted());
    dated.forEach(id -> Objects.requireNonNull(model.get(id)).state = "ready");
  }

  private void changeLimit() throws SQLException {
    String kind = any(KINDS);
    int limit = 1 + random.nextInt(4);
    log.add("limit of " + kind + " is " + limit);
    DB.execute("UPDATE waybill.kinds SET max_attempts = ? WHERE kind = ?", limit, kind);
    rooms.policies().refresh();
    limits.put(kind, limit);
  }

  private void compare() throws SQLException {
    List<String> expected =
        model.values().stream()
            .filter(job -> !job.state.equals("gone"))
            .map(Job::toString)
            .toList();
    List<@Nullable String> found =
        DB.column(
            """
            SELECT concat_ws(' ', id, kind, state, attempt, crashes, coalesce(dedupe_key, 'null')) FROM (
              SELECT id, kind, state, attempt, crashes, dedupe_key FROM waybill.jobs
              UNION ALL SELECT id, kind, state, attempt, crashes, dedupe_key FROM waybill.jobs_done
              UNION ALL SELECT id, kind, 'dead', attempt, crashes, dedupe_key FROM waybill.jobs_dead) everything
            ORDER BY id
            """);
    assertEquals(String.join("\n", expected), String.join("\n", found));
    assertEquals(
        enqueued,
        DB.number("SELECT coalesce(sum(n), 0) FROM waybill.counts WHERE what = 'enqueued'"));
    DB.auditIsClean();
  }
}
