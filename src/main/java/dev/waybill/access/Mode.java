package dev.waybill.access;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Locale;

/** How callers prove who they are: {@code WAYBILL_AUTH}. */
public enum Mode {
  /** Nobody is asked: everybody who reaches the port is an operator. */
  NONE,
  /** Tokens of {@code waybill.tokens}. */
  TOKEN,
  /** Tokens that an identity provider signed. */
  JWT;

  /**
   * Reads the setting, and refuses to serve everybody at an address that others can reach, unless
   * it was said twice.
   *
   * @param setting none, token, jwt, or empty for none
   */
  public static Mode of(String setting, boolean noneAnywhere, String host) {
    boolean said = !setting.isBlank();
    Mode mode = said ? parse(setting.strip()) : NONE;
    if (mode == NONE && !isLoopback(host) && !(said && noneAnywhere)) {
      throw new IllegalArgumentException(
          "WAYBILL_AUTH: without credentials everybody who reaches "
              + host
              + " (WAYBILL_HTTP_HOST) may do everything; right would be token or jwt (or both WAYBILL_AUTH=none and"
              + " WAYBILL_AUTH_NONE_ANYWHERE=true, to insist)");
    }
    return mode;
  }

  private static Mode parse(String word) {
    try {
      return valueOf(word.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException _) {
      throw new IllegalArgumentException(
          "WAYBILL_AUTH: '" + word + "' is not one of none, token, jwt; right would be token");
    }
  }

  private static boolean isLoopback(String host) {
    try {
      return InetAddress.getByName(host).isLoopbackAddress();
    } catch (UnknownHostException _) {
      return false;
    }
  }
}
