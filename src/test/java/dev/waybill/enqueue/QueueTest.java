package dev.waybill.enqueue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.arjuna.ats.internal.jta.transaction.arjunacore.TransactionSynchronizationRegistryImple;
import dev.waybill.TestDatabase;
import io.agroal.api.AgroalDataSource;
import io.agroal.api.configuration.supplier.AgroalDataSourceConfigurationSupplier;
import io.agroal.api.security.NamePrincipal;
import io.agroal.api.security.SimplePassword;
import io.agroal.narayana.NarayanaTransactionIntegration;
import jakarta.transaction.TransactionManager;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** With the transaction manager and the pool that Quarkus gives an application. */
class QueueTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final NewJob EMAIL = NewJob.of("email", "{}");

  private final TransactionManager transactions =
      com.arjuna.ats.jta.TransactionManager.transactionManager();
  private final AgroalDataSource dataSource = joining(transactions);
  private final Queue queue = new Queue(dataSource);

  private static AgroalDataSource joining(TransactionManager transactions) {
    var settings = new AgroalDataSourceConfigurationSupplier();
    settings.connectionPoolConfiguration(pool ->
        pool.maxSize(3)
            .acquisitionTimeout(Duration.ofSeconds(5))
            .transactionIntegration(
                new NarayanaTransactionIntegration(
                    transactions, new TransactionSynchronizationRegistryImple()))
            .connectionFactoryConfiguration(factory ->
                factory
                    .jdbcUrl(DB.url())
                    .principal(new NamePrincipal("postgres"))
                    .credential(new SimplePassword("postgres"))));
    try {
      return AgroalDataSource.from(settings);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  @BeforeEach
  void orders() throws SQLException {
    DB.execute("CREATE TABLE IF NOT EXISTS orders (id bigint)");
    DB.execute("DELETE FROM orders");
  }

  @AfterEach
  void close() throws SQLException {
    dataSource.close();
    DB.auditIsClean();
  }

  private void order(long job) throws SQLException {
    try (Connection connection = dataSource.getConnection()) {
      TestDatabase.execute(connection, "INSERT INTO orders VALUES (?)", job);
    }
  }

  private static long both() throws SQLException {
    return DB.number("SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM waybill.jobs)");
  }

  @Test
  void a_job_is_there_when_the_callers_transaction_commits_and_not_before() throws Exception {
    transactions.begin();
    long id = queue.enqueue(EMAIL);
    order(id);
    assertEquals(0, both(), "seen by nobody yet");
    transactions.commit();
    assertEquals(2, both());
    assertEquals("ready", DB.state(id));
  }

  @Test
  void a_job_never_was_when_the_callers_transaction_rolls_back() throws Exception {
    transactions.begin();
    order(queue.enqueue(EMAIL));
    transactions.rollback();
    assertEquals(0, both());
    assertEquals(0, DB.number("SELECT coalesce(sum(n), 0) FROM waybill.counts"));
  }

  @Test
  void a_refused_job_lets_the_callers_transaction_fail_as_a_whole() throws Exception {
    transactions.begin();
    order(1);
    assertThrows(SQLException.class, () -> queue.enqueue(EMAIL.withPriority(1_000_000)));
    assertThrows(
        Exception.class,
        () -> {
          order(2);
          transactions.commit();
        });
    transactions.rollback();
    assertEquals(0, both());
  }

  @Test
  void outside_of_a_transaction_it_is_there_at_once() throws Exception {
    long id = queue.enqueue(EMAIL);
    assertEquals("ready", DB.state(id));
  }

  @Test
  void on_the_callers_own_connection_it_shares_that_ones_fate() throws SQLException {
    try (Connection connection = DB.connect()) {
      connection.setAutoCommit(false);
      long gone = queue.enqueue(connection, EMAIL);
      connection.rollback();
      long kept = queue.enqueue(connection, EMAIL);
      connection.commit();
      connection.setAutoCommit(true);
      assertEquals("gone", DB.state(gone));
      assertEquals("ready", DB.state(kept));
    }
  }
}
