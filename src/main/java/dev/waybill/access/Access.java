package dev.waybill.access;

import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Finds out who asks, in the way that the settings say. */
@Singleton
public final class Access {

  private static final Pattern LOOPBACK = Pattern.compile("127(\\.[0-9]{1,3}){3}");

  private static final String BEARER = "bearer ";
  private static final int BEARER_LENGTH_MAX = 8_192;

  /** What a browser on this machine calls this machine. */
  private static final Set<String> LOOPBACK_NAMES = Set.of("localhost", "[::1]", "127.0.0.1");

  private final AccessSettings settings;
  private final Tokens tokens;
  private volatile boolean started;
  private volatile boolean serves;
  private volatile Mode mode = Mode.TOKEN;
  private volatile @Nullable Credentials credentials;

  @Inject
  Access(AccessSettings settings, Tokens tokens) {
    this.settings = settings;
    this.tokens = tokens;
  }

  /**
   * Refuses a wrong setting, before anything was touched.
   *
   * @param api whether this process serves the HTTP door at all
   * @throws IllegalArgumentException says in one line what would be right
   */
  public void check(boolean api) {
    serves = api;
    if (!api) {
      return;
    }
    mode = Mode.of(settings.auth().orElse(""), settings.authNoneAnywhere(), settings.http().host());
    credentials =
        switch (mode) {
          case NONE -> null;
          case TOKEN -> {
            Tokens.checkFirst(firstToken());
            yield tokens;
          }
          case JWT -> Jwts.of(settings.jwt());
        };
  }

  /** The schema is there: before this every request is told to come again. */
  public void start() throws SQLException {
    if (serves && mode == Mode.TOKEN) {
      tokens.first(firstToken());
    }
    started = true;
  }

  private String firstToken() {
    return settings.firstToken().map(String::strip).orElse("");
  }

  public Mode mode() {
    return mode;
  }

  /**
   * What a request shows of who sends it.
   *
   * @param authorization the header, or null
   * @param host the header, or null
   * @param origin which page asks, if one does
   */
  record Shown(@Nullable String authorization, @Nullable String host, Origin origin) {}

  Caller caller(Shown shown) throws SQLException {
    Optional<Credentials> asked = asked(shown);
    return asked.isEmpty() ? Caller.ANYBODY : asked.get().who(bearer(shown.authorization()));
  }

  /** Without waiting for anything; null when that does not do. */
  @Nullable Caller known(Shown shown) {
    Optional<Credentials> asked = asked(shown);
    return asked.isEmpty() ? Caller.ANYBODY : asked.get().known(bearer(shown.authorization()));
  }

  /** Empty where nobody is asked who they are. */
  private Optional<Credentials> asked(Shown shown) {
    if (!started) {
      throw Denied.notNow("The service is starting.");
    }
    if (!serves) {
      throw Denied.notHere("This process has not the role api, see WAYBILL_ROLES.");
    }
    Optional<Credentials> asked = Optional.ofNullable(credentials);
    if (asked.isEmpty()) {
      refuseForeignNames(shown.host());
      shown.origin().refuseForeignPages(shown.host());
    }
    return asked;
  }

  private static String bearer(@Nullable String authorization) {
    if (authorization == null
        || !authorization.toLowerCase(Locale.ROOT).startsWith(BEARER)
        || authorization.length() > BEARER_LENGTH_MAX) {
      throw Denied.unknown("Send a header: Authorization: Bearer, and the token.");
    }
    return authorization.substring(BEARER.length()).strip();
  }

  /**
   * Open to this machine only, the port is still open to its browsers: a page whose name was made
   * to point here would send its own name as the host.
   */
  private void refuseForeignNames(@Nullable String host) {
    if (settings.authNoneAnywhere() || host == null) {
      return;
    }
    String name = host.replaceFirst(":[0-9]+$", "").toLowerCase(Locale.ROOT);
    if (!LOOPBACK_NAMES.contains(name)
        && !LOOPBACK.matcher(name).matches()
        && !name.equals(settings.http().host().toLowerCase(Locale.ROOT))) {
      throw Denied.forbidden(
          "Without credentials only this machine may ask, by the name localhost: see"
              + " WAYBILL_AUTH.");
    }
  }
}
