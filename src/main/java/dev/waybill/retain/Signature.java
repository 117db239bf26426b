package dev.waybill.retain;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Signs requests to S3 as AWS Signature Version 4 asks for it, in the header. */
record Signature(String region, String accessKey, String secretKey) {

  private static final DateTimeFormatter STAMP =
      DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'", Locale.ROOT).withZone(ZoneOffset.UTC);

  private static final String ALGORITHM = "AWS4-HMAC-SHA256";

  static String stamp(Instant when) {
    return STAMP.format(when);
  }

  /** Without the secret. */
  @Override
  public String toString() {
    return "Signature[" + region + "]";
  }

  /**
   * The value of {@code Authorization}. The path of the URI is taken as it stands: encoded once,
   * which is S3's rule and no other service's.
   *
   * @param headers all that is to be signed, {@code x-amz-date} among them
   */
  String authorization(String method, URI uri, Map<String, String> headers, String bodySha256) {
    SortedMap<String, String> signed = new TreeMap<>();
    headers.forEach((name, value) -> signed.put(name.toLowerCase(Locale.ROOT), value.strip()));
    String names = String.join(";", signed.keySet());
    String request =
        String.join(
            "\n",
            method,
            uri.getRawPath().isEmpty() ? "/" : uri.getRawPath(),
            sortedQuery(uri),
            signed.entrySet().stream()
                .map(header -> header.getKey() + ":" + header.getValue() + "\n")
                .collect(Collectors.joining()),
            names,
            bodySha256);
    String stamp = signed.getOrDefault("x-amz-date", "");
    String scope = stamp.substring(0, 8) + "/" + region + "/s3/aws4_request";
    String toSign = String.join("\n", ALGORITHM, stamp, scope, sha256(bytes(request)));
    byte[] key = bytes("AWS4" + secretKey);
    for (String part : scope.split("/", -1)) {
      key = hmac(key, part);
    }
    return ALGORITHM
        + " Credential="
        + accessKey
        + "/"
        + scope
        + ",SignedHeaders="
        + names
        + ",Signature="
        + HexFormat.of().formatHex(hmac(key, toSign));
  }

  /** By name, each with its equals sign, as they stand in the URI otherwise. */
  private static String sortedQuery(URI uri) {
    String query = uri.getRawQuery();
    if (query == null) {
      return "";
    }
    return Arrays.stream(query.split("&", -1))
        .map(parameter -> parameter.contains("=") ? parameter : parameter + "=")
        .sorted()
        .collect(Collectors.joining("&"));
  }

  /** Every byte but letters, digits and {@code - . _ ~} is encoded, and {@code /} if asked. */
  static String encode(String text, boolean slashes) {
    var encoded = new StringBuilder();
    for (byte b : bytes(text)) {
      char c = (char) (b & 0xff);
      boolean plain =
          (c >= 'A' && c <= 'Z')
              || (c >= 'a' && c <= 'z')
              || (c >= '0' && c <= '9')
              || "-._~".indexOf(c) >= 0
              || (c == '/' && !slashes);
      if (plain) {
        encoded.append(c);
      } else {
        encoded.append('%').append(HexFormat.of().withUpperCase().toHexDigits(b));
      }
    }
    return encoded.toString();
  }

  static String sha256(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static byte[] hmac(byte[] key, String text) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return mac.doFinal(bytes(text));
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
