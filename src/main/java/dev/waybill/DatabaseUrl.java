package dev.waybill;

import java.net.URI;
import java.net.URISyntaxException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/**
 * {@code WAYBILL_DB_URL}: as JDBC writes it, or as libpq and most platforms do, with user and
 * password inside.
 */
record DatabaseUrl(String jdbc, @Nullable String user, @Nullable String password) {

  /** Said to the user in one line. */
  static final class Refused extends Exception {
    private static final long serialVersionUID = 1L;

    Refused(String message) {
      super(message);
    }
  }

  static DatabaseUrl parse(String url) throws Refused {
    if (url.startsWith("jdbc:postgresql:")) {
      return new DatabaseUrl(url, null, null);
    }
    if (!url.startsWith("postgresql://") && !url.startsWith("postgres://")) {
      throw new Refused(
          "WAYBILL_DB_URL is not a PostgreSQL URL; right would be postgresql://user:password@host:5432/database");
    }
    try {
      var uri = new URI(url);
      String query = uri.getRawQuery() == null ? "" : "?" + uri.getRawQuery();
      // Taken apart by hand: URI knows no host with an underscore in it, and no list of hosts.
      String[] authority = String.valueOf(uri.getRawAuthority()).split("@", -1);
      if (uri.getRawAuthority() == null || authority.length > 2) {
        throw unreadable();
      }
      String[] who = authority.length == 2 ? authority[0].split(":", 2) : new String[0];
      return new DatabaseUrl(
          "jdbc:postgresql://" + authority[authority.length - 1] + uri.getRawPath() + query,
          who.length > 0 ? decode(who[0]) : null,
          who.length > 1 ? decode(who[1]) : null);
    } catch (URISyntaxException _) {
      // Its message would quote the password.
      throw unreadable();
    }
  }

  private static Refused unreadable() {
    return new Refused(
        "WAYBILL_DB_URL cannot be read; right would be postgresql://user:password@host:5432/database,"
            + " with characters such as @ : / in the password written %40 %3A %2F");
  }

  /** System properties outrank the settings file, where Quarkus looks for them. */
  void apply() {
    System.setProperty("quarkus.datasource.jdbc.url", jdbc);
    if (user != null) {
      System.setProperty("quarkus.datasource.username", user);
    }
    if (password != null) {
      System.setProperty("quarkus.datasource.password", password);
    }
  }

  /** Without the password. */
  @Override
  public String toString() {
    return jdbc;
  }

  private static String decode(String part) {
    return URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8);
  }
}
