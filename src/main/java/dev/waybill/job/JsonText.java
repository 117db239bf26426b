package dev.waybill.job;

/** What jsonb cannot hold although it is JSON. */
public final class JsonText {

  private static final String NUL = "\\u0000";

  private JsonText() {}

  /**
   * Whether a string in this JSON text holds U+0000. Six characters that look like its escape are
   * none when the backslash is itself escaped.
   */
  public static boolean holdsNul(String json) {
    for (int at = json.indexOf(NUL); at >= 0; at = json.indexOf(NUL, at + 1)) {
      int first = at;
      while (first > 0 && json.charAt(first - 1) == '\\') {
        first--;
      }
      if ((at - first) % 2 == 0) {
        return true;
      }
    }
    return false;
  }
}
