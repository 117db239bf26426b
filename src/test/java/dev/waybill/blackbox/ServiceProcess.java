package dev.waybill.blackbox;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.awaitility.Awaitility;

/** One process of the service, started from the artifact that the build made. */
final class ServiceProcess implements AutoCloseable {

  static final Duration PATIENCE = Duration.ofSeconds(90);

  private static final AtomicInteger NUMBER = new AtomicInteger();
  private static final List<ServiceProcess> STARTED = new CopyOnWriteArrayList<>();

  /** What to start, and with which environment. */
  static final class Plan {
    private final Map<String, String> environment = new TreeMap<>();
    private List<String> arguments = List.of();
    private final int number = NUMBER.incrementAndGet();
    private final int port = Ports.free();

    private Plan() {
      with("WAYBILL_HTTP_PORT", String.valueOf(port));
      with("WAYBILL_WORKER", "w" + number);
    }

    Plan with(String variable, String value) {
      environment.put(variable, value);
      return this;
    }

    /** Another command than to serve. */
    Plan arguments(String... words) {
      arguments = List.of(words);
      return this;
    }

    /** Does not wait. */
    ServiceProcess start() {
      try {
        var process = new ServiceProcess(this);
        STARTED.add(process);
        return process;
      } catch (IOException failure) {
        throw new UncheckedIOException(failure);
      }
    }

    ServiceProcess startReady() {
      ServiceProcess process = start();
      process.awaitReady();
      return process;
    }
  }

  private final Process process;
  private final Path directory;
  private final String worker;
  private final int port;
  private final Rest rest;

  private ServiceProcess(Plan plan) throws IOException {
    port = plan.port;
    worker = plan.environment.getOrDefault("WAYBILL_WORKER", "");
    directory =
        Files.createDirectories(
            Path.of("target", "blackbox", ProcessHandle.current().pid() + "-" + plan.number));
    rest = new Rest(plan.port);
    var builder = new ProcessBuilder(command(plan.arguments)).directory(directory.toFile());
    builder.environment().keySet().removeIf(name -> name.startsWith("WAYBILL_"));
    builder.environment().putAll(plan.environment);
    builder.redirectOutput(out().toFile()).redirectError(err().toFile());
    process = builder.start();
  }

  static Plan on(TestDatabase database) {
    return withoutDatabase()
        .with("WAYBILL_DB_URL", database.url())
        .with("WAYBILL_DB_USER", database.serviceUser());
  }

  static Plan withoutDatabase() {
    return new Plan();
  }

  static boolean isNative() {
    return !artifact().toString().endsWith(".jar");
  }

  static Path artifact() {
    String artifact = System.getProperty("waybill.artifact", "target/quarkus-app/quarkus-run.jar");
    return Path.of(artifact).toAbsolutePath();
  }

  private static List<String> command(List<String> arguments) {
    var command = new ArrayList<String>();
    if (isNative()) {
      command.add(artifact().toString());
      command.addAll(arguments);
      return command;
    }
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    // Many short-lived processes on few cores.
    command.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-jar"));
    command.add(artifact().toString());
    command.addAll(arguments);
    return command;
  }

  /** The name that jobs show as their worker. */
  String worker() {
    return worker;
  }

  int port() {
    return port;
  }

  Rest rest() {
    return rest;
  }

  Path out() {
    return directory.resolve("stdout.log");
  }

  Path err() {
    return directory.resolve("stderr.log");
  }

  /** Everything it said so far. */
  String output() {
    return "\n--- "
        + worker
        + " stdout\n"
        + read(out())
        + "--- "
        + worker
        + " stderr\n"
        + read(err());
  }

  /** What it said, and what its threads are at. */
  String dump() throws IOException {
    Signals.send("QUIT", process.pid());
    LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(2));
    return output();
  }

  List<String> lines() {
    return (read(out()) + read(err())).lines().toList();
  }

  /** The names of its threads, as far as the kernel keeps them: 15 characters. */
  List<String> threads() throws IOException {
    try (Stream<Path> tasks = Files.list(Path.of("/proc", String.valueOf(process.pid()), "task"))) {
      return tasks.map(task -> read(task.resolve("comm")).strip()).toList();
    }
  }

  private static String read(Path file) {
    try {
      return Files.exists(file) ? Files.readString(file) : "";
    } catch (IOException failure) {
      return failure.toString();
    }
  }

  void awaitReady() {
    Awaitility.await(worker + " is ready")
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(20))
        .until(() -> {
          if (!process.isAlive()) {
            throw new IllegalStateException("ended at start" + output());
          }
          return isReady();
        });
  }

  boolean isReady() {
    return rest.status("/q/health/ready") == 200;
  }

  boolean isLive() {
    return rest.status("/q/health/live") == 200;
  }

  boolean isAlive() {
    return process.isAlive();
  }

  /** As Kubernetes ends a pod. */
  void term() {
    process.destroy();
  }

  /** As the kernel ends a process that eats too much. */
  void kill9() {
    process.destroyForcibly();
    int _ = exitCode();
  }

  void stop() throws IOException {
    Signals.send("STOP", process.pid());
  }

  void cont() throws IOException {
    Signals.send("CONT", process.pid());
  }

  /** Waits for its end. */
  int exitCode() {
    try {
      if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
        throw new IllegalStateException("does not end" + output());
      }
      return process.exitValue();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(interrupted);
    }
  }

  @Override
  public void close() {
    if (process.isAlive()) {
      kill9();
    }
  }

  static List<ServiceProcess> started() {
    return List.copyOf(STARTED);
  }
}
