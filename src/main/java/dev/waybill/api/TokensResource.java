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
import jakarta.ws.rs.HeaderParam;
import jakarta.ws.rs.POST;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import jakarta.ws.rs.QueryParam;
import jakarta.ws.rs.core.Context;
import jakarta.ws.rs.core.MediaType;
import jakarta.ws.rs.core.Response;
import jakarta.ws.rs.core.UriInfo;
import java.io.InputStream;
import java.net.URI;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;
import org.eclipse.microprofile.openapi.annotations.Operation;
import org.eclipse.microprofile.openapi.annotations.media.Content;
import org.eclipse.microprofile.openapi.annotations.media.ExampleObject;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.eclipse.microprofile.openapi.annotations.parameters.Parameter;
import org.eclipse.microprofile.openapi.annotations.parameters.RequestBody;
import org.eclipse.microprofile.openapi.annotations.responses.APIResponse;
import org.eclipse.microprofile.openapi.annotations.tags.Tag;
import org.jspecify.annotations.Nullable;

/** API tokens over REST: minted, listed, revoked, by operators that are bound to nothing. */
@Path("/v1/tokens")
@Produces(MediaType.APPLICATION_JSON)
@RunOnVirtualThread
@Tag(name = "tokens")
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
          "The answer holds the token itself, for the only time: of the token only a hash is kept. So a repeat under the"
              + " same Idempotency-Key answers 200 and the same token without its secret: if the first answer was"
              + " lost, revoke that one and make another.")
  @RequestBody(
      required = true,
      content = @Content(schema = @Schema(implementation = TokenBody.class)))
  @APIResponse(
      responseCode = "201",
      description = "The token",
      content =
          @Content(
              schema = @Schema(implementation = TokenView.class),
              examples = @ExampleObject(name = "token", value = Examples.TOKEN_MINTED)))
  @APIResponse(
      responseCode = "200",
      description = "The token that was made under this Idempotency-Key before, without its secret",
      content = @Content(schema = @Schema(implementation = TokenView.class)))
  @APIResponse(responseCode = "409", description = "The Idempotency-Key came with another body")
  public Response mint(
      @Parameter(
              description =
                  "1 to 255 printable characters. A repeat within 24 hours makes no second token")
          @HeaderParam("Idempotency-Key")
          @Nullable String key,
      InputStream body)
      throws SQLException {
    Caller caller = bound();
    Idempotency.@Nullable Key idempotency = Idempotency.Key.of(key, "token", caller);
    Tokens.NewToken token = requests.newToken(Bodies.read(body));
    String asked = fingerprint(token);
    Made made;
    try {
      made = database.transaction(c -> mint(c, token, caller, idempotency, asked));
    } catch (Idempotency.Raced _) {
      made = database.transaction(c -> mint(c, token, caller, idempotency, asked));
    }
    URI location = URI.create("/v1/tokens/" + made.kept().id());
    return (made.secret() == null ? Response.ok().location(location) : Response.created(location))
        .header("Cache-Control", "no-store")
        .entity(TokenView.of(made.kept(), made.secret()))
        .build();
  }

  /**
   * @param secret null: an earlier request with the same key made it, and it is kept nowhere
   */
  private record Made(Tokens.Kept kept, @Nullable String secret) {
    /** Without the secret. */
    @Override
    public String toString() {
      return "token=" + kept.id();
    }
  }

  private Made mint(
      Connection connection,
      Tokens.NewToken token,
      Caller caller,
      Idempotency.@Nullable Key key,
      String asked)
      throws SQLException {
    Idempotency.@Nullable Known known = key == null ? null : key.find(connection);
    if (known != null) {
      known.same(asked);
      Tokens.@Nullable Kept kept = tokens.read(connection, known.ids().getFirst());
      if (kept == null) {
        throw Problem.notFound("token");
      }
      return new Made(kept, null);
    }
    Audit.actsFor(connection, caller.name());
    Tokens.Minted minted = tokens.mint(connection, token, caller);
    if (key != null) {
      key.remember(connection, asked, List.of(minted.kept().id()));
    }
    return new Made(minted.kept(), minted.secret());
  }

  private static String fingerprint(Tokens.NewToken token) {
    return new Idempotency.Fingerprint()
        .add(token.name())
        .add(token.role().word())
        .add(token.tenant() == null ? "every" : "of " + token.tenant())
        .add(token.kinds() == null ? "all" : String.join(",", token.kinds()))
        .add(String.valueOf(token.payloads()))
        .add(String.valueOf(token.expiresInMillis()))
        .sum();
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
          @Nullable String after,
      @Context UriInfo uri)
      throws SQLException {
    Query.only(uri, Set.of("limit", "after"));
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
