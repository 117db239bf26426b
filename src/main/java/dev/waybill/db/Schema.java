package dev.waybill.db;

import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.MigrationInfo;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/**
 * The schema and its version. Migrations run under Flyway's own lock, so any number of pods may
 * start at once.
 */
@Singleton
public final class Schema {

  /** Said to the user in one line, instead of a start. */
  public static final class Refused extends Exception {
    private static final long serialVersionUID = 1L;

    public Refused(String message) {
      super(message);
    }
  }

  private static final Logger LOG = Logger.getLogger(Schema.class);

  /** Storage settings that are missing, as the migrations set them. */
  private static final String MISSING_OPTIONS =
      """
      SELECT format('%s SET (%s)', e.relation, e.setting)
      FROM (VALUES ('waybill.jobs', 'fillfactor=45'), ('waybill.jobs', 'autovacuum_vacuum_scale_factor=0.0'),
        ('waybill.jobs', 'autovacuum_vacuum_threshold=2000'), ('waybill.jobs', 'autovacuum_vacuum_cost_delay=0'),
        ('waybill.jobs', 'autovacuum_vacuum_insert_scale_factor=0.2'), ('waybill.jobs', 'autovacuum_vacuum_insert_threshold=100000'),
        ('waybill.jobs', 'autovacuum_analyze_scale_factor=0.1'), ('waybill.jobs', 'autovacuum_analyze_threshold=10000'),
        ('waybill.tally', 'autovacuum_vacuum_scale_factor=0.0'), ('waybill.tally', 'autovacuum_vacuum_threshold=5000'),
        ('waybill.tally', 'autovacuum_vacuum_cost_delay=0'), ('waybill.arrivals', 'autovacuum_vacuum_scale_factor=0.0'),
        ('waybill.arrivals', 'autovacuum_vacuum_threshold=5000'), ('waybill.arrivals', 'autovacuum_vacuum_cost_delay=0'),
        ('waybill.plain_keyed', 'autovacuum_vacuum_scale_factor=0.0'), ('waybill.plain_keyed', 'autovacuum_vacuum_threshold=1000'),
        ('waybill.claims', 'toast_tuple_target=8160'),
        ('waybill.claims', 'autovacuum_vacuum_scale_factor=0.0'), ('waybill.claims', 'autovacuum_vacuum_threshold=1000'),
        ('waybill.claims', 'autovacuum_vacuum_cost_delay=0')) AS e(relation, setting)
      WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = e.relation::regclass AND e.setting = ANY (c.reloptions))
      UNION ALL
      SELECT format('%s RESET (autovacuum_enabled)', c.oid::regclass) FROM pg_class c
      WHERE c.oid IN ('waybill.jobs'::regclass, 'waybill.tally'::regclass, 'waybill.arrivals'::regclass, 'waybill.plain_keyed'::regclass,
        'waybill.claims'::regclass) AND array_to_string(c.reloptions, ' ') ~ 'autovacuum_enabled=(false|off|no|0|f|n)\\M'
      UNION ALL
      SELECT 'autovacuum' WHERE current_setting('autovacuum') = 'off'
      """;

  private static final int VERSION_MIN = 15;
  private static final int TRIES = 60;

  private final Database database;
  private final Session session;
  private final Flyway flyway;
  private volatile boolean current;
  private volatile List<String> lost = List.of();

  @Inject
  Schema(Database database, Session session, Flyway flyway) {
    this.database = database;
    this.session = session;
    this.flyway = flyway;
  }

  public boolean isCurrent() {
    return current;
  }

  /** Waits for the database, for a minute at most, and refuses one that is too old. */
  public void checkServer() throws Refused, InterruptedException {
    for (int tries = 1; ; tries++) {
      try {
        int version = database.run(Schema::serverVersion);
        refuseOld(version);
        return;
      } catch (SQLException failure) {
        if (!SqlState.of(failure).passing() || tries == TRIES) {
          throw new Refused(
              "the database cannot be reached (SQLSTATE "
                  + failure.getSQLState()
                  + ", "
                  + firstLine(failure)
                  + "): see WAYBILL_DB_URL, WAYBILL_DB_USER and WAYBILL_DB_PASSWORD");
        }
        if (tries == 1) {
          // The reason too: that a certificate is not trusted is a 08006 like any other.
          LOG.warnf(
              "waiting for the database sqlstate=%s reason=%s",
              failure.getSQLState(), firstLine(failure));
        }
        TimeUnit.SECONDS.sleep(1);
      }
    }
  }

