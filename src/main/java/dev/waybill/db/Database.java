package dev.waybill.db;

import io.agroal.api.AgroalDataSource;
import io.quarkus.runtime.annotations.RegisterForReflection;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.postgresql.jdbc.PgConnection;
import org.postgresql.ssl.DefaultJavaSSLFactory;

/** Runs work on a connection of the pool. */
@Singleton
// What a URL may name by its class: sslfactory=... is for certificates that the JDK's own
// authorities signed.
@RegisterForReflection(targets = DefaultJavaSSLFactory.class)
public final class Database {

  /** Work on a connection. */
  @FunctionalInterface
  public interface Work<T extends @Nullable Object> {
    T on(Connection connection) throws SQLException;
  }

  private final DataSource dataSource;

  /**
   * The engine has a pool of its own: handlers and REST, however busy, cannot keep a heartbeat
   * waiting, and the settings that keep the engine's plans from flipping do not touch their
   * queries.
   */
  @Inject
  Database(@io.quarkus.agroal.DataSource("engine") AgroalDataSource engine) {
    this((DataSource) engine);
  }

  public Database(DataSource dataSource) {
    this.dataSource = dataSource;
  }

  /** Statements that stand alone: each commits by itself. */
  public <T extends @Nullable Object> T run(Work<T> work) throws SQLException {
    try (Connection connection = dataSource.getConnection()) {
      try {
        return work.on(connection);
      } catch (Error error) {
        end(connection, error);
        throw error;
      }
    } catch (SQLException failure) {
      throw seen(failure);
    }
  }

  /** All or nothing. */
  public <T extends @Nullable Object> T transaction(Work<T> work) throws SQLException {
    return run(connection -> {
      connection.setAutoCommit(false);
      try {
        T value = work.on(connection);
        connection.commit();
        connection.setAutoCommit(true);
        return value;
      } catch (SQLException | RuntimeException failure) {
        // After an Error it is not asked for anything more: its end rolls back.
        rollback(connection, failure);
        throw failure;
      }
    });
  }

  /**
   * An Error (no memory, no stack) may come in the middle of an answer: then the rest of it is what
   * the next one on this connection would read as its own. Nobody can tell, so the connection ends
   * here, and the pool gives it to nobody else. The driver's own: the {@code abort} of the pool's
   * (Agroal 3.0.1) lets go of it first, and ends nothing.
   */
  private static void end(Connection connection, Error error) {
    try {
      connection.unwrap(PgConnection.class).close();
    } catch (SQLException | RuntimeException | Error second) {
      error.addSuppressed(second);
    }
  }

  /**
   * A connection to a primary that became a standby works on, and every write on it fails: all of
   * them are replaced. {@link SqlState} counts it as unreachable, so the caller tries again.
   */
  private SQLException seen(SQLException failure) {
    if (SqlState.READ_ONLY.equals(failure.getSQLState())
        && dataSource instanceof AgroalDataSource pool) {
      pool.flush(AgroalDataSource.FlushMode.GRACEFUL);
    }
    return failure;
  }

  private static void rollback(Connection connection, Exception failure) {
    try {
      if (!connection.isClosed()) {
        connection.rollback();
        connection.setAutoCommit(true);
      }
    } catch (SQLException second) {
      failure.addSuppressed(second);
    }
  }
}
