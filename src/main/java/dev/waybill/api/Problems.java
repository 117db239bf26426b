package dev.waybill.api;

import dev.waybill.access.Denied;
import dev.waybill.db.SqlState;
import jakarta.ws.rs.WebApplicationException;
import jakarta.ws.rs.core.Response;
import java.sql.SQLException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jboss.logging.Logger;
import org.jboss.resteasy.reactive.server.ServerExceptionMapper;
import org.jspecify.annotations.Nullable;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** Turns what went wrong into problem documents. */
final class Problems {

  private static final Logger LOG = Logger.getLogger(Problems.class);
  private static final Pattern WAIT = Pattern.compile("([0-9]{1,15}) ms");

  @ServerExceptionMapper
  public Response known(Problem.Thrown thrown) {
    return thrown.problem().response();
  }

  @ServerExceptionMapper
  public Response denied(Denied denied) {
    return Problem.denied(denied).response();
  }

  @ServerExceptionMapper
  public Response database(SQLException failure) {
    return switch (SqlState.of(failure)) {
      case TRY_AGAIN -> {
        LOG.warnf("request failed, database busy sqlstate=%s", failure.getSQLState());
        yield Problem.busy().response();
      }
      case UNREACHABLE, TIMED_OUT -> {
        LOG.warnf("request failed, database away sqlstate=%s", failure.getSQLState());
        yield Problem.unavailable().response();
      }
      case BAD_VALUE, DUPLICATE -> refused(failure).response();
      case LIMITED -> limited(failure);
      case NO_PARTITION, BROKEN, UNKNOWN -> {
        LOG.errorf("request failed sqlstate=%s", failure.getSQLState());
        yield Problem.internal().response();
      }
    };
  }

  /** The tenant's own limit, by SQLSTATE; the database says in milliseconds when to come again. */
  private static Response limited(SQLException failure) {
    @Nullable ServerErrorMessage said =
        failure instanceof PSQLException refused ? refused.getServerErrorMessage() : null;
    boolean rate = "WB001".equals(failure.getSQLState());
    String detail =
        said == null
            ? ""
            : said.getMessage() + (said.getHint() == null ? "" : ". " + said.getHint());
    Matcher wait = WAIT.matcher(said == null ? "" : String.valueOf(said.getDetail()));
    long millis = wait.find() ? Long.parseLong(wait.group(1)) : 1_000;
    return new Problem(
            rate ? "/problems/tenant-rate" : "/problems/tenant-backlog",
            rate ? "The tenant has used up its rate" : "The tenant has too many jobs waiting",
            429,
            detail,
            "tenant")
        .response(Math.max(1, Math.ceilDiv(millis, 1_000L)));
  }

  /**
   * The limits are the database's: its refusals name the column, and the hint says what would be
   * right.
   */
  static Problem refused(SQLException failure) {
    @Nullable ServerErrorMessage said =
        failure instanceof PSQLException refused ? refused.getServerErrorMessage() : null;
    @Nullable String column = said == null ? null : said.getColumn();
    if (said == null || column == null) {
      return new Problem(
          "/problems/invalid",
          "The request is not valid",
          400,
          "The database refused a value.",
          null);
    }
    String detail = said.getMessage() + (said.getHint() == null ? "" : ". " + said.getHint());
    return new Problem("/problems/invalid", "The request is not valid", 400, detail, camel(column));
  }

  private static String camel(String column) {
    var name = new StringBuilder();
    for (String word : column.split("_", -1)) {
      name.append(
          name.isEmpty() ? word : Character.toUpperCase(word.charAt(0)) + word.substring(1));
    }
    return name.toString();
  }

  @ServerExceptionMapper
  public Response http(WebApplicationException failure) {
    int status = failure.getResponse().getStatus();
    String title = failure.getResponse().getStatusInfo().getReasonPhrase();
    Problem problem =
        switch (status) {
          case 406 ->
              new Problem("/problems/http-406", title, 406, "There is application/json.", "Accept");
          case 415 ->
              new Problem(
                  "/problems/http-415",
                  title,
                  415,
                  "Send application/json; a batch may be application/x-ndjson as well.",
                  "Content-Type");
          default -> new Problem("/problems/http-" + status, title, status, null, null);
        };
    return problem.response();
  }

  @ServerExceptionMapper
  public Response unknown(RuntimeException bug) {
    LOG.error("request failed", bug);
    return Problem.internal().response();
  }
}
