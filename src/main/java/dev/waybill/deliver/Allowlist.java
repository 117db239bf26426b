package dev.waybill.deliver;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The targets that an operator of the service allows: {@code hooks.example.com}, {@code
 * *.example.com}, {@code http://intern:8080}. Whoever may change a policy may not choose any other.
 */
final class Allowlist {

  private static final int ANY_PORT = -1;
  private static final Pattern ENTRY =
      Pattern.compile(
          "(?:(https?)://)?(\\[[0-9a-f:.]+]|\\*|(?:\\*\\.)?[a-z0-9_.-]+)(?::([0-9]{1,5}|\\*))?");

  private record Entry(boolean tls, String host, int port) {
    boolean matches(Target target) {
      return tls == target.tls()
          && (port == ANY_PORT || port == target.port())
          && hostMatches(target);
    }

    private boolean hostMatches(Target target) {
      if (host.equals("*")) {
        return !target.isAddress();
      }
      return host.startsWith("*.")
          ? target.host().endsWith(host.substring(1))
          : target.host().equals(host);
    }
  }

  private final List<Entry> entries;

  private Allowlist(List<Entry> entries) {
    this.entries = entries;
  }

  /** The message of a refusal says what would be right. */
  static Allowlist parse(String setting) {
    var entries = new ArrayList<Entry>();
    for (String part : setting.toLowerCase(Locale.ROOT).split("[,\\s]+", -1)) {
      if (part.isEmpty()) {
        continue;
      }
      Matcher entry = ENTRY.matcher(part);
      if (!entry.matches()) {
        throw new IllegalArgumentException(
            "WAYBILL_PUSH_ALLOW: '"
                + part
                + "' is no host; right would be hooks.example.com,*.example.org,http://intern:8080");
      }
      boolean tls = !"http".equals(entry.group(1));
      String port = entry.group(3);
      entries.add(
          new Entry(
              tls,
              entry.group(2).replaceAll("^\\[|]$", ""),
              port == null
                  ? Target.standardPort(tls)
                  : port.equals("*") ? ANY_PORT : Integer.parseInt(port)));
    }
    return new Allowlist(List.copyOf(entries));
  }

  void check(Target target) throws Refused {
    if (entries.stream().noneMatch(entry -> entry.matches(target))) {
      throw new Refused("the push target " + target.origin() + " is not in WAYBILL_PUSH_ALLOW");
    }
  }
}
