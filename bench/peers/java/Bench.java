import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * The clients of the bench: db-scheduler's worker, and what enqueues for everybody but pg-boss.
 *
 * <p>worker FILE | sessions SYSTEM N SECONDS | rate SYSTEM JOBS_A_SECOND SECONDS | bulk SYSTEM JOBS
 */
final class Bench {

  private static final String TEXT = "x".repeat(150);

  record Work(double t, String text) implements Serializable {}

  private static final OneTimeTask<Work> NOBODY = Tasks.oneTime("nobody", Work.class).execute((i, c) -> {});

  private static final ConcurrentLinkedQueue<double[]> SEEN = new ConcurrentLinkedQueue<>();
  private static volatile double first;

  private static final OneTimeTask<Work> TASK =
      Tasks.oneTime("bench", Work.class)
          .execute((instance, context) -> {
            double now = now();
            if (first == 0) {
              first = now;
            }
            if (instance.getData().t() > 0) {
              SEEN.add(new double[] {instance.getData().t(), now});
            }
          });

  static double now() {
    Instant now = Instant.now();
    return now.getEpochSecond() * 1e3 + now.getNano() / 1e6;
  }

  private static HikariDataSource pool(int size) {
    var config = new HikariConfig();
    config.setJdbcUrl(System.getenv("BENCH_JDBC"));
    config.setMaximumPoolSize(size);
    return new HikariDataSource(config);
  }