  private static int serverVersion(Connection connection) throws SQLException {
    return connection.getMetaData().getDatabaseMajorVersion() * 100
        + connection.getMetaData().getDatabaseMinorVersion();
  }

  private static void refuseOld(int version) throws Refused {
    int major = version / 100;
    if (major < VERSION_MIN) {
      throw new Refused(
          "this is PostgreSQL " + major + ", Waybill needs " + VERSION_MIN + " or newer");
    }
    if (version == 1800 || version == 1801) {
      LOG.warn("PostgreSQL 18.0 and 18.1 can lose rows of concurrent updates: go to 18.2 or newer");
    }
  }

  public void migrate() throws Refused {
    try {
      int done = flyway.migrate().migrationsExecuted;
      if (done > 0) {
        LOG.infof("schema migrated steps=%d", done);
      }
    } catch (FlywayException failure) {
      throw new Refused("the migration failed: " + firstLine(failure));
    }
    current = true;
  }

  /** At start: what nobody would notice for weeks. */
  public void checkSettings() throws SQLException {
    session.check();
    checkTable();
  }

  /**
   * The engine stays fast only while vacuum keeps up with a table in which every row lives shortly:
   * a migration or an administrator that reset these settings would be noticed weeks later.
   */
  private void checkTable() throws SQLException {
    List<String> missing = database.run(Schema::missingOptions);
    for (String setting : missing) {
      if (lost.contains(setting)) {
        continue; // Said before.
      }
      if (setting.equals("autovacuum")) {
        LOG.warn("autovacuum is off on this server: turn it on, or jobs become slower by the hour");
      } else {
        LOG.warnf("a table lacks a setting, mend it with: ALTER TABLE %s", setting);
      }
    }
    lost = missing;
  }

  /** Again from time to time: what is lost later is said by then. */
  @Scheduled(every = "1h", delayed = "1h", concurrentExecution = ConcurrentExecution.SKIP)
  void checkSettingsAgain() {
    try {
      checkTable();
    } catch (SQLException failure) {
      LOG.debugf(failure, "settings not checked, in an hour again");
    }
  }

  /** What {@link #checkTable} missed when it last looked. */
  public List<String> lostSettings() {
    return lost;
  }

  /**
   * What a table lacks, as the words that follow ALTER TABLE; also {@code autovacuum} when it is
   * off.
   */
  public static List<String> missingOptions(Connection connection) throws SQLException {
    var missing = new ArrayList<String>();
    try (PreparedStatement statement = connection.prepareStatement(MISSING_OPTIONS);
        ResultSet rows = statement.executeQuery()) {
      while (rows.next()) {
        missing.add(rows.getString(1));
      }
    }
    return missing;
  }

  /**
   * For {@code WAYBILL_MIGRATE=never}: an older schema is refused, a newer one (of a newer build
   * beside this one) is not.
   */
  public void checkVersion() throws Refused {
    @Nullable MigrationInfo next;
    try {
      MigrationInfo[] pending = flyway.info().pending();
      next = pending.length == 0 ? null : pending[0];
    } catch (FlywayException failure) {
      throw new Refused("the version of the schema cannot be read: " + firstLine(failure));
    }
    if (next != null) {
      throw new Refused(
          "the schema lacks version "
              + next.getVersion()
              + " and WAYBILL_MIGRATE=never: run this build once with WAYBILL_MIGRATE=only");
    }
    current = true;
  }

  /**
   * What the server said, with its hint, if it is the server that refused: of a migration Flyway
   * would say first which file it was.
   */
  static String firstLine(Exception failure) {
    for (@Nullable Throwable cause = failure; cause != null; cause = cause.getCause()) {
      @Nullable ServerErrorMessage said =
          cause instanceof PSQLException refused ? refused.getServerErrorMessage() : null;
      if (said != null) {
        return said.getHint() == null
            ? String.valueOf(said.getMessage())
            : said.getMessage() + ". " + said.getHint();
      }
    }
    return String.valueOf(failure.getMessage()).strip().lines().findFirst().orElse("no reason");
  }
}
