package dev.waybill.blackbox;

import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.awaitility.Awaitility;

/**
 * A PostgreSQL 18 cluster for tests: one that all classes share, or one of their own for tests that
 * stop it.
 */
final class TestPostgres implements AutoCloseable {

  private static final String TEMPLATE = "waybill_template";
  private static final AtomicInteger DATABASES = new AtomicInteger();

  /** Zonky logs every step, and a stack trace when what it stops is stopped already. */
  private static final Logger QUIET = Logger.getLogger("io.zonky.test");

  static {
    QUIET.setLevel(Level.OFF);
  }

  private static final class Shared {
    static final TestPostgres IT = own();
  }

  private final Path directory;
  private final int port;
  private EmbeddedPostgres server;
  private final int connectionsMax;
  private final Map<String, String> settings;
  private boolean templateMade;

  private TestPostgres(Path directory, int connectionsMax, Map<String, String> settings) {
    this.connectionsMax = connectionsMax;
    this.settings = settings;
    this.directory = directory;
    this.port = Ports.free();
    this.server = launch();
    Runtime.getRuntime().addShutdownHook(new Thread(this::remove));
  }

  static TestPostgres shared() {
    return Shared.IT;
  }

  /** A cluster that may be stopped without harm to other classes. */
  static TestPostgres own() {
    return own(100);
  }

  static TestPostgres own(int connectionsMax) {
    return own(connectionsMax, Map.of());
  }

  /** With settings that go before those below. */
  static TestPostgres own(int connectionsMax, Map<String, String> settings) {
    try {
      return new TestPostgres(Files.createTempDirectory("waybill-it-"), connectionsMax, settings);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  int port() {
    return port;
  }

  private EmbeddedPostgres launch() {
    try {
      var builder =
          EmbeddedPostgres.builder()
              .setDataDirectory(directory.resolve("data"))
              .setCleanDataDirectory(false)
              .setRegisterShutdownHook(false)
              .setOutputRedirector(ProcessBuilder.Redirect.appendTo(log()))
              .setErrorRedirector(ProcessBuilder.Redirect.appendTo(log()))
              .setPort(port)
              .setPGStartupWait(Duration.ofSeconds(60))
              // Zonky's default is off, which loses acknowledged commits in an immediate stop.
              .setServerConfig("synchronous_commit", "on")
              // An immediate stop is no power cut: what was written is in the kernel's cache.
              .setServerConfig("fsync", "off")
              .setServerConfig("max_connections", String.valueOf(connectionsMax));
      settings.forEach(builder::setServerConfig);
      return builder.start();
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  /** Without schema, as an administrator makes it. */
  TestDatabase emptyDatabase() throws SQLException {
    return create("empty_" + DATABASES.incrementAndGet(), "template0");
  }

  /**
   * With the roles of deploy/postgresql/roles.sql, and the schema that the artifact itself made as
   * its owner, once, by {@code WAYBILL_MIGRATE=only}.
   */
  synchronized TestDatabase newDatabase() throws SQLException {
    if (!templateMade) {
      TestDatabase template = create(TEMPLATE, "template0");
      template.makeRoles();
      try (ServiceProcess migration =
          ServiceProcess.on(template)
              .with("WAYBILL_DB_USER", TestDatabase.OWNER)
              .with("WAYBILL_MIGRATE", "only")
              .start()) {
        int code = migration.exitCode();
        if (code != 0) {
          throw new IllegalStateException("migration ended with " + code + migration.output());
        }
      }
      // As after the first look of a process: then the audit is strict.
      template.execute("INSERT INTO waybill.arrivals_whole VALUES (now())");
      templateMade = true;
    }
    return create(TestDatabase.WITH_ROLES + DATABASES.incrementAndGet(), TEMPLATE);
  }

  private TestDatabase create(String name, String template) throws SQLException {
    database("postgres").execute("CREATE DATABASE " + name + " TEMPLATE " + template);
    return database(name);
  }

  TestDatabase database(String name) {
    return new TestDatabase("localhost", port, name);
  }

  private long postmaster() throws IOException {
    return Long.parseLong(
        Files.readAllLines(directory.resolve("data").resolve("postmaster.pid")).getFirst());
  }

  /** The server and all of its processes: connections stay open and nothing answers. */
  void freeze() throws IOException {
    Signals.send("STOP", postmaster()); // First, so that it starts no more of them.
    for (ProcessHandle child : children()) {
      Signals.send("STOP", child.pid());
    }
  }

  /** Last the one that would end the others, whose clients are gone. */
  void thaw() throws IOException {
    for (ProcessHandle child : children()) {
      Signals.send("CONT", child.pid());
    }
    Signals.send("CONT", postmaster());
  }

  private List<ProcessHandle> children() throws IOException {
    return ProcessHandle.of(postmaster()).orElseThrow().children().toList();
  }

  /** As {@code pg_ctl stop -m immediate} does it: no checkpoint, no goodbye. */
  void stopImmediately() throws IOException {
    long pid = postmaster();
    Optional<ProcessHandle> postmaster = ProcessHandle.of(pid);
    Signals.send("QUIT", pid);
    Awaitility.await("the postmaster is gone")
        .atMost(Duration.ofSeconds(60))
        .until(() -> postmaster.map(p -> !p.isAlive()).orElse(true));
    server.close(); // Only its lock on the data directory is left to be given back.
  }

  void startAgain() {
    server = launch();
    Awaitility.await("the cluster answers")
        .atMost(Duration.ofSeconds(60))
        .ignoreExceptions()
        .until(() -> {
          try (var connection =
              DriverManager.getConnection(database("postgres").url(), TestDatabase.USER, "")) {
            return connection.isValid(5);
          }
        });
  }

  private File log() {
    return directory.resolve("server.log").toFile();
  }

  @Override
  public void close() throws IOException {
    server.close();
  }

  private void remove() {
    try {
      close();
      try (Stream<Path> tree = Files.walk(directory)) {
        for (Path path : tree.sorted(Comparator.reverseOrder()).toList()) {
          Files.delete(path);
        }
      }
    } catch (IOException failure) {
      System.err.println("not removed: " + directory + " " + failure);
    }
  }
}
