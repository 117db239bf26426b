package dev.waybill.doctor;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.InstantSource;
import java.util.List;

/**
 * The clock of this machine beside the database's. Jobs go by the database's alone; logs, tokens
 * that expire and the signatures of posted jobs go by this machine's.
 */
final class Clocks {

  private static final String NOW = "SELECT extract(epoch FROM clock_timestamp())";

  private static final double WARN_SECONDS = 2;

  /** Receivers of signed posts refuse a timestamp five minutes off; tokens are checked as close. */
  private static final double WRONG_SECONDS = 60;

  private Clocks() {}

  static List<Finding> compare(Connection connection, Patient patient) throws SQLException {
    InstantSource here = InstantSource.system();
    long before = here.millis();
    double there = Double.parseDouble(Ask.text(connection, NOW));
    long after = here.millis();
    return List.of(judge(there - (before + after) / 2000.0, (after - before) / 2000.0));
  }

  /**
   * @param ahead of this machine's clock, in seconds
   * @param unsure by how much the measurement may be wrong
   */
  static Finding judge(double ahead, double unsure) {
    double off = Math.max(0, Math.abs(ahead) - unsure);
    String says =
        "the database's clock is "
            + Spans.of(Math.abs(ahead))
            + (ahead < 0 ? " behind" : " ahead of")
            + " this machine's";
    if (off < WARN_SECONDS) {
      return Finding.ok("clock", says);
    }
    return new Finding(
        off < WRONG_SECONDS ? Verdict.WARN : Verdict.WRONG,
        "clock",
        says + ": times in logs, expiry of tokens and signatures of posted jobs are off by that",
        "let both run NTP (chronyc tracking, timedatectl)");
  }
}
