package dev.waybill.access;

import java.util.Locale;

/** What a caller is there for. docs/access.md has the table of what each may do. */
public enum Role {
  /** Enqueues, and looks what became of it. */
  PRODUCER,
  /** Leases jobs and settles them. */
  WORKER,
  /** Everything. */
  OPERATOR,
  /** Looks, and changes nothing. */
  VIEWER;

  /**
   * Whether payloads and results may be read unless the credential says otherwise. A producer knows
   * its payloads, but not those of the other producers of its tenant; a worker gets those that it
   * leases.
   */
  boolean readsPayloads() {
    return this == OPERATOR;
  }

  /** As settings, JSON and the docs spell it. */
  public String word() {
    return name().toLowerCase(Locale.ROOT);
  }
}
