package dev.waybill.db;

import java.sql.SQLException;
import org.jspecify.annotations.Nullable;
import org.postgresql.util.PSQLException;

/** What an error of the database means, by SQLSTATE: the one place that knows. */
public enum SqlState {
  /**
   * The connection broke, or the server goes away, is not there or cannot be written to: the
   * outcome of a COMMIT that was under way is unknown.
   */
  UNREACHABLE,
  /**
   * Another transaction was in the way, or the server is short of something: the same again may
   * succeed.
   */
  TRY_AGAIN,
  /** A statement ran into its time limit. */
  TIMED_OUT,
  /** The values are at fault: the same again fails again. */
  BAD_VALUE,
  /** No partition takes this row. */
  NO_PARTITION,
  /** A unique index refused it. */
  DUPLICATE,
  /** A limit that somebody set on purpose: the same again may succeed later. */
  LIMITED,
  /** The schema is not what this build expects, or a privilege is missing: whatever the values. */
  BROKEN,
  /** None of these: a trigger of somebody's, a damaged page, a bug. */
  UNKNOWN;

  /**
   * After a failover a connection may still lead to the old primary, which is read-only now: only a
   * new connection can help.
   */
  static final String READ_ONLY = "25006";

  public static SqlState of(SQLException failure) {
    @Nullable String code = failure.getSQLState();
    if (code == null || code.length() != 5) {
      return UNREACHABLE;
    }
    return switch (code) {
      case "57014" -> TIMED_OUT;
      // The last two: the server ended an idle or long transaction together with its connection.
      case READ_ONLY, "25P03", "25P04" -> UNREACHABLE;
      case "23505" -> DUPLICATE;
      case "23514" ->
          // A check names its constraint, a missing partition has none; the text may be in any
          // language.
          failure instanceof PSQLException said
                  && said.getServerErrorMessage() != null
                  && said.getServerErrorMessage().getConstraint() == null
              ? NO_PARTITION
              : BAD_VALUE;
      default ->
          switch (code.substring(0, 2)) {
            case "08", "57" -> UNREACHABLE;
            case "40", "53", "55", "58" -> TRY_AGAIN;
            case "22", "23" -> BAD_VALUE;
            case "WB" -> LIMITED;
            case "28", "3D", "3F", "42" -> BROKEN;
            default -> UNKNOWN;
          };
    };
  }

  /** Waiting and trying once more makes sense. */
  public boolean passing() {
    return switch (this) {
      case UNREACHABLE, TRY_AGAIN, TIMED_OUT, LIMITED -> true;
      case BAD_VALUE, NO_PARTITION, DUPLICATE, BROKEN, UNKNOWN -> false;
    };
  }
}
