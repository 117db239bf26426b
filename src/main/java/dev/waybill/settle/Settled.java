package dev.waybill.settle;

/** How the settling of an attempt went. */
public enum Settled {
  /** Written. */
  SETTLED,
  /** Somebody else holds the job, or it was cancelled: nothing was written. */
  LOST,
  /**
   * The database could not be reached while the lease lasted; the reaper will give the job to
   * another.
   */
  GIVEN_UP
}
