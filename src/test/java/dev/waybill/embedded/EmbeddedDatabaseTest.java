package dev.waybill.embedded;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EmbeddedDatabaseTest {
  private static final String IN_FILE =
      "SELECT setting FROM pg_file_settings WHERE applied AND name = ";

  @TempDir private Path temp = Path.of("");
  private @Nullable Process starter;

  @AfterEach
  void end_the_forked_jvm_and_its_server() throws Exception {
    if (starter != null) {
      starter.destroyForcibly().waitFor();
      Postmaster.stopOrphan(data().resolve("postgresql"));
    }
  }

  private Path data() throws IOException {
    return temp.toRealPath().resolve("data");
  }

  @Test
  void what_was_committed_survives_a_restart_and_the_way_to_it_stays_the_same() throws Exception {
    String first;
    try (var database = EmbeddedDatabase.start(data())) {
      write(database, 1);
      first = database.psqlCommand();
      assertFalse(first.contains(database.password()), "the line goes to the log");
    }
    try (var database = EmbeddedDatabase.start(data())) {
      assertEquals(1, read(database));
      assertEquals(first, database.psqlCommand());
    }
  }

  @Test
  void durable_and_in_utc_with_utf8_and_reachable_from_this_machine_only() throws Exception {
    try (var database = EmbeddedDatabase.start(data())) {
      for (String expected :
          List.of(
              "fsync=on",
              "synchronous_commit=on",
              "full_page_writes=on",
              "server_encoding=UTF8",
              "listen_addresses=127.0.0.1",
              "unix_socket_directories=",
              "password_encryption=scram-sha-256")) {
        String name = expected.substring(0, expected.indexOf('='));
        assertEquals(expected, name + "=" + ask(database, "SHOW " + name));
      }
      // A connection brings the time zone of its JVM.
      assertEquals("UTC", ask(database, IN_FILE + "'timezone'"));
      assertEquals("waybill", ask(database, "SELECT current_database()"));
      assertEquals(
          "rw-------", permissions(data().resolve("password")), "the password is the owner's");
      assertEquals(
          "0",
          ask(
              database,
              "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'"));
    }
  }

  @Test
  void nobody_comes_in_without_the_password() throws Exception {
    try (var database = EmbeddedDatabase.start(data())) {
      var refused =
          assertThrows(
              SQLException.class,
              () -> DriverManager.getConnection(database.jdbcUrl(), database.user(), "wrong"));
      assertEquals("28P01", refused.getSQLState());
    }
  }

  @Test
  void settings_given_at_the_start_go_before_those_in_the_file() throws Exception {
    try (var database = EmbeddedDatabase.start(data(), Map.of("fsync", "off"))) {
      assertEquals("off", ask(database, "SHOW fsync"));
    }
  }

  @Test
  void a_second_start_on_the_same_directory_is_told_who_holds_it() throws Exception {
    try (var database = EmbeddedDatabase.start(data())) {
      assertRefused("is in use by another Waybill (process " + ProcessHandle.current().pid());
      assertRefused(data().toString());
      assertDoesNotThrow(() -> write(database, 1));
    }
  }

  @Test
  void a_second_start_in_another_process_is_told_who_holds_it() throws Exception {
    Process holder = startInAnotherJvm();
    assertRefused("is in use by another Waybill (process " + holder.pid() + ")");
  }

  @Test
  void a_server_whose_jvm_was_killed_stops_by_itself() throws Exception {
    Process holder = startInAnotherJvm();
    long server = PidFile.read(data().resolve("postgresql")).pid();
    holder.destroyForcibly().waitFor();
    await()
        .atMost(Duration.ofSeconds(60))
        .until(() -> !Files.exists(data().resolve("postgresql/postmaster.pid")));
    await().atMost(Duration.ofSeconds(60)).until(() -> ProcessHandle.of(server).isEmpty());
    try (var database = EmbeddedDatabase.start(data())) {
      assertEquals(7, read(database));
    }
  }

  @Test
  void an_orphan_whose_watch_was_killed_too_is_taken_over() throws Exception {
    Process holder = startInAnotherJvm();
    long orphan = PidFile.read(data().resolve("postgresql")).pid();
    killWatchOf(orphan);
    holder.destroyForcibly().waitFor();
    assertTrue(ProcessHandle.of(orphan).isPresent(), "it is an orphan now");
    try (var database = EmbeddedDatabase.start(data())) {
      assertEquals(7, read(database));
      // Its zombie stays for as long as process 1 leaves it.
      await().atMost(Duration.ofSeconds(60)).until(() -> ProcessHandle.of(orphan).isEmpty());
    }
  }

  @Test
  void a_server_that_was_killed_recovers_at_the_next_start() throws Exception {
    Process holder = startInAnotherJvm();
    long server = PidFile.read(data().resolve("postgresql")).pid();
    sh("kill -9 " + server);
    holder.destroyForcibly().waitFor();
    try (var database = EmbeddedDatabase.start(data())) {
      assertEquals(7, read(database));
    }
  }

  @Test
  void a_pid_file_that_names_another_program_is_no_obstacle() throws Exception {
    try (var database = EmbeddedDatabase.start(data())) {
      write(database, 1);
    }
    Path cluster = data().resolve("postgresql");
    Files.writeString(
        PidFile.of(cluster), ProcessHandle.current().pid() + "\n" + cluster + "\n1\n5\n\n\n");
    try (var database = EmbeddedDatabase.start(data())) {
      assertEquals(1, read(database));
    }
    assertTrue(ProcessHandle.current().isAlive());
  }

  @Test
  void ctrl_c_does_not_reach_the_server() throws Exception {
    try (var database = EmbeddedDatabase.start(data())) {
      long server = PidFile.read(data().resolve("postgresql")).pid();
      assertNotEquals(group(ProcessHandle.current().pid()), group(server));
      assertEquals(group(server), Long.toString(server), "it leads a group of its own");
      assertEquals("1", ask(database, "SELECT 1"));
    }
  }

  @Test
  void data_of_another_major_version_are_refused() throws Exception {
    EmbeddedDatabase.start(data()).close();
    Files.writeString(data().resolve("postgresql/PG_VERSION"), "17\n");
    assertRefused("was made by PostgreSQL 17 and this Waybill brings 18");
  }

  @Test
  void a_directory_with_other_files_is_refused_and_left_untouched() throws Exception {
    Files.createDirectories(data());
    Files.writeString(data().resolve("thesis.txt"), "years of work");
    assertRefused("holds files that are not Waybill's");
    try (var files = Files.list(data())) {
      assertEquals(
          Set.of("thesis.txt"),
          files.map(file -> String.valueOf(file.getFileName())).collect(Collectors.toSet()));
    }
  }

  @Test
  void a_file_in_the_place_of_the_directory_is_refused() throws Exception {
    Files.writeString(data(), "");
    assertRefused("is no directory");
  }

  @Test
  void a_directory_that_cannot_be_made_is_refused() {
    var refused =
        assertThrows(Refused.class, () -> EmbeddedDatabase.start(Path.of("/proc/waybill/data")));
    assertOneLine(refused, "/proc/waybill/data");
  }

  @Test
  void a_half_made_cluster_does_not_block_the_next_start() throws Exception {
    Path half = data().resolve("postgresql.unfinished");
    Files.createDirectories(half.resolve("base"));
    Files.writeString(half.resolve("PG_VERSION"), "18\n");
    Files.writeString(data().resolve("waybill.lock"), "4711\n");
    try (var database = EmbeddedDatabase.start(data())) {
      write(database, 1);
    }
    assertFalse(Files.exists(half));
  }

  @Test
  void a_lost_password_is_replaced() throws Exception {
    try (var database = EmbeddedDatabase.start(data())) {
      write(database, 1);
    }
    Files.delete(data().resolve("password"));
    try (var database = EmbeddedDatabase.start(data())) {
      assertEquals(1, read(database));
    }
  }

  @Test
  void a_port_that_was_taken_meanwhile_is_left_to_who_has_it() throws Exception {
    EmbeddedDatabase.start(data()).close();
    int last = Integer.parseInt(Files.readString(data().resolve("port")).strip());
    try (var _ = new ServerSocket(last, 1, InetAddress.getLoopbackAddress());
        var database = EmbeddedDatabase.start(data())) {
      assertFalse(database.jdbcUrl().contains(":" + last + "/"));
      assertEquals("1", ask(database, "SELECT 1"));
    }
  }

  @Test
  void a_setting_that_the_server_does_not_know_is_refused_in_one_line() throws Exception {
    EmbeddedDatabase.start(data()).close();
    Path conf = data().resolve("postgresql/postgresql.conf");
    Files.writeString(conf, Files.readString(conf) + "\nno_such_setting = 1\n");
    assertRefused("no_such_setting");
  }

  @Test
  void closing_twice_is_closing_once() throws Exception {
    var database = EmbeddedDatabase.start(data());
    database.close();
    database.close();
    assertFalse(Files.exists(data().resolve("postgresql/postmaster.pid")));
  }

  private void assertRefused(String part) throws IOException {
    Path data = data();
    assertOneLine(assertThrows(Refused.class, () -> EmbeddedDatabase.start(data)), part);
  }

  private static void assertOneLine(Refused refused, String part) {
    String message = String.valueOf(refused.getMessage());
    assertTrue(message.contains(part), message);
    assertEquals(1, message.lines().count(), message);
  }

  private static void write(EmbeddedDatabase database, int value) throws SQLException {
    try (Connection connection = connect(database);
        var statement = connection.createStatement()) {
      statement.execute("CREATE TABLE kept (value int)");
      statement.execute("INSERT INTO kept VALUES (" + value + ")");
    }
  }

  private static int read(EmbeddedDatabase database) throws SQLException {
    return Integer.parseInt(ask(database, "SELECT value FROM kept"));
  }

  private static String ask(EmbeddedDatabase database, String query) throws SQLException {
    try (Connection connection = connect(database);
        var statement = connection.createStatement();
        var rows = statement.executeQuery(query)) {
      assertTrue(rows.next());
      return String.valueOf(rows.getString(1));
    }
  }

  private static Connection connect(EmbeddedDatabase database) throws SQLException {
    return DriverManager.getConnection(database.jdbcUrl(), database.user(), database.password());
  }

  private static String permissions(Path file) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
  }

  private static String group(long pid) throws Exception {
    return sh("ps -o pgid= -p " + pid).strip();
  }

  /** The watch is in the server's session, and neither the server nor a child of it. */
  private static void killWatchOf(long server) throws Exception {
    String session = "ps -o pid=,ppid= -s " + server;
    String watch = session + " | awk '$1 != " + server + " && $2 != " + server + " {print $1}'";
    assertEquals(1, sh(watch).lines().count());
    sh("kill -9 $(" + watch + ")");
  }

  private static String sh(String script) throws IOException {
    return Command.run(List.of("sh", "-c", script)).printed();
  }

  /** Comes back when it has committed a 7. */
  private Process startInAnotherJvm() throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String classPath = System.getProperty("java.class.path");
    var process =
        new ProcessBuilder(java, "-cp", classPath, Starter.class.getName(), data().toString())
            .redirectErrorStream(true)
            .start();
    starter = process;
    var lines = process.inputReader(StandardCharsets.UTF_8);
    String line = lines.readLine();
    var said = new StringBuilder();
    while (line != null && !line.equals("committed")) {
      said.append(line).append('\n');
      line = lines.readLine();
    }
    assertEquals("committed", line, said.toString());
    return process;
  }

  /** What is killed. */
  static final class Starter {
    private Starter() {}

    public static void main(String[] arguments) throws Exception {
      try (var database = EmbeddedDatabase.start(Path.of(arguments[0]))) {
        write(database, 7);
        System.out.println("committed");
        TimeUnit.NANOSECONDS.sleep(Duration.ofMinutes(5).toNanos());
      }
    }
  }
}
