package dev.waybill.deliver;

import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.net.InetAddress;
import java.time.Clock;

/** Webhooks that the operator of the service names in a setting. */
@Singleton
public final class Webhooks {

  private final PushSettings settings;

  @Inject
  Webhooks(PushSettings settings) {
    this.settings = settings;
  }

  /**
   * The message of a refusal says what would be right, and holds neither the secret nor the URL,
   * which may be one as well.
   *
   * @param secret one or more, with commas between; empty: nothing is signed
   */
  public Webhook at(String urlSetting, String url, String secretSetting, String secret) {
    Target target;
    try {
      target = Target.of(url);
    } catch (Refused refused) {
      throw new IllegalArgumentException(
          urlSetting
              + ": "
              + String.valueOf(refused.getMessage()).replace("push URL", "URL")
              + "; right would be https://hooks.example.com/path");
    }
    return new Webhook(
        target,
        Secrets.keys(secretSetting, secret),
        new Names(InetAddress::getAllByName),
        new Post(Deliveries.tls(settings.caFile()), settings.connectTimeout(), settings.timeout()),
        settings.connectTimeout(),
        Clock.systemUTC());
  }
}
