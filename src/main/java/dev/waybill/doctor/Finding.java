package dev.waybill.doctor;

import org.jspecify.annotations.Nullable;

/**
 * One line of the report.
 *
 * @param about the thing looked at, one word
 * @param says what was found, and why it matters
 * @param mend what to do, SQL where SQL does it
 */
public record Finding(Verdict verdict, String about, String says, @Nullable String mend) {

  static Finding ok(String about, String says) {
    return new Finding(Verdict.OK, about, says, null);
  }

  static Finding warn(String about, String says, String mend) {
    return new Finding(Verdict.WARN, about, says, mend);
  }

  static Finding wrong(String about, String says, String mend) {
    return new Finding(Verdict.WRONG, about, says, mend);
  }
}
