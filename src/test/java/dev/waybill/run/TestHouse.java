package dev.waybill.run;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.waybill.TestDatabase;
import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.job.Policy;
import dev.waybill.policy.Policies;
import dev.waybill.settle.ResultWriter;
import dev.waybill.settle.Settled;
import dev.waybill.settle.Settler;
import dev.waybill.trace.Tracer;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/** The pools of one process, with handlers made for a test. */
final class TestHouse implements AutoCloseable {

  /** What a handler does. */
  interface Work {
    Outcome on(JsonNode payload, JobContext context) throws Exception;
  }

  /** A handler that takes any payload. */
  record Does(String kind, Work work) implements JobHandler<JsonNode> {
    @Override
    public Outcome run(JsonNode payload, JobContext context) throws Exception {
      return work.on(payload, context);
    }
  }

  private record Fixed(String pools, Duration drain, Duration grace) implements RunSettings {
    @Override
    public Optional<String> worker() {
      return Optional.of("house");
    }

    @Override
    public Optional<String> pool() {
      return Optional.empty();
    }
  }

  /** Waits as a loop does that is wedged: it heeds nothing. */
  private static final class Uninterrupted {
    static void await(CountDownLatch latch) {
      boolean interrupted = false;
      while (true) {
        try {
          latch.await();
          break;
        } catch (InterruptedException _) {
          interrupted = true;
        }
      }
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** What was heard, one line each: for the handlers' side of the story. */
  static final class Heard implements PoolEvents {
    final ConcurrentLinkedQueue<String> lines = new ConcurrentLinkedQueue<>();

    /** How often a pool looked for jobs. */
    final AtomicInteger looks = new AtomicInteger();

    /** Whoever listens may be broken. */
    volatile boolean throwing;

    /** Or does not come back before this is open: the loop that told it hangs. */
    volatile CountDownLatch holding = new CountDownLatch(0);

    private void hear(String line) {
      lines.add(line);
      if (throwing) {
        throw new IllegalStateException("whoever listens is broken");
      }
    }

    @Override
    public void claimed(String pool, List<Claimed> batch, long nanos) {
      looks.incrementAndGet();
      batch.forEach(job -> hear("claimed " + job.id()));
      if (!batch.isEmpty()) {
        Uninterrupted.await(holding);
      }
    }

    @Override
    public void ran(Claimed job, Outcome outcome, long nanos) {
      hear("ran " + job.id() + " " + outcome.word());
    }

    @Override
    public void settled(Claimed job, Outcome outcome, Settled how) {
      hear("settled " + job.id() + " " + outcome.word() + " " + how);
    }

    @Override
    public void leaseLost(Claimed job) {
      hear("lost " + job.id());
    }
  }

  private final List<JobHandler<?>> handlers = new ArrayList<>();
  private final List<Upcaster> upcasters = new ArrayList<>();
  private Push push =
      new Push() {
        @Override
        public Outcome deliver(Claimed job, Policy policy, JobContext context) {
          return Outcome.dead("nothing is pushed here");
        }

        @Override
        public Map<String, Integer> room(Map<String, Integer> kinds) {
          return Map.of();
        }
      };
  private final TestDatabase db;
  private final String plan;
  private Duration drain = Duration.ofSeconds(30);

  /** Long: a machine that stands still does not make a handler deaf. */
  private Duration grace = Duration.ofSeconds(30);

  final Heard heard = new Heard();
  final Policies policies;
  private Pools pools;
  private boolean drained;

  TestHouse(TestDatabase db, String plan) {
    this.db = db;
    this.plan = plan;
    this.policies = new Policies(db.database());
    this.pools = pools();
  }

  TestHouse with(JobHandler<?> handler) {
    handlers.add(handler);
    return this;
  }

  TestHouse with(Push other) {
    push = other;
    return this;
  }

  TestHouse with(String kind, Work work) {
    return with(new Does(kind, work));
  }

  TestHouse with(Upcaster upcaster) {
    upcasters.add(upcaster);
    return this;
  }

  TestHouse drainsIn(Duration limit) {
    drain = limit;
    return this;
  }

  /** For handlers that heed no interrupt. */
  TestHouse grants(Duration time) {
    grace = time;
    return this;
  }

  private Pools pools() {
    var mapper = new ObjectMapper();
    var settings = new Fixed(plan, drain, grace);
    var settler = new Settler(db.database(), policies, new ResultWriter(mapper));
    var parts =
        new PoolParts(
            new Duties(new Handlers(handlers, upcasters, mapper), policies, push),
            policies,
            settler,
            heard,
            settings,
            Tracer.off());
    return new Pools(
        db.database(), parts, settings, new WorkerName(settings), new Heartbeat(db.database()));
  }

  TestHouse start() throws SQLException {
    pools = pools();
    pools.start();
    return this;
  }

  Pools running() {
    return pools;
  }

  boolean heard(String line) {
    return heard.lines.contains(line);
  }

  void drain() throws InterruptedException {
    drained = true;
    pools.drain();
  }

  @Override
  public void close() {
    try {
      if (!drained) {
        drain();
      }
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(stop);
    }
  }
}
