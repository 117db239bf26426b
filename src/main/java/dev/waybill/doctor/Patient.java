package dev.waybill.doctor;

import org.jspecify.annotations.Nullable;

/**
 * What is looked at, as this process would be set up if it were the service.
 *
 * @param listenLogin where wake-ups are listened for, if that is elsewhere
 * @param listens whether they are listened for at all
 * @param connections how many a process of these settings opens at most
 * @param maintains whether a process of these settings has the role {@code maintenance}
 */
public record Patient(
    Login login,
    @Nullable Login listenLogin,
    boolean listens,
    int connections,
    boolean maintains,
    Limits limits) {

  /** How to get in. */
  public record Login(String jdbcUrl, String user, String password) {

    /** Without the password, which must not reach a terminal's scrollback. */
    @Override
    public String toString() {
      String plain = jdbcUrl.replaceFirst("^jdbc:", "");
      int query = plain.indexOf('?');
      return (query < 0 ? plain : plain.substring(0, query)) + " as " + user;
    }
  }

  /** From here on something is wrong; from a quarter of it on there is a warning. */
  public record Limits(double lagSeconds, double snapshotSeconds) {

    private static final int WARN_PART = 4;

    /** Two minutes is the service's own objective for lag. */
    public static final Limits USUAL = new Limits(120, 300);

    Verdict ofLag(double seconds) {
      return of(seconds, lagSeconds);
    }

    Verdict ofSnapshot(double seconds) {
      return of(seconds, snapshotSeconds);
    }

    private static Verdict of(double seconds, double limit) {
      if (seconds >= limit) {
        return Verdict.WRONG;
      }
      return seconds >= limit / WARN_PART ? Verdict.WARN : Verdict.OK;
    }
  }
}
