package dev.waybill.run;

import dev.waybill.job.Outcome;

/**
 * Does the work of one kind. A CDI bean that implements this is found at start; each call runs on a
 * virtual thread. Calls that take microseconds may come one after the other on the same one: what
 * they put into a {@link ThreadLocal} or an MDC they have to take out again, and a transaction that
 * they begin they have to end, or the next call finds it.
 *
 * <p><b>Delivery is at least once.</b> After a crash or a lost connection the same job may run
 * again, with the same {@link JobContext#id}: use that id to make the effect idempotent, or settle
 * inside the effect's own transaction with {@link JobContext#settleIn}.
 *
 * @param <P> the payload: a record that Jackson can read, or {@code JsonNode}, or {@code String}
 *     for the JSON text itself
 */
public interface JobHandler<P> {

  /** The kind of job this handles. */
  String kind();

  /**
   * The version of the payload that {@code P} stands for. Newer ones are left for a newer build.
   */
  default int payloadVersion() {
    return 1;
  }

  /**
   * Does the work. Whoever blocks here is interrupted when the time limit is reached, the lease is
   * lost, the job is cancelled or the service drains. An exception means: try again later.
   */
  Outcome run(P payload, JobContext context) throws Exception;
}