  public static void main(String[] args) throws Exception {
    switch (args[0]) {
      case "worker" -> worker(Path.of(args[1]));
      case "sessions" -> sessions(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]));
      case "rate" -> rate(args[1], Double.parseDouble(args[2]), Integer.parseInt(args[3]));
      case "bulk" -> bulk(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]));
      case "preload" -> preload(Integer.parseInt(args[1]));
      default -> throw new IllegalArgumentException(args[0]);
    }
    System.exit(0);
  }

  private static void worker(Path file) throws Exception {
    Scheduler scheduler =
        Scheduler.create(pool(24), TASK)
            .threads(20)
            .pollingInterval(Duration.ofMillis(50))
            .pollUsingLockAndFetch(1.0, 40.0)
            .build();
    scheduler.start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      try {
        Files.writeString(
            file,
            "first " + first + "\n"
                + SEEN.stream().map(s -> s[0] + " " + s[1]).collect(Collectors.joining("\n")) + "\n");
      } catch (Exception e) {
        e.printStackTrace();
      }
    }));
    System.out.println("ready");
    Thread.currentThread().join();
  }

  /** Enqueues one job; the payload is what all systems get. */
  private interface One {
    void enqueue(double t) throws Exception;
  }

  private static String payload(double t) {
    return t > 0
        ? String.format(Locale.ROOT, "{\"t\": %.3f, \"text\": \"%s\"}", t, TEXT)
        : "{\"text\": \"" + TEXT + "\"}";
  }

  private static String sql(String system, String kind) {
    return switch (system) {
      case "waybill" -> "SELECT waybill.enqueue('" + kind + "', ?::jsonb)";
      case "waybill-small-tenant" -> "SELECT waybill.enqueue('" + kind + "', ?::jsonb, tenant => 'small')";
      case "graphile" -> "SELECT graphile_worker.add_job('" + kind + "', ?::json)";
      case "bare" -> "INSERT INTO bare (kind, payload) VALUES ('" + kind + "', ?::jsonb)";
      default -> throw new IllegalArgumentException(system);
    };
  }

  private static One one(String system, String kind, HikariDataSource pool) throws Exception {
    if (system.equals("dbscheduler")) {
      SchedulerClient client = SchedulerClient.Builder.create(pool, TASK, NOBODY).build();
      OneTimeTask<Work> task = kind.equals("bench") ? TASK : NOBODY;
      return t -> client.scheduleIfNotExists(task.instance(UUID.randomUUID().toString(), new Work(t, TEXT)), Instant.now());
    }
    Connection connection = pool.getConnection();
    PreparedStatement statement = connection.prepareStatement(sql(system, kind));
    return t -> {
      statement.setString(1, payload(t));
      statement.execute();
    };
  }

  private static void sessions(String system, int n, int seconds) throws Exception {
    HikariDataSource pool = pool(n + 1);
    var sent = new AtomicLong();
    var threads = new ArrayList<Thread>();
    var ones = new ArrayList<One>();
    for (int i = 0; i < n; i++) {
      ones.add(one(system, "nobody", pool));
    }
    double begin = now();
    for (One one : ones) {
      threads.add(Thread.ofPlatform().start(() -> {
        try {
          while (now() < begin + seconds * 1e3) {
            one.enqueue(0);
            sent.incrementAndGet();
          }
        } catch (Exception e) {
          e.printStackTrace();
          System.exit(1);
        }
      }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    say(sent.get(), 0, now() - begin);
  }

  /** Open loop: a job is due when it is due, however slow the one before was. */
  private static void rate(String system, double rate, int seconds) throws Exception {
    int n = 16; // Some need more than eight sessions for a thousand a second.
    HikariDataSource pool = pool(n + 1);
    var due = new Semaphore(0);
    var sent = new AtomicLong();
    var failed = new AtomicLong();
    long jobs = Math.round(rate * seconds);
    var workers = Executors.newFixedThreadPool(n);
    for (int i = 0; i < n; i++) {
      One one = one(system, "bench", pool);
      var _ = workers.submit(() -> {
        while (true) {
          due.acquire();
          try {
            one.enqueue(now());
            sent.incrementAndGet();
          } catch (Exception e) {
            if (failed.incrementAndGet() == 1) {
              e.printStackTrace();
            }
          }
        }
      });
    }
    double begin = now();
    long given = 0;
    while (given < jobs) {
      long until = Math.min(jobs, (long) ((now() - begin) / 1e3 * rate) + 1);
      if (until > given) {
        due.release((int) (until - given));
        given = until;
      }
      TimeUnit.MICROSECONDS.sleep(500);
    }
    while (sent.get() + failed.get() < jobs && now() < begin + (seconds + 120) * 1e3) {
      TimeUnit.MILLISECONDS.sleep(2);
    }
    say(sent.get(), failed.get(), now() - begin);
  }

  private static void bulk(String system, int jobs, int page) throws Exception {
    HikariDataSource pool = pool(2);
    List<String> payloads = IntStream.range(0, page).mapToObj(i -> payload(0)).toList();
    SchedulerClient client = system.equals("dbscheduler") ? SchedulerClient.Builder.create(pool, TASK, NOBODY).build() : null;
    try (Connection connection = pool.getConnection()) {
      PreparedStatement statement =
          switch (system) {
            case "waybill" -> connection.prepareStatement("SELECT count(*) FROM waybill.enqueue_many('nobody', ?::jsonb[])");
            case "graphile" ->
                connection.prepareStatement(
                    "SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(SELECT json_populate_recordset(null::graphile_worker.job_spec, ?::json)))");
            case "bare" -> connection.prepareStatement("INSERT INTO bare (kind, payload) SELECT 'nobody', unnest(?::jsonb[])");
            default -> null;
          };
      double begin = now();
      for (int i = 0; i < jobs; i += page) {
        if (client != null) {
          client.scheduleBatch(
              IntStream.range(0, page)
                  .<com.github.kagkarlsson.scheduler.task.TaskInstance<?>>mapToObj(
                      x -> NOBODY.instance(UUID.randomUUID().toString(), new Work(0, TEXT)))
                  .toList(),
              Instant.now());
        } else if (system.equals("graphile")) {
          statement.setString(
              1,
              payloads.stream()
                  .map(p -> "{\"identifier\":\"nobody\",\"payload\":" + p + "}")
                  .collect(Collectors.joining(",", "[", "]")));
          statement.execute();
        } else {
          // The driver sends a String[] in binary, an Object[] as text that the server has to read letter by letter.
          statement.setArray(1, connection.createArrayOf("text", payloads.toArray(String[]::new)));
          statement.execute();
        }
      }
      say(jobs, 0, now() - begin);
    }
  }

  /** For db-scheduler, whose data only its own serializer writes. */
  private static void preload(int jobs) throws Exception {
    SchedulerClient client = SchedulerClient.Builder.create(pool(2), TASK, NOBODY).build();
    Instant when = Instant.now();
    for (int i = 0; i < jobs; i += 5_000) {
      client.scheduleBatch(
          IntStream.range(0, Math.min(5_000, jobs - i))
              .<com.github.kagkarlsson.scheduler.task.TaskInstance<?>>mapToObj(
                  x -> TASK.instance(UUID.randomUUID().toString(), new Work(0, TEXT)))
              .toList(),
          when);
    }
    say(jobs, 0, 1);
  }

  private static void say(long sent, long failed, double millis) {
    System.out.printf(Locale.ROOT, "{\"sent\": %d, \"failed\": %d, \"seconds\": %.3f}%n", sent, failed, millis / 1e3);
  }
}
