package dev.waybill.db;

import io.agroal.api.AgroalDataSource;
import io.quarkus.runtime.annotations.RegisterForReflection;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
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
      return work.on(connection);
    } catch (SQLException failure) {
      throw seen(failure);
    }
  }

  /** All or nothing. */
  public <T extends @Nullable Object> T transaction(Work<T> work) throws SQLException {
    try (Connection connection = dataSource.getConnection()) {
      connection.setAutoCommit(false);
      try {
        T value = work.on(connection);
        connection.commit();
        return value;
      } catch (SQLException | RuntimeException | Error failure) {
        // An Error as well: setAutoCommit below would commit what was done before it.
        rollback(connection, failure);
        throw failure;
      } finally {
        if (!connection.isClosed()) {
          connection.setAutoCommit(true);
        }
      }
    } catch (SQLException failure) {
      throw seen(failure);
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

  private static void rollback(Connection connection, Throwable failure) {
    try {
      connection.rollback();
    } catch (SQLException second) {
      failure.addSuppressed(second);
    }
  }
}
