package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.waybill.access.Tokens;
import java.time.OffsetDateTime;
import java.util.List;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/** A token as REST shows it. */
@Schema(name = "Token")
@JsonInclude(JsonInclude.Include.NON_NULL)
public record TokenView(
    long id,
    String name,
    @Schema(enumeration = {"producer", "worker", "operator", "viewer"}) String role,
    @Nullable String tenant,
    @Nullable List<String> kinds,
    boolean payloads,
    OffsetDateTime createdAt,
    String createdBy,
    @Nullable OffsetDateTime expiresAt,
    @Nullable OffsetDateTime revokedAt,
    @Schema(description = "To about a minute") @Nullable OffsetDateTime lastUsedAt,
    @Schema(description = "Only in the answer that made it: it is kept nowhere, so keep it")
        @Nullable String token) {

  static TokenView of(Tokens.Kept kept) {
    return of(kept, null);
  }

  static TokenView of(Tokens.Kept kept, @Nullable String secret) {
    return new TokenView(
        kept.id(),
        kept.name(),
        kept.role(),
        kept.tenant(),
        kept.kinds(),
        kept.payloads(),
        kept.createdAt(),
        kept.createdBy(),
        kept.expiresAt(),
        kept.revokedAt(),
        kept.lastUsedAt(),
        secret);
  }

  /** Without the secret. */
  @Override
  public String toString() {
    return "token=" + id;
  }

  /** A page of them, newest first. */
  @Schema(name = "TokenPage")
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record Page(
      List<TokenView> tokens,
      @Schema(description = "For the parameter after of the next page; left out on the last")
          @Nullable Long next) {}
}
