package dev.waybill;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Secrets from files, as Kubernetes and Docker mount them: {@code WAYBILL_DB_PASSWORD_FILE} names a
 * file that holds what {@code WAYBILL_DB_PASSWORD} would say.
 */
final class SecretFiles {

  /** By variable, the name that Quarkus knows the setting by. */
  private static final Map<String, String> SECRETS =
      Map.of(
          "WAYBILL_DB_URL", "waybill.db.url",
          "WAYBILL_DB_PASSWORD", "waybill.db.password",
          "WAYBILL_LISTEN_URL", "waybill.listen.url",
          "WAYBILL_FIRST_TOKEN", "waybill.first-token",
          "WAYBILL_PUSH_SECRETS", "waybill.push.secrets",
          // The URL of a chat's webhook is all that it takes to write there.
          "WAYBILL_ALERT_WEBHOOK", "waybill.alert.webhook",
          "WAYBILL_ALERT_SECRET", "waybill.alert.secret");

  private static final int BYTES_MAX = 65_536;

  private SecretFiles() {}

  /** System properties outrank the environment, where Quarkus looks for settings. */
  static void read() throws Preflight.Refused {
    for (var entry : SECRETS.entrySet()) {
      String secret = entry.getKey();
      @Nullable String file = System.getenv(secret + "_FILE");
      if (file != null && !file.isBlank()) {
        if (System.getenv(secret) != null) {
          throw new Preflight.Refused(
              secret + "_FILE: " + secret + " is set as well; right would be one of the two");
        }
        System.setProperty(entry.getValue(), content(secret, Path.of(file)));
      }
    }
  }

  private static String content(String secret, Path file) throws Preflight.Refused {
    try {
      if (Files.size(file) <= BYTES_MAX) {
        // A line that ends in a line feed is what most tools write.
        return Files.readString(file).stripTrailing();
      }
    } catch (IOException _) {
      // Said below.
    }
    throw new Preflight.Refused(
        secret
            + "_FILE: "
            + file
            + " cannot be read as text of at most 64 KiB; right would be the path of a file that"
            + " holds just the secret");
  }
}
