package dev.waybill.settle;

/** How the settling of an attempt went. */
public enum Settled {
  /** Written. */
  SETTLED,
  /** Somebody else holds the job: nothing was written. */
  LOST,
  /** Somebody cancelled the job while it ran: nothing was written, and nothing went wrong. */
  CANCELLED,
  /**
   * The database could not take it until long after the lease, or until this process had to end;
   * the reaper will give the job to another.
   */
  GIVEN_UP
}
