package dev.waybill.retain;

/** What this room did, for whoever counts it. */
public interface RetainEvents {

  void reaped(String kind, long jobs);
}
