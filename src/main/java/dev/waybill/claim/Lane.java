package dev.waybill.claim;

/**
 * The ready jobs of one (kind, payload version, tenant, priority), and where they begin. The
 * beginning is a hint that bounds the index scan from below: dead entries before it are not walked
 * again, which is what keeps claims flat while somebody holds a snapshot. Whatever turns up before
 * it (a late commit, a retry) is found by the next sweep.
 *
 * @param lowMicros run_at of the first job, in microseconds since the epoch
 * @param waitedMillis how long that job had been ready when the sweep saw it
 */
record Lane(
    String kind,
    int payloadVersion,
    String tenant,
    int priority,
    long lowMicros,
    long lowId,
    long waitedMillis) {

  /**
   * Each of these spans that a job has waited lifts it by one priority, so that nothing starves.
   */
  private static final long AGING_MILLIS = 60_000;

  Lane from(long micros, long id) {
    return new Lane(kind, payloadVersion, tenant, priority, micros, id, waitedMillis);
  }

  /** The same for all that is known of one lane. */
  Lane key() {
    return new Lane(kind, payloadVersion, tenant, priority, 0, 0, 0);
  }

  /** Smaller goes first. */
  long rank() {
    return priority - waitedMillis / AGING_MILLIS;
  }

  /** Asked of lanes of one tenant. */
  boolean sameLane(Lane other) {
    return priority == other.priority && payloadVersion == other.payloadVersion;
  }
}
