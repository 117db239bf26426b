package dev.waybill.api;

import dev.waybill.access.Allowed;
import dev.waybill.access.Caller;
import dev.waybill.access.CurrentCaller;
import dev.waybill.access.Denied;
import dev.waybill.access.Tokens;
import dev.waybill.audit.Audit;
import dev.waybill.db.Database;
import io.smallrye.common.annotation.RunOnVirtualThread;
import jakarta.inject.Inject;
import jakarta.ws.rs.Consumes;
import jakarta.ws.rs.DELETE;
import jakarta.ws.rs.GET;
import jakarta.ws.rs.POST;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.QueryParam;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import java.io.InputStream;
import java.net.URI;
import java.sql.SQLException;
import java.util.List;
import javax.sql.DataSource;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.Parameter;
import org.eclipse.microprofile.openapi.annotations.parameters.RequestBody;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.jspecify.annotations.Nullable;

/** API tokens over REST: minted, listed, revoked, by operators that are bound to nothing. */
@Path("/v1/tokens")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
public final class TokensResource {

  private static final int PAGE_MAX = 500;
  private static final int PAGE = 100;

  private final Database database;
  private final Tokens tokens;
  private final TokenRequests requests;
  private final CurrentCaller callers;

  @Inject
  TokensResource(
      DataSource dataSource, Tokens tokens, TokenRequests requests, CurrentCaller callers) {
    this.database = new Database(dataSource);
    this.tokens = tokens;
    this.requests = requests;
    this.callers = callers;
  }

  @POST
  @Allowed(
      value = {},
      everyTenant = true)
  @Consumes(MediaType.APPLICATION_JSON)
  @Operation(
      operationId = "mintToken",
      summary = "Make an API token",
      description =
          "The answer holds the token itself, for the only time: of the token only a hash is kept.")
  @RequestBody(
      required = true,
      content = @Content(schema = @Schema(implementation = TokenBody.class)))
  @APIResponse(
      responseCode = "201",
      description = "The token",
      content = @Content(schema = @Schema(implementation = TokenView.class)))
  public Response mint(InputStream body) throws SQLException {
    Caller caller = bound();
    Tokens.NewToken token = requests.newToken(Bodies.read(body));
    Tokens.Minted minted =
        database.transaction(connection -> {
          Audit.actsFor(connection, caller.name());
          return tokens.mint(connection, token, caller);
        });
    return Response.created(URI.create("/v1/tokens/" + minted.kept().id()))
        .header("Cache-Control", "no-store")
        .entity(TokenView.of(minted.kept(), minted.secret()))
        .build();
  }

  @GET
  @Allowed(
      value = {},
      everyTenant = true)
  @Operation(operationId = "listTokens", summary = "List API tokens, newest first")
  @APIResponse(
      responseCode = "200",
      description = "A page of tokens",
      content = @Content(schema = @Schema(implementation = TokenView.Page.class)))
  public TokenView.Page list(
      @Parameter(description = "At most so many, 1 to 500; default 100") @QueryParam("limit")
          @Nullable String limit,
      @Parameter(description = "What the page before named as next") @QueryParam("after")
          @Nullable String after)
      throws SQLException {
    Caller _ = bound();
    long size = number("limit", limit, PAGE, PAGE_MAX);
    long before = number("after", after, Long.MAX_VALUE, Long.MAX_VALUE);
    List<Tokens.Kept> page =
        database.run(connection -> tokens.list(connection, before, (int) size + 1));
    boolean more = page.size() > size;
    List<TokenView> shown = page.stream().limit(size).map(TokenView::of).toList();
    return new TokenView.Page(shown, more ? shown.getLast().id() : null);
  }

  @GET
  @Path("/{id}")
  @Allowed(
      value = {},
      everyTenant = true)
  @Operation(operationId = "readToken", summary = "Read an API token, without its secret")
  public TokenView read(@PathParam("id") String id) throws SQLException {
    Caller _ = bound();
    long number = number("id", id, 0, Long.MAX_VALUE);
    Tokens.@Nullable Kept kept = database.run(connection -> tokens.read(connection, number));
    if (kept == null) {
      throw Problem.notFound("token");
    }
    return TokenView.of(kept);
  }

  @DELETE
  @Path("/{id}")
  @Allowed(
      value = {},
      everyTenant = true)
  @Operation(
      operationId = "revokeToken",
      summary = "Revoke an API token",
      description = "This process refuses it from now on, the others within four seconds.")
  @APIResponse(responseCode = "204", description = "It is revoked, now or before")
  public Response revoke(@PathParam("id") String id) throws SQLException {
    Caller caller = bound();
    long number = number("id", id, 0, Long.MAX_VALUE);
    boolean there =
        database.transaction(connection -> {
          Audit.actsFor(connection, caller.name());
          return tokens.revoke(connection, number) || tokens.read(connection, number) != null;
        });
    tokens.forget();
    if (!there) {
      throw Problem.notFound("token");
    }
    return Response.noContent().build();
  }

  /** Nobody hands out more than they have. */
  private Caller bound() {
    Caller caller = callers.get();
    if (caller.kinds() != null || !caller.payloads()) {
      throw Denied.forbidden("Tokens are for operators that are bound to nothing.");
    }
    return caller;
  }

  private static long number(String field, @Nullable String text, long or, long max) {
    if (text == null) {
      return or;
    }
    try {
      long number = Long.parseLong(text);
      if (number >= 1 && number <= max) {
        return number;
      }
    } catch (NumberFormatException _) {
      // Said below.
    }
    throw Problem.invalid(
        field, max == Long.MAX_VALUE ? "It is a number from 1 on." : "From 1 to " + max + ".");
  }
}
