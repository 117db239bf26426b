package dev.waybill.access;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.jose4j.jwa.AlgorithmConstraints;
import org.jose4j.jwk.EcJwkGenerator;
import org.jose4j.jwk.JsonWebKey;
import org.jose4j.jwk.JsonWebKeySet;
import org.jose4j.jwk.PublicJsonWebKey;
import org.jose4j.jwk.RsaJwkGenerator;
import org.jose4j.jws.AlgorithmIdentifiers;
import org.jose4j.jws.JsonWebSignature;
import org.jose4j.jwt.JwtClaims;
import org.jose4j.keys.EllipticCurves;
import org.jose4j.keys.HmacKey;
import org.jose4j.lang.JoseException;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** JWTs against a provider on this machine that publishes its keys. */
class JwtsTest {

  private static final String ISSUER = "https://id.example";

  private static PublicJsonWebKey rsa = key(AlgorithmIdentifiers.RSA_USING_SHA256);
  private static PublicJsonWebKey ec = key(AlgorithmIdentifiers.ECDSA_USING_P256_CURVE_AND_SHA256);

  private final AtomicReference<String> published = new AtomicReference<>("");
  private final AtomicInteger asked = new AtomicInteger();
  private int status = 200;
  private HttpServer provider = server();

  private static PublicJsonWebKey key(String algorithm) {
    try {
      PublicJsonWebKey key =
          algorithm.startsWith("RS")
              ? RsaJwkGenerator.generateJwk(2048)
              : EcJwkGenerator.generateJwk(EllipticCurves.P256);
      key.setKeyId(algorithm + System.nanoTime());
      key.setAlgorithm(algorithm);
      return key;
    } catch (JoseException failure) {
      throw new IllegalStateException(failure);
    }
  }

  @BeforeAll
  static void keysDiffer() {
    assertFalse(rsa.getKeyId().equals(ec.getKeyId()));
  }

  private static HttpServer server() {
    try {
      return HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    } catch (IOException failure) {
      throw new IllegalStateException(failure);
    }
  }

  @BeforeEach
  void start() {
    publish(rsa, ec);
    provider.createContext(
        "/",
        exchange -> {
          asked.incrementAndGet();
          byte[] keys = published.get().getBytes(StandardCharsets.UTF_8);
          exchange.sendResponseHeaders(status, keys.length);
          exchange.getResponseBody().write(keys);
          exchange.close();
        });
    provider.start();
  }

  @AfterEach
  void stop() {
    provider.stop(0);
  }

  private void publish(JsonWebKey... keys) {
    published.set(new JsonWebKeySet(keys).toJson(JsonWebKey.OutputControlLevel.PUBLIC_ONLY));
  }

  private record Fixed(
      Optional<String> issuer, Optional<String> audience, Optional<URI> jwksUrl, String roleClaim)
      implements AccessSettings.Jwt {
    @Override
    public String tenantClaim() {
      return "waybill_tenant";
    }

    @Override
    public String kindsClaim() {
      return "waybill_kinds";
    }

    @Override
    public String payloadsClaim() {
      return "waybill_payloads";
    }
  }

  private Jwts jwts(String roleClaim) {
    return Jwts.of(
        new Fixed(
            Optional.of(ISSUER),
            Optional.of("waybill"),
            Optional.of(URI.create("http://127.0.0.1:" + provider.getAddress().getPort() + "/")),
            roleClaim));
  }

  private static JwtClaims claims(String role) {
    var claims = new JwtClaims();
    claims.setIssuer(ISSUER);
    claims.setAudience("waybill", "other");
    claims.setSubject("ann");
    claims.setExpirationTimeMinutesInTheFuture(5);
    claims.setClaim("waybill_role", role);
    claims.setClaim("waybill_tenant", "acme");
    return claims;
  }

  private static String signed(JwtClaims claims, PublicJsonWebKey key) {
    try {
      var signature = new JsonWebSignature();
      signature.setPayload(claims.toJson());
      signature.setKey(key.getPrivateKey());
      signature.setKeyIdHeaderValue(key.getKeyId());
      signature.setAlgorithmHeaderValue(key.getAlgorithm());
      return signature.getCompactSerialization();
    } catch (JoseException failure) {
      throw new IllegalStateException(failure);
    }
  }

  private Denied refused(String token) {
    return assertThrows(Denied.class, () -> jwts("waybill_role").who(token));
  }

  @Test
  void a_token_says_name_role_tenant_kinds_and_the_right_to_payloads() {
    JwtClaims claims = claims("producer");
    claims.setStringListClaim("waybill_kinds", "mail", "sms");
    claims.setClaim("waybill_payloads", true);
    for (PublicJsonWebKey key : List.of(rsa, ec)) {
      Caller caller = jwts("waybill_role").who(signed(claims, key));
      assertEquals(new Caller("ann", Role.PRODUCER, "acme", Set.of("mail", "sms"), true), caller);
    }
    Caller plain = jwts("waybill_role").who(signed(claims("viewer"), rsa));
    assertEquals(new Caller("ann", Role.VIEWER, "acme", null, false), plain);
  }

  @Test
  void a_role_may_stand_on_a_path_among_others() {
    JwtClaims claims = claims("x");
    claims.setClaim("realm_access", Map.of("roles", List.of("offline_access", "worker")));
    assertEquals(Role.WORKER, jwts("realm_access/roles").who(signed(claims, rsa)).role());
  }

