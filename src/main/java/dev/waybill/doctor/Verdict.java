package dev.waybill.doctor;

import java.util.Locale;

/** How it stands with one thing. */
public enum Verdict {
  OK,
  /** Works today, and will not under load or when something else fails. */
  WARN,
  /** Jobs are late, lost or in danger now. */
  WRONG;

  /** As it is written. */
  String word() {
    return name().toLowerCase(Locale.ROOT);
  }
}
