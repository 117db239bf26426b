package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.deploy.Manifests;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A deploy under load, with processes in place of pods and the numbers of deploy/k8s: nothing is
 * lost, no request fails, no attempt is burned.
 */
@ExtendWith(Processes.class)
final class RollingUpdateIT {

  /** More than preStop and drain together. */
  private static final String LONGER_THAN_THE_DRAIN = "{\"n\": -1, \"ms\": 120000}";

  @Test
  void two_full_rolls_under_load_lose_nothing_and_burn_no_attempt() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    Manifests manifests = Manifests.of("production");
    var log = new EnqueueLog();
    long endless;
    try (var workers = new Rollout(manifests, "waybill-worker-default", 2, database);
        var api = new Rollout(manifests, "waybill-api", 1, database);
        var maintenance = new Rollout(manifests, "waybill-maintenance", 1, database)) {
      List<Rollout> all = List.of(workers, api, maintenance);
      all.forEach(Rollout::awaitReady);
      try (var _ = new Load(log, "sleep", "\"ms\": 10").bySql(database, 10);
          var _ = new Load(log, "sleep", "\"ms\": 15").byRest(api::endpoint, 20);
          var _ = new Load(log, "sleep", "\"ms\": 4000").bySql(database, 250)) {
        rollAll(all);
        endless = database.enqueue("sleep", LONGER_THAN_THE_DRAIN);
        log.acknowledged(endless, -1);
        awaitRunningAt(database, endless, workers);
        rollAll(all);
        Awaitility.await("the endless one was given back and runs at a pod that stays")
            .atMost(ServiceProcess.PATIENCE)
            .until(() -> runsAt(database, endless, workers));
      }
      checkEndless(database, endless, api);
      checkPods(all);
      checkMetrics(manifests, api);
      Invariants.check(database, log);
      check(database, log);
    }
  }

  /** The Deployments of a release roll side by side. */
  private static void rollAll(List<Rollout> all) throws Exception {
    try (var controllers = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Future<?>> rolls = new ArrayList<>();
      all.forEach(one -> rolls.add(controllers.submit(one::update)));
      for (Future<?> roll : rolls) {
        roll.get(3, TimeUnit.MINUTES);
      }
    }
    for (Rollout one : all) {
      one.awaitGone();
    }
  }

  private static boolean runsAt(TestDatabase database, long id, Rollout workers) throws Exception {
    String worker =
        database.text("SELECT worker FROM waybill.jobs WHERE id = ? AND state = 'running'", id);
    return workers.pods().stream().anyMatch(pod -> pod.process.worker().equals(worker));
  }

  private static void awaitRunningAt(TestDatabase database, long id, Rollout workers) {
    Awaitility.await("the endless one runs")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> runsAt(database, id, workers));
  }

  /** Longer than the grace period allows: released, its attempt given back, begun again. */
  private static void checkEndless(TestDatabase database, long id, Rollout api) throws Exception {
    assertEquals(1, database.number("SELECT attempt FROM waybill.jobs WHERE id = ?", id));
    List<String> ended =
        database.texts(
            "SELECT e->>'outcome' FROM waybill.jobs, jsonb_array_elements(attempts) e WHERE id = ?",
            id);
    assertFalse(ended.isEmpty());
    assertTrue(ended.stream().allMatch("release"::equals), ended.toString());
    assertEquals(200, api.endpoint().rest().post("/v1/jobs/" + id + "/cancel", "").status());
  }

  private static void checkPods(List<Rollout> all) {
    for (Rollout one : all) {
      assertEquals(2 * one.pods().size(), one.gone().size());
      for (Rollout.Pod pod : one.gone()) {
        assertFalse(pod.killed, pod.process.output());
        assertEquals(143, pod.process.exitCode());
      }
      List<Rollout.Pod> pods = new ArrayList<>(one.pods());
      pods.addAll(one.gone());
      pods.forEach(pod -> assertFalse(pod.failedLiveness, pod.process.output()));
    }
  }

  /** What the scalers of deploy/k8s ask Prometheus for is served, by pods that do not work too. */
  private static void checkMetrics(Manifests manifests, Rollout api) throws Exception {
    assertTrue(manifests.environment("waybill-api").containsValue("api"));
    String metrics = api.endpoint().rest().get("/q/metrics").body();
    for (String series :
        List.of(
            "waybill_jobs{kind=\"sleep\",state=\"ready\"",
            "waybill_jobs{kind=\"sleep\",state=\"running\"",
            "waybill_oldest_ready_seconds{kind=\"sleep\"")) {
      assertTrue(metrics.contains(series), series);
    }
  }

  private static void check(TestDatabase database, EnqueueLog log) throws Exception {
    assertEquals(0, log.unanswered().size(), "requests that failed");
    assertTrue(log.size() > 1000, "load " + log.size());
    assertEquals(
        List.of(),
        database.texts(
            "SELECT id || ' ' || attempt FROM waybill.all_jobs WHERE attempt <> 1 OR crashes <> 0"),
        "burned attempts");
    long workers =
        database.number(
            "SELECT count(DISTINCT worker) FROM waybill.jobs_done WHERE state = 'done'");
    assertEquals(6, workers, "every pod had a part in it");
    long interrupted =
        database.number(
            "SELECT count(*) FROM waybill.all_jobs WHERE attempts @> '[{\"outcome\": \"release\"}]'");
    assertEquals(1, interrupted, "only the one that takes longer than the drain was given back");
    System.out.printf(
        "RollingUpdateIT: %d jobs, 8 pods replaced, none lost, no attempt burned%n", log.size());
  }
}
