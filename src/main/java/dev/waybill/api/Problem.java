package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.waybill.access.Denied;
import jakarta.ws.rs.core.Response;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/**
 * An RFC 9457 problem document.
 *
 * @param type stable: programs may decide by it
 * @param field the part of the request that is at fault, or null
 * @param line in a batch: the line of the body where the job at fault begins, from 1
 * @param index in a batch: the place of the job at fault, from 0
 */
@Schema(name = "Problem", description = "RFC 9457")
@JsonInclude(JsonInclude.Include.NON_NULL)
public record Problem(
    @Schema(
            description = "Stable: programs may decide by it",
            examples = "/problems/invalid",
            required = true)
        String type,
    @Schema(required = true) String title,
    @Schema(required = true) int status,
    @Nullable String detail,
    @Schema(description = "The part of the request that is at fault", examples = "kind")
        @Nullable String field,
    @Schema(description = "In a batch: the line of the body where the job at fault begins, from 1")
        @Nullable Integer line,
    @Schema(description = "In a batch: the place of the job at fault, from 0")
        @Nullable Integer index) {

  Problem(String type, String title, int status, @Nullable String detail, @Nullable String field) {
    this(type, title, status, detail, field, null, null);
  }

  /** The same of one job of a batch. */
  Problem at(int faultyLine, int faultyIndex) {
    return new Problem(type, title, status, detail, field, faultyLine, faultyIndex);
  }

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

  /** A job's id as it stands in a path. */
  static long id(String text) {
    try {
      return Long.parseLong(text);
    } catch (NumberFormatException _) {
      throw invalid("id", "A job's id is a number.");
    }
  }

  /** How many to list. */
  static int limit(@Nullable String text, int usual, int max) {
    if (text == null) {
      return usual;
    }
    try {
      int limit = Integer.parseInt(text);
      if (limit >= 1 && limit <= max) {
        return limit;
      }
    } catch (NumberFormatException _) {
      // Said below.
    }
    throw invalid("limit", "A number from 1 to " + max + ".");
  }

  /** The thing is there, and not in a state in which this can be done. */
  static Thrown conflict(String type, String title, String detail) {
    return new Thrown(new Problem("/problems/" + type, title, 409, detail, null));
  }

  static Thrown tooLarge(String detail) {
    return new Thrown(
        new Problem("/problems/too-large", "The request is too large", 413, detail, null));
  }

  static Thrown tooSlow(String detail) {
    return new Thrown(
        new Problem("/problems/too-slow", "The request came too slowly", 408, detail, null));
  }

  static Thrown precondition(String header, String detail) {
    return new Thrown(
        new Problem("/problems/precondition", "It was changed meanwhile", 412, detail, header));
  }

  /** As many of these as this process does at once are under way. */
  static Thrown tooMany(String detail) {
    return new Thrown(new Problem("/problems/too-many", "Too many at once", 429, detail, null));
  }

  static Problem busy() {
    return new Problem(
        "/problems/busy",
        "The database is busy",
        503,
        "Somebody else was in the way, or there is no free connection; nothing was changed: try again.",
        null);
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
    return response(status == 503 ? 2 : 1);
  }

  Response response(long retryAfterSeconds) {
    Response.ResponseBuilder response = Response.status(status).type(MEDIA_TYPE).entity(this);
    return switch (status) {
      case 401 -> response.header("WWW-Authenticate", "Bearer realm=\"waybill\"").build();
      case 429, 503 -> response.header("Retry-After", retryAfterSeconds).build();
      default -> response.build();
    };
  }
}
