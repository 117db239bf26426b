package dev.waybill.access;

import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.jose4j.jwa.AlgorithmConstraints.ConstraintType;
import org.jose4j.jws.AlgorithmIdentifiers;
import org.jose4j.jwt.JwtClaims;
import org.jose4j.jwt.consumer.InvalidJwtException;
import org.jose4j.jwt.consumer.JwtConsumer;
import org.jose4j.jwt.consumer.JwtConsumerBuilder;
import org.jspecify.annotations.Nullable;

/**
 * Tokens that an identity provider signed. Only signatures with its published keys count: none, and
 * those with a shared key, are refused before a key is looked for.
 */
final class Jwts implements Credentials {

  private static final int CLOCK_SKEW_SECONDS = 30;
  private static final String EVERY_TENANT = "*";

  private static final String[] ALGORITHMS = {
    AlgorithmIdentifiers.RSA_USING_SHA256,
    AlgorithmIdentifiers.RSA_USING_SHA384,
    AlgorithmIdentifiers.RSA_USING_SHA512,
    AlgorithmIdentifiers.RSA_PSS_USING_SHA256,
    AlgorithmIdentifiers.RSA_PSS_USING_SHA384,
    AlgorithmIdentifiers.RSA_PSS_USING_SHA512,
    AlgorithmIdentifiers.ECDSA_USING_P256_CURVE_AND_SHA256,
    AlgorithmIdentifiers.ECDSA_USING_P384_CURVE_AND_SHA384,
    AlgorithmIdentifiers.ECDSA_USING_P521_CURVE_AND_SHA512,
    AlgorithmIdentifiers.EDDSA
  };

  private final AccessSettings.Jwt settings;
  private final JwtConsumer consumer;

  private Jwts(AccessSettings.Jwt settings, String issuer, String audience, URI jwks) {
    this.settings = settings;
    this.consumer =
        new JwtConsumerBuilder()
            .setExpectedIssuer(true, issuer)
            .setExpectedAudience(true, audience)
            .setRequireExpirationTime()
            .setRequireSubject()
            .setAllowedClockSkewInSeconds(CLOCK_SKEW_SECONDS)
            .setJwsAlgorithmConstraints(ConstraintType.PERMIT, ALGORITHMS)
            .setVerificationKeyResolver(new ProviderKeys(jwks))
            .build();
  }

  static Jwts of(AccessSettings.Jwt settings) {
    String issuer = required("WAYBILL_JWT_ISSUER", settings.issuer(), "https://id.example");
    String audience = required("WAYBILL_JWT_AUDIENCE", settings.audience(), "waybill");
    URI jwks = required("WAYBILL_JWT_JWKS_URL", settings.jwksUrl(), "https://id.example/keys.json");
    @Nullable String host = jwks.getHost();
    if (host == null || !(isHttps(jwks) || (isHttp(jwks) && isThisMachine(host)))) {
      throw new IllegalArgumentException(
          "WAYBILL_JWT_JWKS_URL: whoever changes the keys on their way is everybody; right would be"
              + " https://id.example/keys.json");
    }
    return new Jwts(settings, issuer, audience, jwks);
  }

  private static boolean isHttps(URI uri) {
    return "https".equalsIgnoreCase(uri.getScheme());
  }

  private static boolean isHttp(URI uri) {
    return "http".equalsIgnoreCase(uri.getScheme());
  }

  private static boolean isThisMachine(String host) {
    try {
      return InetAddress.getByName(host).isLoopbackAddress();
    } catch (UnknownHostException _) {
      return false;
    }
  }

  private static <T> T required(String name, Optional<T> value, String right) {
    return value.orElseThrow(() ->
        new IllegalArgumentException(
            name + ": it is missing, and WAYBILL_AUTH=jwt; right would be " + right));
  }

  @Override
  public Caller who(String bearer) {
    JwtClaims claims;
    try {
      claims = consumer.processToClaims(bearer);
    } catch (InvalidJwtException refused) {
      if (isAway(refused)) {
        throw Denied.notNow("The keys of the identity provider cannot be read.");
      }
      // Its message would quote the token.
      throw Denied.unknown(
          refused.hasExpired()
              ? "The token has expired."
              : "The token's signature, issuer or audience is not right.");
    }
    Map<String, Object> all = claims.getClaimsMap();
    Role role = role(strings(claim(all, settings.roleClaim())));
    @Nullable Object kinds = claim(all, settings.kindsClaim());
    @Nullable Object payloads = claim(all, settings.payloadsClaim());
    return new Caller(
        String.valueOf(all.get("sub")),
        role,
        tenant(claim(all, settings.tenantClaim()), role),
        kinds == null ? null : strings(kinds),
        payloads == null ? role.readsPayloads() : payloads.equals(true));
  }

  /** Its keys may have to be fetched, and a signature is long work. */
  @Override
  public @Nullable Caller known(String bearer) {
    return null;
  }

  private static boolean isAway(Throwable failure) {
    for (@Nullable Throwable at = failure; at != null; at = at.getCause()) {
      if (at instanceof ProviderKeys.Away) {
        return true;
      }
    }
    return false;
  }

  /** One role a caller. Who is an operator among other things is an operator. */
  private Role role(Set<String> said) {
    var roles = new TreeSet<Role>();
    for (Role role : Role.values()) {
      if (said.contains(role.word())) {
        roles.add(role);
      }
    }
    if (roles.contains(Role.OPERATOR)) {
      return Role.OPERATOR;
    }
    if (roles.size() != 1) {
      throw Denied.forbidden(
          "The token's claim "
              + settings.roleClaim()
              + " names not exactly one of producer, worker, operator, viewer.");
    }
    return roles.first();
  }

  /** That a claim was forgotten must not open every tenant. */
  private @Nullable String tenant(@Nullable Object claim, Role role) {
    if (claim instanceof String tenant) {
      return tenant.equals(EVERY_TENANT) ? null : tenant;
    }
    if (claim == null && role == Role.OPERATOR) {
      return null;
    }
    throw Denied.forbidden(
        "The token's claim "
            + settings.tenantClaim()
            + " does not name a tenant; for every tenant it says *.");
  }

  private static Set<String> strings(@Nullable Object claim) {
    return switch (claim) {
      case null -> Set.of();
      case String one -> Set.of(one.split(" "));
      case List<?> list -> {
        var all = new HashSet<String>();
        list.forEach(item -> all.add(String.valueOf(item)));
        yield all;
      }
      default -> Set.of();
    };
  }

  /** A claim by its name, or by a path of names. */
  private static @Nullable Object claim(Map<String, Object> claims, String path) {
    @Nullable Object at = claims.get(path);
    if (at != null || path.indexOf('/') < 0 || path.toLowerCase(Locale.ROOT).startsWith("http")) {
      return at;
    }
    at = claims;
    for (String name : path.split("/", -1)) {
      at = at instanceof Map<?, ?> map ? map.get(name) : null;
    }
    return at;
  }
}
