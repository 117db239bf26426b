package dev.waybill.job;

import org.jspecify.annotations.Nullable;

/**
 * Error text comes from handlers and is not trusted: bounded, and cleaned of what PostgreSQL or a
 * terminal cannot take.
 */
public final class ErrorText {

  public static final int LENGTH_MAX = 4_000;

  private ErrorText() {}

  public static String of(Throwable failure) {
    @Nullable String message = messageOf(failure);
    String name = failure.getClass().getName();
    return clean(message == null || message.isBlank() ? name : name + ": " + message);
  }

  /** Foreign code, which may throw in its turn. */
  private static @Nullable String messageOf(Throwable failure) {
    try {
      return failure.getMessage();
    } catch (RuntimeException | Error _) {
      return null;
    }
  }

  /**
   * NUL, other controls and lone surrogates become U+FFFD; an empty text becomes a word, since a
   * dead letter must say something.
   */
  public static String clean(@Nullable String text) {
    if (text == null || text.isBlank()) {
      return "no reason given";
    }
    var cleaned = new StringBuilder(Math.min(text.length(), LENGTH_MAX));
    int at = 0;
    while (at < text.length() && cleaned.length() < LENGTH_MAX) {
      int point = text.codePointAt(at);
      at += Character.charCount(point);
      boolean bad =
          (Character.isISOControl(point) && point != '\n' && point != '\t')
              || (point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE);
      cleaned.appendCodePoint(bad ? 0xFFFD : point);
    }
    return cleaned.toString();
  }
}
