package dev.waybill.deliver;

import java.time.DateTimeException;
import java.time.Duration;
import java.time.InstantSource;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** How long a target asks to be left alone: seconds, or a date. */
final class RetryAfter {

  private static final Duration MIN = Duration.ofSeconds(1);
  private static final Duration MAX = Duration.ofDays(1);
  private static final DateTimeFormatter DATE =
      DateTimeFormatter.RFC_1123_DATE_TIME.withLocale(Locale.ROOT);

  private RetryAfter() {}

  /**
   * Null when it does not say so, or not readably. A date counts from the target's own, if it says
   * it.
   */
  static @Nullable Duration of(Post.Answer answer, InstantSource clock) {
    @Nullable String text = answer.retryAfter();
    if (text == null) {
      return null;
    }
    if (text.matches("[0-9]{1,9}")) {
      return bounded(Duration.ofSeconds(Long.parseLong(text)));
    }
    try {
      ZonedDateTime until = ZonedDateTime.parse(text, DATE);
      return bounded(
          Duration.between(
              answer.date() == null
                  ? clock.instant()
                  : ZonedDateTime.parse(answer.date(), DATE).toInstant(),
              until.toInstant()));
    } catch (DateTimeException _) {
      return null;
    }
  }

  private static Duration bounded(Duration asked) {
    if (asked.compareTo(MIN) < 0) {
      return MIN;
    }
    return asked.compareTo(MAX) > 0 ? MAX : asked;
  }
}
