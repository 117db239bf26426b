package dev.waybill.retain;

/** What this room did, for whoever counts it. */
public interface RetainEvents {

  void reaped(String kind, long jobs);

  /** Past their retention, and gone. */
  void purged(String kind, long jobs);
}
