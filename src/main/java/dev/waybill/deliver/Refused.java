package dev.waybill.deliver;

/** A post that must not be made, or cannot be signed. Its message goes into the job's history. */
final class Refused extends Exception {
  private static final long serialVersionUID = 1L;

  Refused(String message) {
    super(message);
  }
}
