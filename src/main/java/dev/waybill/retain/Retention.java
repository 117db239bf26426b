package dev.waybill.retain;

import dev.waybill.db.SqlState;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * What is past its time goes: one process at a time, in the order in which one thing needs another.
 */
@Singleton
public final class Retention {

  private static final Logger LOG = Logger.getLogger(Retention.class);
  private static final String TURN = "retention";

  /** Asked before each page; the database need not be asked as often. */
  private static final long TURN_KEPT_NANOS = TimeUnit.SECONDS.toNanos(20);

  private final Turn turn;
  private final Archive archive;
  private final Expiry expiry;
  private final Dropper dropper;
  private final Leftovers leftovers;

  @Inject
  Retention(Turn turn, Archive archive, Expiry expiry, Dropper dropper, Leftovers leftovers) {
    this.turn = turn;
    this.archive = archive;
    this.expiry = expiry;
    this.dropper = dropper;
    this.leftovers = leftovers;
  }

  /** Before the first turn. Refuses a wrong setting of the archive. */
  public void open() throws SQLException {
    archive.open();
  }

  /** Does what there is to do, if no other process does, while it may. */
  public void turn(BooleanSupplier may) throws SQLException {
    if (!turn.mine(TURN)) {
      return;
    }
    BooleanSupplier goOn = new Kept(may);
    @Nullable SQLException failed = null;
    List<Step> steps =
        List.of(
            dropper::drop,
            archive::writeEarly,
            expiry::expireDone,
            expiry::expireDead,
            leftovers::sweep);
    for (Step step : steps) {
      try {
        step.take(goOn);
      } catch (SQLException failure) {
        // What else is past its time does not wait for this.
        failed = first(failed, failure);
        if (SqlState.of(failure) == SqlState.UNREACHABLE) {
          break;
        }
      }
    }
    if (failed != null) {
      // Its turn is not over: it goes to another process when the lease is.
      throw failed;
    }
    turn.over(TURN);
  }

  private interface Step {
    void take(BooleanSupplier goOn) throws SQLException;
  }

  /** The first of several failures, with the others. */
  static SQLException first(@Nullable SQLException before, SQLException failure) {
    if (before == null) {
      return failure;
    }
    before.addSuppressed(failure);
    return before;
  }

  /** The turn, renewed now and then. */
  private final class Kept implements BooleanSupplier {

    private final BooleanSupplier may;
    private long askedNanos = System.nanoTime();

    Kept(BooleanSupplier may) {
      this.may = may;
    }

    @Override
    public boolean getAsBoolean() {
      if (!may.getAsBoolean() || Thread.currentThread().isInterrupted()) {
        return false;
      }
      if (System.nanoTime() - askedNanos < TURN_KEPT_NANOS) {
        return true;
      }
      askedNanos = System.nanoTime();
      try {
        return turn.mine(TURN);
      } catch (SQLException failure) {
        if (!SqlState.of(failure).passing()) {
          LOG.errorf("retention stopped sqlstate=%s", failure.getSQLState());
        }
        return false;
      }
    }
  }
}
