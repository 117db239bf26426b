package dev.waybill.deliver;

import dev.waybill.job.Claimed;
import dev.waybill.job.Outcome;
import dev.waybill.job.Policy;
import dev.waybill.policy.Policies;
import dev.waybill.run.JobContext;
import dev.waybill.run.Push;
import dev.waybill.trace.Span;
import dev.waybill.trace.Tracer;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Clock;
import java.util.Map;
import java.util.Optional;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;
import org.jspecify.annotations.Nullable;

/** The push as the settings say it. */
@Singleton
final class Deliveries implements Push {

  private final PushSettings settings;
  private final Policies policies;
  private final Tracer tracer;
  private volatile @Nullable Courier courier;

  @Inject
  Deliveries(PushSettings settings, Policies policies, Tracer tracer) {
    this.tracer = tracer;
    this.settings = settings;
    this.policies = policies;
  }

  @Override
  public void check() {
    if (settings.concurrency() < 1) {
      throw new IllegalArgumentException(
          "WAYBILL_PUSH_CONCURRENCY: it is below 1; right would be 16");
    }
    var means =
        new Courier.Means(
            Allowlist.parse(settings.allow().orElse("")),
            new Addresses(Network.parse(settings.allowPrivate().orElse(""))),
            new Names(InetAddress::getAllByName),
            Secrets.parse(settings.secrets().orElse("")),
            new Post(tls(settings.caFile()), settings.connectTimeout(), settings.timeout()));
    courier =
        new Courier(
            means,
            settings.connectTimeout(),
            settings.concurrency(),
            policies::of,
            Clock.systemUTC());
  }

  private Courier courier() {
    if (courier == null) {
      throw new IllegalStateException("not checked");
    }
    return courier;
  }

  @Override
  public Outcome deliver(Claimed job, Policy policy, JobContext context)
      throws InterruptedException {
    @Nullable Span span = tracer.push(context.traceparent());
    if (span == null) {
      return courier().deliver(job, policy, context);
    }
    var leg = new Leg(span.context().traceparent());
    Outcome outcome = courier().deliver(job, policy, context, leg);
    // Its path may hold a secret; where it goes is enough.
    span.with("http.request.method", "POST").with("server.address", leg.origin());
    if (leg.status() > 0) {
      span.with("http.response.status_code", leg.status());
    }
    span.failed(!(outcome instanceof Outcome.Done)).end();
    return outcome;
  }

  @Override
  public Map<String, Integer> room(Map<String, Integer> kinds) {
    return courier().room(kinds);
  }

  static SSLSocketFactory tls(Optional<String> authorities) {
    try {
      SSLContext context = SSLContext.getInstance("TLS");
      var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      trust.init(authorities.isEmpty() ? null : keys(Path.of(authorities.get())));
      context.init(null, trust.getTrustManagers(), null);
      return context.getSocketFactory();
    } catch (GeneralSecurityException | IOException failure) {
      throw new IllegalArgumentException(
          "WAYBILL_PUSH_CA_FILE: it cannot be read as certificates; right would be a PEM file",
          failure);
    }
  }

  private static KeyStore keys(Path file) throws GeneralSecurityException, IOException {
    var keys = KeyStore.getInstance(KeyStore.getDefaultType());
    keys.load(null, null);
    try (InputStream in = Files.newInputStream(file)) {
      int n = 0;
      for (Certificate authority :
          CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        keys.setCertificateEntry("ca" + n++, authority);
      }
    }
    return keys;
  }
}
