package dev.waybill;

import dev.waybill.db.Listener;
import dev.waybill.pull.Desk;
import dev.waybill.run.Pools;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.util.Objects;
import java.util.Optional;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.jspecify.annotations.Nullable;

/** Lets the pools hear of new work at once, over a connection that can LISTEN. */
@Singleton
final class Wakeup {

  /** For {@code WAYBILL_LISTEN_URL} behind a pooler that has no direct way: poll only. */
  static final String NONE = "none";

  private final Settings settings;
  private final Pools pools;
  private final Desk desk;
  private final String url;
  private final String user;
  private final String password;
  private @Nullable Listener listener;

  @Inject
  Wakeup(
      Settings settings,
      Pools pools,
      Desk desk,
      @ConfigProperty(name = "quarkus.datasource.jdbc.url") String url,
      @ConfigProperty(name = "quarkus.datasource.username") String user,
      @ConfigProperty(name = "quarkus.datasource.password") Optional<String> password) {
    this.settings = settings;
    this.pools = pools;
    this.desk = desk;
    this.url = url;
    this.user = user;
    this.password = password.orElse("");
  }

  void start() throws DatabaseUrl.Refused {
    String setting = settings.listen().url().orElse("").strip();
    if (setting.equals(NONE)) {
      return;
    }
    DatabaseUrl direct =
        setting.isEmpty() ? new DatabaseUrl(url, user, password) : DatabaseUrl.parse(setting);
    var listening =
        new Listener(
            direct.jdbc(),
            Objects.requireNonNullElse(direct.user(), user),
            Objects.requireNonNullElse(direct.password(), password),
            "waybill",
            this::wake);
    pools.wokenWhile(listening::connected);
    desk.wokenWhile(listening::connected);
    listening.start();
    listener = listening;
  }

  private void wake() {
    pools.wake();
    desk.wake();
  }

  void stop() throws InterruptedException {
    if (listener != null) {
      listener.stop();
    }
  }
}
