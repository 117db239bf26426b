package dev.waybill.audit;

import java.util.Locale;

/** What an operator may do that is kept in the log. */
public enum Act {
  RETRY,
  DELETE,
  REPLAY_START,
  REPLAY_STOP,
  /** The database did it: a replay came to its end. */
  REPLAY_END,
  CANCEL,
  RUN_NOW,
  SCHEDULE_PUT,
  SCHEDULE_DELETE;

  /** As the database, JSON and the docs spell it. */
  public String word() {
    return name().toLowerCase(Locale.ROOT).replace('_', '-');
  }
}
