package dev.waybill;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.waybill.claim.Claims;
import dev.waybill.db.Database;
import io.agroal.api.AgroalDataSource;
import io.agroal.api.configuration.supplier.AgroalDataSourceConfigurationSupplier;
import io.agroal.api.exceptionsorter.PostgreSQLExceptionSorter;
import io.agroal.api.security.NamePrincipal;
import io.agroal.api.security.SimplePassword;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Level;
import java.util.logging.Logger;
import javax.net.SocketFactory;
import javax.sql.DataSource;
import org.awaitility.Awaitility;
import org.flywaydb.core.Flyway;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A migrated database for a test class, empty again before each test. One PostgreSQL serves all
 * classes of a test JVM; each database is copied from a template, and its connections come from the
 * same pool as the engine's, with the session settings that microprofile-config.properties gives
 * them.
 */
public final class TestDatabase implements BeforeAllCallback, BeforeEachCallback, AfterAllCallback {

  private static final String TEMPLATE = "waybill_template";

  /**
   * At the end of a statement: the server's statistics know of it when it answers, not some seconds
   * later. A TRUNCATE that they hear of late sets to zero what other connections counted since.
   */
  public static final String COUNTED = "SELECT pg_stat_force_next_flush()";

  private static final AtomicInteger COUNT = new AtomicInteger();

  /** Kept, so that its level is not collected with it. */
  private static final Logger CHATTER = Logger.getLogger("io.zonky");

  /** Started by the first class that needs it; ends with the JVM. */
  private static final class Server {
    static final EmbeddedPostgres POSTGRES = start();

