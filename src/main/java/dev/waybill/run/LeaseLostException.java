package dev.waybill.run;

/**
 * The job is not this holder's any more: it was taken over after the lease ran out, or it was
 * cancelled.
 */
public final class LeaseLostException extends Exception {
  private static final long serialVersionUID = 1L;

  LeaseLostException(String message) {
    super(message);
  }
}
