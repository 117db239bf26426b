package dev.waybill.deliver;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Where a kind's jobs are posted to.
 *
 * @param host as the URL writes it, in lower case, an IPv6 address without its brackets
 * @param path with the query
 */
record Target(boolean tls, String host, int port, String path) {

  static Target of(@Nullable String url) throws Refused {
    if (url == null) {
      throw new Refused("the policy names no push URL");
    }
    URI uri;
    try {
      uri = new URI(url);
    } catch (URISyntaxException _) {
      throw new Refused("the push URL cannot be read");
    }
    String scheme = String.valueOf(uri.getScheme()).toLowerCase(Locale.ROOT);
    @Nullable String host = uri.getHost();
    if (host == null || !(scheme.equals("https") || scheme.equals("http"))) {
      throw new Refused("the push URL is not https://host/path");
    }
    if (uri.getRawUserInfo() != null) {
      throw new Refused("the push URL holds a user");
    }
    boolean tls = scheme.equals("https");
    int port = uri.getPort() > 0 ? uri.getPort() : standardPort(tls);
    String path = uri.getRawPath().isEmpty() ? "/" : uri.getRawPath();
    return new Target(
        tls,
        host.replaceAll("^\\[|]$", "").toLowerCase(Locale.ROOT),
        port,
        uri.toASCIIString().isEmpty() || uri.getRawQuery() == null
            ? ascii(path)
            : ascii(path) + "?" + ascii(uri.getRawQuery()));
  }

  static int standardPort(boolean tls) {
    return tls ? 443 : 80;
  }

  /** java.net.URI lets other letters through; a request line does not. */
  private static String ascii(String part) throws Refused {
    if (!part.chars().allMatch(c -> c > 32 && c < 127)) {
      throw new Refused("the push URL holds characters that must be percent-encoded");
    }
    return part;
  }

  /** Without the path: who shares one is up or down together. */
  String origin() {
    return (tls ? "https://" : "http://") + hostHeader();
  }

  String hostHeader() {
    String name = host.indexOf(':') >= 0 ? "[" + host + "]" : host;
    return port == standardPort(tls) ? name : name + ":" + port;
  }

  boolean isAddress() {
    return host.indexOf(':') >= 0 || host.matches("[0-9.]+");
  }
}
