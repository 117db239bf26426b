package dev.waybill.retain;

import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Reads the settings of the archive. What is wrong with them is said in one line. */
final class Shelves {

  private static final String RIGHT =
      "; right would be file:///var/lib/waybill/archive or s3://bucket/prefix";

  private Shelves() {}

  static Optional<Shelf> of(RetainSettings settings, S3Shelf.Time time) {
    Optional<String> where = settings.archive().map(String::strip).filter(s -> !s.isEmpty());
    return where.map(url -> {
      if (url.startsWith("s3://")) {
        return s3(url, settings.s3(), time);
      }
      if (url.startsWith("file:///")) {
        return directory(url);
      }
      throw new IllegalArgumentException("WAYBILL_ARCHIVE: '" + url + "' is neither" + RIGHT);
    });
  }

  private static Shelf directory(String url) {
    Path root;
    try {
      root = Path.of(URI.create(url));
    } catch (IllegalArgumentException _) {
      throw new IllegalArgumentException("WAYBILL_ARCHIVE: '" + url + "' is no path" + RIGHT);
    }
    if (!Files.isDirectory(root) || !Files.isWritable(root)) {
      throw new IllegalArgumentException(
          "WAYBILL_ARCHIVE: " + root + " is no directory that may be written; make it first");
    }
    return new DirectoryShelf(root);
  }

  private static Shelf s3(String url, RetainSettings.S3 settings, S3Shelf.Time time) {
    String[] place = url.substring("s3://".length()).split("/", 2);
    if (!place[0].matches("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")) {
      throw new IllegalArgumentException("WAYBILL_ARCHIVE: '" + url + "' names no bucket" + RIGHT);
    }
    String prefix = place.length > 1 ? place[1].replaceAll("/+$", "") : "";
    String endpoint =
        settings.endpoint().orElse("https://s3." + settings.region() + ".amazonaws.com");
    if (!endpoint.matches("https?://[A-Za-z0-9.:\\[\\]-]+/?")) {
      throw new IllegalArgumentException(
          "WAYBILL_ARCHIVE_S3_ENDPOINT: '"
              + endpoint
              + "' is no endpoint; right would be https://s3.eu-central-1.amazonaws.com");
    }
    var signature =
        new Signature(
            settings.region(),
            needed(settings.accessKey(), "WAYBILL_ARCHIVE_S3_ACCESS_KEY"),
            needed(settings.secretKey(), "WAYBILL_ARCHIVE_S3_SECRET_KEY"));
    return new S3Shelf(
        URI.create(endpoint),
        place[0],
        prefix.isEmpty() ? "" : prefix + "/",
        signature,
        settings.sessionToken().orElse(null),
        time);
  }

  private static String needed(Optional<String> value, String variable) {
    return value
        .filter(s -> !s.isBlank())
        .orElseThrow(() ->
            new IllegalArgumentException(
                variable + " is not set, and WAYBILL_ARCHIVE names an S3 bucket"));
  }
}
