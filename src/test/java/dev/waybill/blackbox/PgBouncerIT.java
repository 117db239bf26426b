package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Behind a real PgBouncer in transaction mode, where this machine has one. */
@ExtendWith(Processes.class)
final class PgBouncerIT {

  private static final String PATH =
      System.getenv().getOrDefault("PATH", "") + ":/usr/sbin:/usr/local/sbin";

  private record PgBouncer(Process process, int port) implements AutoCloseable {

    static PgBouncer before(TestDatabase database) throws IOException {
      Path program =
          Stream.of(PATH.split(":"))
              .map(directory -> Path.of(directory, "pgbouncer"))
              .filter(Files::isExecutable)
              .findFirst()
              .orElse(null);
      assumeTrue(program != null, "no pgbouncer here");
      int port = Ports.free();
      Path directory = Files.createTempDirectory("waybill-pgbouncer");
      Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
      Path settings =
          Files.writeString(
              directory.resolve("pgbouncer.ini"),
              """
              [databases]
              %s = host=%s port=%d user=%s
              [pgbouncer]
              listen_addr = 127.0.0.1
              listen_port = %d
              unix_socket_dir =
              auth_type = any
              pool_mode = transaction
              default_pool_size = 8
              ignore_startup_parameters = extra_float_digits
              """
                  .formatted(
                      database.name(), database.host(), database.port(), TestDatabase.USER, port));
      var command = new ArrayList<>(List.of(String.valueOf(program), "-q", settings.toString()));
      if (System.getProperty("user.name").equals("root")) {
        command.addAll(1, List.of("-u", "nobody")); // It refuses to run as root.
      }
      Process process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(directory.resolve("log").toFile())
              .start();
      Awaitility.await("pgbouncer listens")
          .atMost(ServiceProcess.PATIENCE)
          .until(() -> {
            try (var _ = new Socket(InetAddress.getLoopbackAddress(), port)) {
              return true;
            } catch (IOException _) {
              return false;
            }
          });
      return new PgBouncer(process, port);
    }

    @Override
    public void close() {
      process.destroy();
      try {
        assertTrue(process.waitFor(30, TimeUnit.SECONDS));
      } catch (InterruptedException interrupted) {
        throw new IllegalStateException(interrupted);
      }
    }
  }

  /** PgBouncer before 1.21 knows no prepared statements in this mode: hence prepareThreshold. */
  private static String url(TestDatabase through) {
    return through.url() + "&prepareThreshold=0";
  }

  @Test
  void polling_alone_works_and_the_log_says_why() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    try (var bouncer = PgBouncer.before(database)) {
      ServiceProcess process =
          ServiceProcess.on(database)
              .with("WAYBILL_DB_URL", url(database.through(bouncer.port())))
              .startReady();
      Awaitility.await("it says that it polls")
          .atMost(ServiceProcess.PATIENCE)
          .until(
              () -> process.lines().stream().anyMatch(line -> line.contains("WAYBILL_LISTEN_URL")));
      List<Long> ids = new ArrayList<>(database.enqueueMany("echo", "{}", 2_000));
      ids.add(database.enqueue("fail", "{\"message\": \"x\"}"));
      database.execute("SELECT waybill.cancel(?)", ids.getLast());
      Invariants.check(database, EnqueueLog.of(ids));
    }
  }

  @Test
  void a_direct_url_brings_the_wake_ups_back() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    try (var bouncer = PgBouncer.before(database)) {
      ServiceProcess process =
          ServiceProcess.on(database)
              .with("WAYBILL_DB_URL", url(database.through(bouncer.port())))
              .with("WAYBILL_LISTEN_URL", database.url())
              .startReady();
      Awaitility.await("the pool asks to be woken")
          .atMost(ServiceProcess.PATIENCE)
          .until(
              () -> database.truth("SELECT coalesce(bool_or(armed), false) FROM waybill.waiting"));
      long id = database.enqueue("echo", "{}");
      Invariants.check(database, EnqueueLog.of(List.of(id)));
      assertEquals(
          List.of(),
          process.lines().stream().filter(line -> line.contains("notifications do not")).toList());
    }
  }

  @Test
  void the_doctor_says_that_nothing_is_heard_and_which_settings_the_role_lacks() throws Exception {
    TestDatabase database = TestPostgres.shared().newDatabase();
    try (var bouncer = PgBouncer.before(database)) {
      ServiceProcess doctor =
          ServiceProcess.on(database)
              .with("WAYBILL_DB_URL", url(database.through(bouncer.port())))
              .arguments("doctor")
              .start();
      assertEquals(1, doctor.exitCode(), doctor.output());
      assertTrue(doctor.output().contains("WAYBILL_LISTEN_URL name the database itself"));
      assertTrue(doctor.output().contains("SET plan_cache_mode = force_generic_plan"));
      ServiceProcess direct =
          ServiceProcess.on(database)
              .with("WAYBILL_DB_URL", url(database.through(bouncer.port())))
              .with("WAYBILL_LISTEN_URL", database.url())
              .arguments("doctor")
              .start();
      int _ = direct.exitCode();
      assertTrue(direct.output().contains("wake-ups arrive"), direct.output());
    }
  }
}