  @Test
  void what_is_not_right_is_not_known() {
    List<Consumer<JwtClaims>> wrongs =
        List.of(
            c -> c.setIssuer("https://evil.example"),
            c -> c.setAudience("other"),
            c -> c.unsetClaim("aud"),
            c -> c.unsetClaim("iss"),
            c -> c.unsetClaim("exp"),
            c -> c.unsetClaim("sub"),
            c -> c.setExpirationTimeMinutesInTheFuture(-2),
            c -> c.setNotBeforeMinutesInThePast(-5));
    for (Consumer<JwtClaims> wrong : wrongs) {
      JwtClaims claims = claims("operator");
      wrong.accept(claims);
      assertEquals(Denied.Why.UNKNOWN, refused(signed(claims, rsa)).why(), claims::toString);
    }
    for (String garbage : List.of("", "x", "a.b.c", signed(claims("operator"), rsa) + "x")) {
      assertEquals(Denied.Why.UNKNOWN, refused(garbage).why());
    }
  }

  @Test
  void a_key_that_was_not_published_signs_nothing() {
    PublicJsonWebKey other = key(AlgorithmIdentifiers.RSA_USING_SHA256);
    other.setKeyId(rsa.getKeyId());
    assertEquals(Denied.Why.UNKNOWN, refused(signed(claims("operator"), other)).why());
  }

  /** The classic: none, and the public key taken for a shared one. */
  @Test
  void neither_no_signature_nor_a_shared_key_counts() throws JoseException {
    var none = new JsonWebSignature();
    none.setAlgorithmConstraints(AlgorithmConstraints.NO_CONSTRAINTS);
    none.setAlgorithmHeaderValue(AlgorithmIdentifiers.NONE);
    none.setPayload(claims("operator").toJson());
    assertEquals(Denied.Why.UNKNOWN, refused(none.getCompactSerialization()).why());
    var shared = new JsonWebSignature();
    shared.setAlgorithmHeaderValue(AlgorithmIdentifiers.HMAC_SHA256);
    shared.setKeyIdHeaderValue(rsa.getKeyId());
    shared.setKey(new HmacKey(rsa.getPublicKey().getEncoded()));
    shared.setPayload(claims("operator").toJson());
    assertEquals(Denied.Why.UNKNOWN, refused(shared.getCompactSerialization()).why());
  }

  @Test
  void a_role_or_tenant_that_is_missing_opens_nothing() {
    assertEquals(Denied.Why.FORBIDDEN, refused(signed(claims("admin"), rsa)).why());
    JwtClaims two = claims("x");
    two.setStringListClaim("waybill_role", "producer", "worker");
    assertEquals(Denied.Why.FORBIDDEN, refused(signed(two, rsa)).why());
    JwtClaims without = claims("viewer");
    without.unsetClaim("waybill_tenant");
    assertEquals(Denied.Why.FORBIDDEN, refused(signed(without, rsa)).why());
    JwtClaims odd = claims("operator");
    odd.setClaim("waybill_tenant", 7);
    assertEquals(Denied.Why.FORBIDDEN, refused(signed(odd, rsa)).why());
    JwtClaims every = claims("viewer");
    every.setClaim("waybill_tenant", "*");
    assertEquals(tenant(every), null);
    JwtClaims operator = claims("operator");
    operator.unsetClaim("waybill_tenant");
    assertEquals(tenant(operator), null);
  }

  private @Nullable String tenant(JwtClaims claims) {
    return jwts("waybill_role").who(signed(claims, rsa)).tenant();
  }

  @Test
  void keys_are_read_once_and_the_last_ones_count_while_the_provider_is_away() {
    Jwts jwts = jwts("waybill_role");
    assertEquals("ann", jwts.who(signed(claims("viewer"), rsa)).name());
    status = 500;
    for (int i = 0; i < 20; i++) {
      assertEquals("ann", jwts.who(signed(claims("viewer"), rsa)).name());
    }
    assertEquals(1, asked.get());
    // Tokens with keys that nobody has do not make it ask each time.
    PublicJsonWebKey other = key(AlgorithmIdentifiers.RSA_USING_SHA256);
    for (int i = 0; i < 20; i++) {
      assertThrows(Denied.class, () -> jwts.who(signed(claims("viewer"), other)));
    }
    assertTrue(asked.get() <= 2, "asked " + asked.get());
  }

  @Test
  void without_any_keys_it_is_said_to_come_again() {
    status = 500;
    assertEquals(Denied.Why.NOT_NOW, refused(signed(claims("viewer"), rsa)).why());
  }

  @Test
  void keys_over_plain_http_are_for_this_machine_only() {
    for (String url : List.of("http://id.example/keys", "ftp://127.0.0.1/", "keys.json")) {
      IllegalArgumentException refused =
          assertThrows(
              IllegalArgumentException.class,
              () ->
                  Jwts.of(
                      new Fixed(
                          Optional.of(ISSUER),
                          Optional.of("waybill"),
                          Optional.of(URI.create(url)),
                          "r")));
      assertTrue(String.valueOf(refused.getMessage()).startsWith("WAYBILL_JWT_JWKS_URL"));
    }
  }
}
