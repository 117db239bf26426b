package dev.waybill;

import dev.waybill.access.Mode;
import io.quarkus.runtime.configuration.DurationConverter;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Settings that Quarkus itself reads before anything of ours runs, and would refuse in its own way:
 * in several lines, and without saying what would be right.
 */
final class Preflight {

  /** A migration holds one and asks with another. */
  private static final int CONNECTIONS_MIN = 2;

  private static final int CONNECTIONS_MAX = 1_000;
  private static final Duration DRAIN_MAX = Duration.ofDays(1);
  private static final Duration AFTER_DRAIN = Duration.ofSeconds(30);

  private Preflight() {}

  /** Said to the user in one line. */
  static final class Refused extends Exception {
    private static final long serialVersionUID = 1L;

    Refused(String message) {
      super(message);
    }
  }

  static void check() throws Refused {
    Duration _ = drain();
    checkDuration("waybill.push.timeout", "30s");
    checkDuration("waybill.push.connect-timeout", "5s");
    int _ = number("waybill.push.concurrency", "16", 1, CONNECTIONS_MAX);
    int _ = connections();
    int _ = engineConnections();
    boolean _ = logsJson();
    checkAccess();
    refuseTakenPort(setting("waybill.http.host", "127.0.0.1"));
  }

  private static void checkDuration(String name, String right) throws Refused {
    String duration = setting(name, right);
    try {
      if (DurationConverter.parseDuration(duration).isNegative()) {
        throw new IllegalArgumentException(duration);
      }
    } catch (IllegalArgumentException _) {
      throw new Refused(
          variable(name) + ": '" + duration + "' is no duration; right would be " + right);
    }
  }

  static Duration drain() throws Refused {
    String drain = setting("waybill.drain", "25s");
    try {
      Duration read = DurationConverter.parseDuration(drain);
      if (!read.isNegative() && read.compareTo(DRAIN_MAX) <= 0) {
        return read;
      }
    } catch (IllegalArgumentException _) {
      // Said below.
    }
    throw new Refused(
        "WAYBILL_DRAIN: '" + drain + "' is no duration up to a day; right would be 25s");
  }

  /**
   * Within this the service stops, whatever happens: the drain, then what {@code Pools.drain} and
   * the settler allow themselves, and the waits for a database that does not answer.
   */
  static Duration stopsWithin() throws Refused {
    return drain().plus(AFTER_DRAIN);
  }

  /** Of HTTP and handlers. */
  static int connections() throws Refused {
    return number("waybill.db.connections", "16", CONNECTIONS_MIN, CONNECTIONS_MAX);
  }

  /** A cluster collects logs and takes them apart; a person reads them. */
  static boolean logsJson() throws Refused {
    String usual = System.getenv("KUBERNETES_SERVICE_HOST") == null ? "text" : "json";
    String form = setting("waybill.log", usual);
    return switch (form) {
      case "json" -> true;
      case "text" -> false;
      default ->
          throw new Refused(
              "WAYBILL_LOG: '" + form + "' is no form of the log; right would be json or text");
    };
  }

  /** Each pool claims on its own; the rest is shared by settlers, promotion and maintenance. */
  static int engineConnections() throws Refused {
    String pools = setting("waybill.pools", "");
    long count = pools.chars().filter(c -> c == ';').count() + 1;
    String usual = String.valueOf(Math.clamp(16 + count, 24, CONNECTIONS_MAX));
    return number("waybill.db.engine-connections", usual, CONNECTIONS_MIN, CONNECTIONS_MAX);
  }

  /** Whether everybody may come in is settled before a database is touched. */
  private static void checkAccess() throws Refused {
    if (!setting("waybill.roles", "api").contains("api")) {
      return;
    }
    try {
      Mode _ =
          Mode.of(
              setting("waybill.auth", ""),
              setting("waybill.auth-none-anywhere", "false").equals("true"),
              setting("waybill.http.host", "127.0.0.1"));
    } catch (IllegalArgumentException refused) {
      throw new Refused(String.valueOf(refused.getMessage()));
    }
  }

  /**
   * The configuration proper is there only when Quarkus has started, and needs to know the database
   * by then.
   */
  static String setting(String name, String otherwise) {
    @Nullable String value = System.getProperty(name, System.getenv(variable(name)));
    return value == null || value.isBlank() ? otherwise : value.strip();
  }

  private static String variable(String name) {
    return name.toUpperCase(Locale.ROOT).replace('.', '_').replace('-', '_');
  }

  private static int number(String name, String right, int min, int max) throws Refused {
    String text = setting(name, right);
    try {
      int number = Integer.parseInt(text);
      if (number >= min && number <= max) {
        return number;
      }
    } catch (NumberFormatException _) {
      // Said below.
    }
    throw new Refused(
        variable(name)
            + ": '"
            + text
            + "' is no number from "
            + min
            + " to "
            + max
            + "; right would be "
            + right);
  }

  /** Before any database is touched, so that a second start by mistake says one line. */
  private static void refuseTakenPort(String host) throws Refused {
    int port = number("waybill.http.port", "8080", 1, 65_535);
    try (var probe = new ServerSocket()) {
      probe.setReuseAddress(true);
      probe.bind(new InetSocketAddress(host, port));
    } catch (IOException _) {
      throw new Refused(
          "port "
              + port
              + " is taken: stop what listens there, or set WAYBILL_HTTP_PORT (and see"
              + " WAYBILL_HTTP_HOST)");
    }
  }
}
