package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** The way to the database over TLS, with the server's certificate and name checked. */
@ExtendWith(Processes.class)
final class TlsIT {

  private static final String PASSWORD = "changeit";

  @TempDir static Path directory;

  private static TestPostgres postgres;
  private static Path certificate;
  private static Path stranger;

  @BeforeAll
  static void serverWithCertificate() throws Exception {
    postgres = TestPostgres.own();
    certificate = directory.resolve("server.crt");
    Path key = certificate("server", "localhost");
    stranger = directory.resolve("stranger.crt");
    Path _ = certificate("stranger", "localhost");
    TestDatabase admin = postgres.database("postgres");
    admin.execute("ALTER SYSTEM SET ssl_cert_file = '" + certificate + "'");
    admin.execute("ALTER SYSTEM SET ssl_key_file = '" + key + "'");
    admin.execute("ALTER SYSTEM SET ssl = on");
    admin.execute("SELECT pg_reload_conf()");
    Awaitility.await("the server speaks TLS")
        .atMost(ServiceProcess.PATIENCE)
        .until(() -> admin.text("SHOW ssl").equals("on"));
  }

  /** Writes the certificate as PEM; answers where the key is. */
  private static Path certificate(String name, String host)
      throws IOException, InterruptedException, GeneralSecurityException {
    Path store = directory.resolve(name + ".p12");
    Process made =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair",
                "-alias",
                "it",
                "-keyalg",
                "EC",
                "-dname",
                "CN=" + host,
                "-ext",
                "SAN=dns:" + host,
                "-ext",
                "BC=ca:true",
                "-validity",
                "10",
                "-storetype",
                "PKCS12",
                "-keystore",
                store.toString(),
                "-storepass",
                PASSWORD)
            .redirectErrorStream(true)
            .redirectOutput(directory.resolve(name + ".log").toFile())
            .start();
    assertTrue(made.waitFor(60, TimeUnit.SECONDS));
    assertEquals(0, made.exitValue());
    KeyStore keys = KeyStore.getInstance(store.toFile(), PASSWORD.toCharArray());
    pem(directory.resolve(name + ".crt"), "CERTIFICATE", keys.getCertificate("it").getEncoded());
    Path key = directory.resolve(name + ".key");
    pem(key, "PRIVATE KEY", keys.getKey("it", PASSWORD.toCharArray()).getEncoded());
    Files.setPosixFilePermissions(key, PosixFilePermissions.fromString("rw-------"));
    return key;
  }

  private static void pem(Path file, String what, byte[] content) throws IOException {
    String lines = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
    Files.writeString(
        file, "-----BEGIN " + what + "-----\n" + lines + "\n-----END " + what + "-----\n");
  }

  private static String url(TestDatabase database, String host, Path root) {
    return "jdbc:postgresql://"
        + host
        + ":"
        + database.port()
        + "/"
        + database.name()
        + "?sslmode=verify-full&sslrootcert="
        + root;
  }

  @Test
  void every_connection_is_encrypted_and_the_certificate_is_checked() throws Exception {
    TestDatabase database = postgres.newDatabase();
    ServiceProcess process =
        ServiceProcess.on(database)
            .with("WAYBILL_DB_URL", url(database, "localhost", certificate))
            .startReady();
    List<Long> ids = database.enqueueMany("echo", "{}", 100);
    assertEquals(
        201, process.rest().post("/v1/jobs", "{\"kind\": \"sleep\"}").status(), process::output);
    Invariants.awaitDrained(database);
    assertEquals(
        100, database.number("SELECT count(*) FROM waybill.jobs_done WHERE kind = 'echo'"));
    assertFalse(ids.isEmpty());
    assertEquals(
        List.of(),
        database.texts(
            """
            SELECT a.application_name FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid)
            WHERE a.datname = current_database() AND a.application_name LIKE 'waybill%' AND NOT s.ssl
            """));
    assertTrue(
        database.number(
                """
                SELECT count(*) FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid)
                WHERE a.datname = current_database() AND a.application_name LIKE 'waybill%' AND s.ssl
                """)
            > 2);
  }

  @Test
  void another_certificate_or_another_name_is_refused() throws Exception {
    TestDatabase database = postgres.newDatabase();
    for (String wrong :
        List.of(url(database, "localhost", stranger), url(database, "127.0.0.1", certificate))) {
      ServiceProcess process = ServiceProcess.on(database).with("WAYBILL_DB_URL", wrong).start();
      // Whether it gives up or waits for the server to mend: it never gets in.
      TimeUnit.SECONDS.sleep(4);
      assertFalse(process.isAlive() && process.isReady(), wrong);
      assertEquals(
          0,
          database.number(
              "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'waybill%' AND datname = ?",
              database.name()));
      if (process.isAlive()) {
        process.kill9();
      }
    }
  }
}