    private static EmbeddedPostgres start() {
      CHATTER.setLevel(Level.WARNING);
      try {
        EmbeddedPostgres postgres =
            EmbeddedPostgres.builder()
                .setServerConfig("max_connections", "200")
                .setServerConfig("fsync", "off")
                .setServerConfig("shared_buffers", "128MB")
                .setServerConfig("deadlock_timeout", "200ms")
                .start();
        try (Connection connection = postgres.getPostgresDatabase().getConnection();
            var statement = connection.createStatement()) {
          statement.execute("CREATE DATABASE " + TEMPLATE);
        }
        Flyway.configure()
            .dataSource(postgres.getDatabase("postgres", TEMPLATE))
            .schemas("waybill")
            .defaultSchema("waybill")
            .table("schema_history")
            .locations("filesystem:src/main/resources/db/waybill")
            .load()
            .migrate();
        try (Connection connection = postgres.getDatabase("postgres", TEMPLATE).getConnection()) {
          // As after the first look of a process: then the audit is strict.
          execute(connection, "INSERT INTO waybill.arrivals_whole VALUES (now())");
        }
        return postgres;
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      } catch (SQLException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  private @Nullable AgroalDataSource dataSource;
  private String url = "";

  @Override
  public void beforeAll(ExtensionContext context) throws SQLException {
    // Generous, for machines that others use as well; and quick to see what has happened.
    Awaitility.setDefaultTimeout(Duration.ofSeconds(60));
    Awaitility.setDefaultPollInterval(Duration.ofMillis(20));
    String name = "test_" + COUNT.incrementAndGet();
    try (Connection connection = Server.POSTGRES.getPostgresDatabase().getConnection();
        var statement = connection.createStatement()) {
      statement.execute("CREATE DATABASE " + name + " TEMPLATE " + TEMPLATE);
    }
    url = Server.POSTGRES.getJdbcUrl("postgres", name);
    dataSource = pool(url);
  }

  @Override
  public void beforeEach(ExtensionContext context) throws SQLException {
    // TRUNCATE makes a new file for each of some sixty relations; most tests leave a few rows.
    boolean few =
        is(
            """
            SELECT (SELECT count(*) FROM waybill.all_jobs) + (SELECT count(*) FROM waybill.counts) < 1000
            """);
    if (few) {
      execute("DELETE FROM waybill.jobs");
      execute("DELETE FROM waybill.jobs_done");
      execute("DELETE FROM waybill.jobs_dead");
      execute("DELETE FROM waybill.kinds");
      execute("DELETE FROM waybill.rates");
      execute("DELETE FROM waybill.tally");
      execute("DELETE FROM waybill.arrivals");
      execute("DELETE FROM waybill.claims");
      execute("DELETE FROM waybill.waiting");
    } else {
      execute(
          """
          TRUNCATE waybill.jobs, waybill.jobs_done, waybill.jobs_dead, waybill.kinds, waybill.rates, waybill.tally, waybill.arrivals, waybill.claims, waybill.waiting;
          """
              + COUNTED);
    }
  }

  @Override
  public void afterAll(ExtensionContext context) {
    if (dataSource != null) {
      dataSource.close();
    }
  }

  private static AgroalDataSource pool(String url) throws SQLException {
    var settings = new AgroalDataSourceConfigurationSupplier();
    settings.connectionPoolConfiguration(pool ->
        pool.maxSize(60)
            .exceptionSorter(new PostgreSQLExceptionSorter())
            .acquisitionTimeout(Duration.ofSeconds(30))
            .connectionFactoryConfiguration(factory ->
                factory
                    .jdbcUrl(url)
                    .principal(new NamePrincipal("postgres"))
                    .credential(new SimplePassword("postgres"))
                    .initialSql(sessionSettings())));
    return AgroalDataSource.from(settings);
  }

  /** For a connection that is not of the pool; user and password are postgres. */
  public String url() {
    return url;
  }

  /** What the connections of the engine begin with. */
  public static String sessionSettings() {
    var properties = new Properties();
    try (Reader in =
        Files.newBufferedReader(
            Path.of("src/main/resources/META-INF/microprofile-config.properties"))) {
      properties.load(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return properties.getProperty("quarkus.datasource.engine.jdbc.new-connection-sql");
  }

  public DataSource dataSource() {
    if (dataSource == null) {
      throw new IllegalStateException("not started: is it a static field with @RegisterExtension?");
    }
    return dataSource;
  }

  /** Connections of their own to the same database, for a test that breaks them by this name. */
  public AgroalDataSource apart(String applicationName) throws SQLException {
    return pool(url + (url.contains("?") ? "&" : "?") + "ApplicationName=" + applicationName);
  }

  /** Connections of their own over sockets that this class makes. */
  public AgroalDataSource over(Class<? extends SocketFactory> sockets) throws SQLException {
    return pool(url + (url.contains("?") ? "&" : "?") + "socketFactory=" + sockets.getName());
  }

  public Database database() {
    return new Database(dataSource());
  }

  /** A connection of the pool: close it. */
  public Connection connect() throws SQLException {
    return dataSource().getConnection();
  }

  /** Changes something; answers how many rows. */
  public int execute(String sql, @Nullable Object... values) throws SQLException {
    try (Connection connection = connect()) {
      return execute(connection, sql, values);
    }
  }

  public static int execute(Connection connection, String sql, @Nullable Object... values)
      throws SQLException {
    try (PreparedStatement statement = prepare(connection, sql, values)) {
      return statement.execute() ? 0 : statement.getUpdateCount();
    }
  }

  /** The first column of all rows, as text. */
  public List<@Nullable String> column(String sql, @Nullable Object... values) throws SQLException {
    try (Connection connection = connect()) {
      return column(connection, sql, values);
    }
  }

  public static List<@Nullable String> column(
      Connection connection, String sql, @Nullable Object... values) throws SQLException {
    try (PreparedStatement statement = prepare(connection, sql, values);
        ResultSet rows = statement.executeQuery()) {
      var column = new ArrayList<@Nullable String>();
      while (rows.next()) {
        column.add(rows.getString(1));
      }
      return column;
    }
  }

  public long number(String sql, @Nullable Object... values) throws SQLException {
    return Long.parseLong(text(sql, values));
  }

  /** The first column of the first row, which is there and not null. */
  public String text(String sql, @Nullable Object... values) throws SQLException {
    List<@Nullable String> column = column(sql, values);
    @Nullable String first = column.isEmpty() ? null : column.getFirst();
    if (first == null) {
      throw new AssertionError((column.isEmpty() ? "no row: " : "null: ") + sql);
    }
    return first;
  }

  public boolean is(String sql, @Nullable Object... values) throws SQLException {
    return text(sql, values).equals("t");
  }

  /** The state that users see, or {@code gone}. */
  public String state(long id) throws SQLException {
    List<@Nullable String> states = column("SELECT state FROM waybill.all_jobs WHERE id = ?", id);
    return states.isEmpty() ? "gone" : String.valueOf(states.getFirst());
  }

  /** For jobs that a test made running by hand. */
  public void noteClaims() throws SQLException {
    try (Connection connection = connect()) {
      Claims.findStrays(connection);
    }
  }

  public long enqueue(String kind) throws SQLException {
    return number("SELECT waybill.enqueue(?)", kind);
  }

  public List<Long> enqueue(String kind, int jobs) throws SQLException {
    return column("SELECT waybill.enqueue_many(?, array_fill('{}'::jsonb, ARRAY[?]))", kind, jobs)
        .stream()
        .map(id -> Long.valueOf(String.valueOf(id)))
        .toList();
  }

  /** The product's own check of guarantees 2, 4, 5 and 6 finds nothing. */
  public void auditIsClean() throws SQLException {
    assertEquals(
        List.of(), column("SELECT guarantee || ': ' || detail FROM waybill.audit() WHERE NOT ok"));
  }

  private static PreparedStatement prepare(
      Connection connection, String sql, @Nullable Object... values) throws SQLException {
    PreparedStatement statement = connection.prepareStatement(sql);
    for (int i = 0; i < values.length; i++) {
      statement.setObject(i + 1, values[i]);
    }
    return statement;
  }
}
