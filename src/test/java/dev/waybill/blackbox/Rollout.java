package dev.waybill.blackbox;

import dev.waybill.deploy.Manifests;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/**
 * What Kubernetes does to the pods of one Deployment, with processes: environment, probes, preStop
 * and grace are those of the rendered manifests. A rolling update with one more and none
 * unavailable: a new pod is started, and when its probe says ready, an old one is deleted; the next
 * does not wait until that one has gone.
 */
final class Rollout implements AutoCloseable {

  /** How long after a change of endpoints connections may still go by the old ones. */
  private static final Duration PROXY_LAG = Duration.ofSeconds(1);

  private final Manifests manifests;
  private final String name;
  private final TestDatabase database;
  private final List<Pod> pods = new CopyOnWriteArrayList<>();
  private final List<Pod> gone = new CopyOnWriteArrayList<>();
  private final List<Future<?>> deletions = new ArrayList<>();
  private final ExecutorService kubelet = Executors.newVirtualThreadPerTaskExecutor();
  private final AtomicInteger next = new AtomicInteger();
  private volatile List<Pod> endpoints = List.of();
  private volatile boolean closed;

  Rollout(Manifests manifests, String name, int replicas, TestDatabase database) {
    this.manifests = manifests;
    this.name = name;
    this.database = database;
    for (int i = 0; i < replicas; i++) {
      pods.add(new Pod());
    }
    Future<?> _ = kubelet.submit(this::proxy);
  }

  /** One process with its kubelet. */
  final class Pod {
    final ServiceProcess process = plan().start();
    private volatile boolean ready;
    private volatile boolean terminating;
    volatile boolean killed;
    volatile boolean failedLiveness;

    private Pod() {
      Future<?> _ = kubelet.submit(this::probe);
    }

    private void probe() {
      Manifests.Probe startup = manifests.startup(name);
      if (!within(startup, () -> answers(startup))) {
        return;
      }
      Future<?> _ = kubelet.submit(this::probeLiveness);
      Manifests.Probe readiness = manifests.readiness(name);
      int failures = 0;
      while (process.isAlive() && !closed) {
        failures = answers(readiness) ? 0 : failures + 1;
        if (failures == 0) {
          ready = true;
        } else if (failures >= readiness.failures()) {
          ready = false;
        }
        sleep(readiness.period());
      }
      ready = false;
    }

    /** A kubelet would start it again; here it is a fault. */
    private void probeLiveness() {
      Manifests.Probe liveness = manifests.liveness(name);
      int failures = 0;
      while (process.isAlive() && !closed && !terminating) {
        failures = answers(liveness) || terminating ? 0 : failures + 1;
        if (failures >= liveness.failures()) {
          failedLiveness = true;
        }
        sleep(liveness.period());
      }
    }

    private boolean answers(Manifests.Probe probe) {
      return process.rest().status(probe.path()) == 200;
    }

    private boolean within(Manifests.Probe probe, BooleanSupplier ok) {
      for (int i = 0; i < probe.failures() && process.isAlive(); i++) {
        if (ok.getAsBoolean()) {
          return true;
        }
        sleep(probe.period());
      }
      return false;
    }

    /** As the API server's delete works out on the node. The grace period includes preStop. */
    private void delete() {
      long end = System.nanoTime() + manifests.grace(name).toNanos();
      sleep(manifests.preStop(name));
      process.term();
      while (process.isAlive() && System.nanoTime() < end) {
        sleep(Duration.ofMillis(20));
      }
      if (process.isAlive()) {
        killed = true;
        process.kill9();
      }
      gone.add(this);
    }
  }

  private ServiceProcess.Plan plan() {
    ServiceProcess.Plan plan = ServiceProcess.withoutDatabase();
    Map<String, String> environment = manifests.environment(name);
    environment.remove("WAYBILL_HTTP_PORT"); // All of them share one machine.
    environment.keySet().removeIf(variable -> variable.endsWith("_FILE"));
    environment.forEach(plan::with);
    return plan.with("WAYBILL_DB_URL", database.url())
        .with("WAYBILL_DB_USER", database.serviceUser())
        .with("WAYBILL_HTTP_HOST", "127.0.0.1")
        .with("WAYBILL_AUTH", "none");
  }

  void awaitReady() {
    await(() -> pods.stream().allMatch(pod -> pod.ready));
    await(() -> endpoints.size() == pods.size());
  }

  /** Replaces every pod. */
  void update() {
    for (Pod old : List.copyOf(pods)) {
      var fresh = new Pod();
      pods.add(fresh);
      await(() -> fresh.ready);
      old.terminating = true;
      pods.remove(old);
      deletions.add(kubelet.submit(old::delete));
    }
  }

  /** Waits until all that were replaced have gone. */
  void awaitGone() throws Exception {
    for (Future<?> deletion : deletions) {
      deletion.get(manifests.grace(name).toSeconds() + 10, TimeUnit.SECONDS);
    }
  }

  /** What kube-proxy knows is a little old. */
  private void proxy() {
    while (!closed) {
      List<Pod> seen = pods.stream().filter(pod -> pod.ready && !pod.terminating).toList();
      sleep(PROXY_LAG);
      endpoints = seen;
    }
  }

  /** As a connection to the Service is dealt. */
  ServiceProcess endpoint() {
    List<Pod> now = endpoints;
    return now.get(Math.floorMod(next.getAndIncrement(), now.size())).process;
  }

  List<Pod> pods() {
    return List.copyOf(pods);
  }

  List<Pod> gone() {
    return List.copyOf(gone);
  }

  private void await(BooleanSupplier condition) {
    org.awaitility.Awaitility.await(name)
        .atMost(ServiceProcess.PATIENCE)
        .pollInterval(Duration.ofMillis(20))
        .until(condition::getAsBoolean);
  }

  /** The clock of the kubelet: it really waits so long between two questions. */
  private static void sleep(Duration duration) {
    try {
      TimeUnit.NANOSECONDS.sleep(duration.toNanos());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void close() {
    closed = true;
    kubelet.shutdownNow();
    pods.forEach(pod -> pod.process.close());
  }
}
