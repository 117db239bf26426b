package dev.waybill.db;

import java.sql.SQLException;
import org.jboss.logging.Logger;

/**
 * Work that comes round again: an error of the database is said when it begins, and not again
 * before the work has succeeded in between; the next beat tries again.
 */
public final class Beat {

  /** What is done at a beat. */
  @FunctionalInterface
  public interface Work {
    void run() throws SQLException;
  }

  private final Logger log;
  private final Logger.Level level;
  private final String says;
  private volatile boolean failing;

  /**
   * @param says what the line says before the SQLSTATE
   */
  public Beat(Logger log, Logger.Level level, String says) {
    this.log = log;
    this.level = level;
    this.says = says;
  }

  public void run(Work work) {
    try {
      work.run();
      failing = false;
    } catch (SQLException failure) {
      if (!failing) {
        log.logf(level, "%s sqlstate=%s", says, failure.getSQLState());
      }
      failing = true;
    }
  }
}
