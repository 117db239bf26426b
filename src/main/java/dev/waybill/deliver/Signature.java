package dev.waybill.deliver;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Base64;
import java.util.List;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Signs as Standard Webhooks 1.0 says: {@code v1,} and an HMAC-SHA256 over id, time and body. */
final class Signature {

  private Signature() {}

  /** One for each key, with spaces between. */
  static String of(List<byte[]> keys, String id, long timestamp, byte[] body) {
    return keys.stream().map(key -> of(key, id, timestamp, body)).collect(Collectors.joining(" "));
  }

  private static String of(byte[] key, String id, long timestamp, byte[] body) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
      return "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
