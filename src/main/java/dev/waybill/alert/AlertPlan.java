package dev.waybill.alert;

import dev.waybill.deliver.Webhook;
import dev.waybill.deliver.Webhooks;
import io.quarkus.runtime.configuration.DurationConverter;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.LocalTime;
import java.time.temporal.ChronoUnit;
import org.jspecify.annotations.Nullable;

/**
 * The settings, read. The message of a refusal says what would be right.
 *
 * @param growth 0: sudden growth is not told
 * @param daily by UTC; null: not told
 */
record AlertPlan(
    long growth, Duration window, @Nullable LocalTime daily, @Nullable Webhook webhook) {

  private static final Duration WINDOW_MIN = Duration.ofMinutes(1);
  private static final Duration WINDOW_MAX = Duration.ofDays(1);

  static AlertPlan of(AlertSettings settings, Webhooks webhooks) {
    return new AlertPlan(
        growth(settings.growth().strip()),
        window(settings.window().strip()),
        daily(settings.daily().strip()),
        webhook(settings, webhooks));
  }

  private static long growth(String text) {
    if (text.matches("[0-9]{1,9}")) {
      return Long.parseLong(text);
    }
    throw new IllegalArgumentException(
        "WAYBILL_ALERT_GROWTH: '"
            + text
            + "' is no number of dead letters; right would be 20, or 0 for none");
  }

  private static Duration window(String text) {
    try {
      Duration window = DurationConverter.parseDuration(text);
      if (window.compareTo(WINDOW_MIN) >= 0 && window.compareTo(WINDOW_MAX) <= 0) {
        return window;
      }
    } catch (IllegalArgumentException _) {
      // Said below.
    }
    throw new IllegalArgumentException(
        "WAYBILL_ALERT_WINDOW: '"
            + text
            + "' is no duration from a minute to a day; right would be 10m");
  }

  private static @Nullable LocalTime daily(String text) {
    if (text.equals("off")) {
      return null;
    }
    try {
      return LocalTime.parse(text).truncatedTo(ChronoUnit.SECONDS);
    } catch (DateTimeException _) {
      throw new IllegalArgumentException(
          "WAYBILL_ALERT_DAILY: '"
              + text
              + "' is no time of day (UTC); right would be 08:00, or off");
    }
  }

  private static @Nullable Webhook webhook(AlertSettings settings, Webhooks webhooks) {
    String url = settings.webhook().orElse("").strip();
    String secret = settings.secret().orElse("").strip();
    if (!url.isEmpty()) {
      return webhooks.at("WAYBILL_ALERT_WEBHOOK", url, "WAYBILL_ALERT_SECRET", secret);
    }
    if (!secret.isEmpty()) {
      throw new IllegalArgumentException(
          "WAYBILL_ALERT_SECRET: there is nothing to sign; right would be WAYBILL_ALERT_WEBHOOK beside it");
    }
    return null;
  }
}
