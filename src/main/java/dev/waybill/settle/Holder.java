package dev.waybill.settle;

/** Who holds a job while its outcome is on its way to the database. */
public interface Holder {

  /** When the lease ends, by nanoTime; asked again whenever that matters. */
  long leaseEndNanos();

  /** Nobody waits for what this frees: it may be written a moment later, with more company. */
  default boolean mayWait() {
    return false;
  }

  /** Hears how it went, on another thread, exactly once. */
  void told(Settled how);
}
