package dev.waybill.access;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;
import java.net.URI;
import java.util.Optional;

/** Settings of this room. */
@ConfigMapping(prefix = "waybill")
interface AccessSettings {

  /** {@code WAYBILL_AUTH}: none, token or jwt. */
  Optional<String> auth();

  /** {@code WAYBILL_AUTH_NONE_ANYWHERE}: none is meant, whatever the address. */
  @WithDefault("false")
  boolean authNoneAnywhere();

  /** {@code WAYBILL_FIRST_TOKEN}: a token for the operator who mints the others. */
  Optional<String> firstToken();

  Jwt jwt();

  /** Where callers are asked for, as the whole is told it. */
  Http http();

  /** The address. */
  interface Http {

    @WithDefault("127.0.0.1")
    String host();
  }

  /** Tokens of an identity provider. A claim may be a path: {@code realm_access/roles}. */
  interface Jwt {

    /** {@code WAYBILL_JWT_ISSUER}: what {@code iss} must say. */
    Optional<String> issuer();

    /** {@code WAYBILL_JWT_AUDIENCE}: what {@code aud} must name. */
    Optional<String> audience();

    /** {@code WAYBILL_JWT_JWKS_URL}: the provider's public keys. */
    Optional<URI> jwksUrl();

    /** {@code WAYBILL_JWT_ROLE_CLAIM}. */
    @WithDefault("waybill_role")
    String roleClaim();

    /** {@code WAYBILL_JWT_TENANT_CLAIM}. */
    @WithDefault("waybill_tenant")
    String tenantClaim();

    /** {@code WAYBILL_JWT_KINDS_CLAIM}. */
    @WithDefault("waybill_kinds")
    String kindsClaim();

    /** {@code WAYBILL_JWT_PAYLOADS_CLAIM}. */
    @WithDefault("waybill_payloads")
    String payloadsClaim();
  }
}
