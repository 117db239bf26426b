package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import org.jose4j.jwk.JsonWebKey;
import org.jose4j.jwk.JsonWebKeySet;
import org.jose4j.jwk.PublicJsonWebKey;
import org.jose4j.jwk.RsaJwkGenerator;
import org.jose4j.jws.AlgorithmIdentifiers;
import org.jose4j.jws.JsonWebSignature;
import org.jose4j.jwt.JwtClaims;
import org.jose4j.lang.JoseException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Callers with a JWT of an identity provider, which is a server of this test. */
@ExtendWith(Processes.class)
final class JwtIT {

  private static final String ISSUER = "https://id.example";

  private static PublicJsonWebKey key;
  private static HttpServer provider;
  private static ServiceProcess service;

  @BeforeAll
  static void start() throws Exception {
    key = key("right");
    provider = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    byte[] keys =
        new JsonWebKeySet(key)
            .toJson(JsonWebKey.OutputControlLevel.PUBLIC_ONLY)
            .getBytes(StandardCharsets.UTF_8);
    provider.createContext(
        "/keys",
        exchange -> {
          exchange.sendResponseHeaders(200, keys.length);
          exchange.getResponseBody().write(keys);
          exchange.close();
        });
    provider.start();
    service =
        ServiceProcess.on(TestPostgres.shared().newDatabase())
            .with("WAYBILL_AUTH", "jwt")
            .with("WAYBILL_JWT_ISSUER", ISSUER)
            .with("WAYBILL_JWT_AUDIENCE", "waybill")
            .with(
                "WAYBILL_JWT_JWKS_URL",
                "http://localhost:" + provider.getAddress().getPort() + "/keys")
            .startReady();
  }

  @AfterAll
  static void stop() {
    provider.stop(0);
  }

  private static PublicJsonWebKey key(String id) throws JoseException {
    PublicJsonWebKey made = RsaJwkGenerator.generateJwk(2048);
    made.setKeyId(id);
    return made;
  }

  private static String token(PublicJsonWebKey by, String role, String tenant, float minutes)
      throws JoseException {
    var claims = new JwtClaims();
    claims.setIssuer(ISSUER);
    claims.setAudience("waybill");
    claims.setSubject("it");
    claims.setExpirationTimeMinutesInTheFuture(minutes);
    claims.setStringClaim("waybill_role", role);
    claims.setStringClaim("waybill_tenant", tenant);
    var signed = new JsonWebSignature();
    signed.setPayload(claims.toJson());
    signed.setKey(by.getPrivateKey());
    signed.setKeyIdHeaderValue(by.getKeyId());
    signed.setAlgorithmHeaderValue(AlgorithmIdentifiers.RSA_USING_SHA256);
    return signed.getCompactSerialization();
  }

  private static int enqueue(String token, String tenant) throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://localhost:" + service.port() + "/v1/jobs"))
            .header("Authorization", "Bearer " + token)
            .header("Content-Type", "application/json")
            .POST(
                HttpRequest.BodyPublishers.ofString(
                    "{\"kind\": \"echo\", \"tenant\": \"" + tenant + "\"}"))
            .build();
    try (HttpClient client = HttpClient.newHttpClient()) {
      return client.send(request, BodyHandlers.ofString()).statusCode();
    }
  }

  @Test
  void role_and_tenant_of_the_token_hold_and_a_forged_or_old_one_is_nobodys() throws Exception {
    assertEquals(201, enqueue(token(key, "producer", "acme", 5), "acme"));
    assertEquals(403, enqueue(token(key, "producer", "acme", 5), "other"), "of another tenant");
    assertEquals(403, enqueue(token(key, "viewer", "acme", 5), "acme"), "not for this role");
    assertEquals(401, enqueue(token(key, "producer", "acme", -10), "acme"), "it has expired");
    assertEquals(401, enqueue(token(key("right"), "producer", "acme", 5), "acme"), "forged");
    assertEquals(401, enqueue("nonsense", "acme"));
  }
}
