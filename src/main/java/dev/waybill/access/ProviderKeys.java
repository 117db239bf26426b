package dev.waybill.access;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.Key;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.jboss.logging.Logger;
import org.jose4j.jwk.JsonWebKey;
import org.jose4j.jwk.JsonWebKeySet;
import org.jose4j.jwk.VerificationJwkSelector;
import org.jose4j.jws.JsonWebSignature;
import org.jose4j.jwx.JsonWebStructure;
import org.jose4j.keys.resolvers.VerificationKeyResolver;
import org.jose4j.lang.JoseException;
import org.jose4j.lang.UnresolvableKeyException;
import org.jspecify.annotations.Nullable;

/**
 * The public keys of the identity provider: read again every few minutes, and sooner when a token
 * names one that is not among them, but not for each such token. When they cannot be read the last
 * ones count.
 */
final class ProviderKeys implements VerificationKeyResolver {

  /** There are no keys at all yet. */
  static final class Away extends UnresolvableKeyException {
    private static final long serialVersionUID = 1L;

    Away() {
      super("the keys were never read");
    }
  }

  private static final Logger LOG = Logger.getLogger(ProviderKeys.class);
  private static final long REFRESH_NANOS = TimeUnit.MINUTES.toNanos(5);
  private static final long AGAIN_NANOS = TimeUnit.SECONDS.toNanos(5);
  private static final int BYTES_MAX = 1 << 20;

  private final URI location;
  private final HttpClient client =
      HttpClient.newBuilder()
          .connectTimeout(Duration.ofSeconds(3))
          .followRedirects(HttpClient.Redirect.NEVER)
          .build();
  private final VerificationJwkSelector selector = new VerificationJwkSelector();
  private final ReentrantLock reading = new ReentrantLock();
  private volatile @Nullable List<JsonWebKey> keys;
  private volatile long triedNanos = System.nanoTime() - REFRESH_NANOS;

  ProviderKeys(URI location) {
    this.location = location;
  }

  @Override
  public Key resolveKey(JsonWebSignature signature, List<JsonWebStructure> nesting)
      throws UnresolvableKeyException {
    if (System.nanoTime() - triedNanos >= REFRESH_NANOS) {
      read(REFRESH_NANOS);
    }
    try {
      @Nullable JsonWebKey key = select(signature);
      if (key == null) {
        read(AGAIN_NANOS);
        key = select(signature);
      }
      if (keys == null) {
        throw new Away();
      }
      if (key == null) {
        throw new UnresolvableKeyException("no such key");
      }
      return key.getKey();
    } catch (JoseException unusable) {
      throw new UnresolvableKeyException("the key cannot be used", unusable);
    }
  }

  private @Nullable JsonWebKey select(JsonWebSignature signature) throws JoseException {
    @Nullable List<JsonWebKey> now = keys;
    return now == null ? null : selector.select(signature, now);
  }

  /** By one thread; the others wait for it and use what it found. */
  private void read(long notWithinNanos) {
    reading.lock();
    try {
      if (System.nanoTime() - triedNanos < notWithinNanos) {
        return;
      }
      triedNanos = System.nanoTime();
      keys = new JsonWebKeySet(fetch()).getJsonWebKeys();
    } catch (IOException | JoseException failure) {
      LOG.warnf("keys of the identity provider not read: %s", failure.getClass().getSimpleName());
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    } finally {
      reading.unlock();
    }
  }

  private String fetch() throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(location)
            .timeout(Duration.ofSeconds(5))
            .header("Accept", "application/json")
            .build();
    HttpResponse<InputStream> response =
        client.send(request, HttpResponse.BodyHandlers.ofInputStream());
    try (InputStream body = response.body()) {
      if (response.statusCode() != 200) {
        throw new IOException("status " + response.statusCode());
      }
      byte[] bytes = body.readNBytes(BYTES_MAX);
      return new String(bytes, StandardCharsets.UTF_8);
    }
  }
}
