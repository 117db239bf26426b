package dev.waybill.alert;

import dev.waybill.db.Beat;
import dev.waybill.db.Database;
import dev.waybill.deliver.Webhook;
import dev.waybill.deliver.Webhooks;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.sql.SQLException;
import java.time.Duration;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * The clockwork of this room, in processes that keep house. A growth is told once: never sent again
 * where it may have arrived, at the price that one may get lost there. docs/decisions/0042.
 */
@Singleton
public final class Alerts {

  private static final Logger LOG = Logger.getLogger(Alerts.class);

  /** With the pauses below: for almost four hours. */
  private static final int ATTEMPTS_MAX = 10;

  private static final Duration PAUSE_MIN = Duration.ofSeconds(30);
  private static final Duration PAUSE_MAX = Duration.ofHours(1);
  private static final int SENT_A_BEAT_MAX = 20;

  private final Database database;
  private final AlertSettings settings;
  private final Webhooks webhooks;
  private final AlertEvents events;
  private final Beat beat =
      new Beat(LOG, Logger.Level.ERROR, "dead letters not watched, trying again");
  private volatile @Nullable AlertPlan plan;
  private volatile boolean on;

  @Inject
  public Alerts(Database database, AlertSettings settings, Webhooks webhooks, AlertEvents events) {
    this.database = database;
    this.settings = settings;
    this.webhooks = webhooks;
    this.events = events;
  }

  /** Refuses a wrong setting, before anything was touched. */
  public void check() {
    plan = AlertPlan.of(settings, webhooks);
  }

  /** The schema is there, and this process has the role. */
  public void start() {
    on = true;
  }

  public void stop() {
    on = false;
  }

  @Scheduled(every = "20s", delayed = "5s", concurrentExecution = ConcurrentExecution.SKIP)
  void look() {
    @Nullable AlertPlan now = plan;
    if (on && now != null) {
      beat.run(() -> tell(now));
    }
  }

  private void tell(AlertPlan now) throws SQLException {
    for (Alert alert : new Watchman(database, now).look()) {
      if (alert.state().equals("unknown")) {
        ended(alert, "unknown", "whoever sent it did not come back");
      } else if (alert.state().equals("failed")) {
        ended(alert, "failed", "nobody sent it for a day");
      } else {
        new Message(alert).logLines().forEach(alert.isDaily() ? LOG::info : LOG::warn);
      }
    }
    @Nullable Webhook webhook = now.webhook();
    if (webhook != null) {
      send(webhook, new Outbox(database));
    }
  }

  private void send(Webhook webhook, Outbox outbox) throws SQLException {
    for (int n = 0; n < SENT_A_BEAT_MAX && on; n++) {
      @Nullable Alert alert = outbox.claim();
      if (alert == null) {
        return;
      }
      String id = "waybill_alert_" + alert.id() + "_" + alert.createdAt().toEpochSecond();
      switch (webhook.send(id, new Message(alert).body())) {
        case Webhook.Sent.Arrived _ -> {
          outbox.end(alert, "sent");
          events.alerted("sent");
        }
        case Webhook.Sent.Unknown(var why) -> {
          outbox.end(alert, "unknown");
          ended(alert, "unknown", why);
        }
        case Webhook.Sent.NotTaken(var why) -> {
          if (alert.attempts() >= ATTEMPTS_MAX) {
            outbox.end(alert, "failed");
            ended(alert, "failed", why);
          } else {
            outbox.again(alert, pause(alert.attempts()));
            LOG.infof(
                "alert not taken, trying again alert=%d attempt=%d reason=%s",
                alert.id(), alert.attempts(), why);
          }
        }
      }
    }
  }

  private void ended(Alert alert, String outcome, String why) {
    events.alerted(outcome);
    LOG.errorf(
        "alert may not have arrived alert=%d outcome=%s reason=%s", alert.id(), outcome, why);
  }

  static Duration pause(int attempts) {
    Duration pause = PAUSE_MIN.multipliedBy(1L << Math.min(attempts - 1, 10));
    return pause.compareTo(PAUSE_MAX) > 0 ? PAUSE_MAX : pause;
  }
}
