package dev.waybill.run;

import dev.waybill.job.Outcome;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/** What a handler may know of its job, and what it may do besides returning. */
public interface JobContext {

  /** The job's id: the same on every attempt. */
  long id();

  /** The number of this attempt, from 1. */
  int attempt();

  boolean lastAttempt();

  String tenant();

  List<String> tags();

  /**
   * The W3C {@code traceparent} for whatever the handler calls: of this attempt's span where traces
   * are sent, or else the one that the job came with. Null when there is none.
   */
  @Nullable String traceparent();

  /** How much of the time limit is left. */
  Duration remaining();

  /**
   * Whether to stop: time limit, lost lease, cancelled, or drain. The thread is interrupted as
   * well.
   */
  boolean cancelled();

  /** Says how far it is, for whoever looks at the job; written with the next heartbeat. */
  void progress(double fraction, String note);

  /** A log of the kind's own. Put the id in, leave the payload out. */
  Logger log();

  /**
   * Ends the attempt on the handler's own connection, so that the effect and the outcome commit
   * together or not at all. Return {@link Outcome.Settled} after the commit.
   *
   * @throws LeaseLostException when another holder owns the job: roll back
   */
  void settleIn(Connection connection, Outcome outcome) throws SQLException, LeaseLostException;
}
