package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.waybill.access.Denied;
import jakarta.ws.rs.core.Response;
import org.jspecify.annotations.Nullable;

/**
 * An RFC 9457 problem document.
 *
 * @param type stable: programs may decide by it
 * @param field the part of the request that is at fault, or null
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
public record Problem(
    String type, String title, int status, @Nullable String detail, @Nullable String field) {

  static final String MEDIA_TYPE = "application/problem+json";

  /** Ends a request with a problem document. */
  static final class Thrown extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final transient Problem problem;

    Thrown(Problem problem) {
      super(problem.title());
      this.problem = problem;
    }

    Problem problem() {
      return problem;
    }
  }

  static Thrown invalid(String field, String detail) {
    return new Thrown(
        new Problem("/problems/invalid", "The request is not valid", 400, detail, field));
  }

  static Thrown malformed(String detail) {
    return new Thrown(
        new Problem("/problems/malformed", "The body is not readable JSON", 400, detail, null));
  }

  static Thrown notFound(String what) {
    return new Thrown(
        new Problem("/problems/not-found", "There is no such " + what, 404, null, null));
  }

  static Problem denied(Denied denied) {
    String detail = denied.detail();
    return switch (denied.why()) {
      case UNKNOWN ->
          new Problem("/problems/unauthenticated", "Say who you are", 401, detail, null);
      case FORBIDDEN ->
          new Problem("/problems/forbidden", "You may not do this", 403, detail, denied.field());
      case NOT_HERE -> new Problem("/problems/not-served", "Not served here", 404, detail, null);
      case NOT_NOW -> new Problem("/problems/unavailable", "Not now", 503, detail, null);
    };
  }

  static Problem unavailable() {
    return new Problem(
        "/problems/unavailable",
        "The database cannot be reached",
        503,
        "Nothing was changed, or the outcome is unknown: try again.",
        null);
  }

  static Problem internal() {
    return new Problem("/problems/internal", "Something went wrong here", 500, null, null);
  }

  Response response() {
    Response.ResponseBuilder response = Response.status(status).type(MEDIA_TYPE).entity(this);
    return switch (status) {
      case 401 -> response.header("WWW-Authenticate", "Bearer realm=\"waybill\"").build();
      case 503 -> response.header("Retry-After", "2").build();
      default -> response.build();
    };
  }
}
