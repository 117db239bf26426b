package dev.waybill.deliver;

import io.quarkus.runtime.configuration.DurationConverter;
import io.smallrye.config.SmallRyeConfigBuilder;
import java.time.Duration;

/** Webhooks with the settings of push that these properties say. */
public final class TestWebhooks {

  private TestWebhooks() {}

  public static Webhooks of(String... namesAndValues) {
    var config =
        new SmallRyeConfigBuilder()
            .withMapping(PushSettings.class)
            .withConverter(Duration.class, 200, new DurationConverter());
    for (int i = 0; i < namesAndValues.length; i += 2) {
      config.withDefaultValue(namesAndValues[i], namesAndValues[i + 1]);
    }
    return new Webhooks(config.build().getConfigMapping(PushSettings.class));
  }
}
