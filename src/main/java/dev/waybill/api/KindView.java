package dev.waybill.api;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.waybill.access.Caller;
import dev.waybill.figures.Measured;
import dev.waybill.job.Delivery;
import dev.waybill.job.Policy;
import dev.waybill.policy.KindPolicy;
import dev.waybill.policy.OwnPolicy;
import io.quarkus.runtime.annotations.RegisterForReflection;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.eclipse.microprofile.openapi.annotations.media.Schema;
import org.jspecify.annotations.Nullable;

/**
 * A kind with the policy that is in force: its own values, and the defaults for the others.
 *
 * @param defaults the fields that have no value of their own
 */
@Schema(
    name = "Kind",
    requiredProperties = {
      "kind",
      "version",
      "updatedAt",
      "maxAttempts",
      "backoff",
      "lease",
      "timeout",
      "retention",
      "deadRetention",
      "tenantCap",
      "kindCap",
      "ratePerSecond",
      "paused",
      "delivery",
      "url",
      "secretRef",
      "archive",
      "defaults"
    })
@RegisterForReflection
public record KindView(
    String kind,
    @Schema(description = "Goes up with each change; the ETag. 0: nothing was ever set")
        long version,
    @Schema(nullable = true) @Nullable OffsetDateTime updatedAt,
    @Schema(description = "A job's own maxAttempts goes before") int maxAttempts,
    BackoffView backoff,
    @Schema(description = DURATION) String lease,
    @Schema(description = DURATION) String timeout,
    @Schema(description = DURATION + " PT0S: a done job is deleted at once") String retention,
    @Schema(description = DURATION) String deadRetention,
    @Schema(nullable = true, description = "Running at once for one tenant, over all pods")
        @Nullable Integer tenantCap,
    @Schema(nullable = true, description = "Running at once, over all pods")
        @Nullable Integer kindCap,
    @Schema(nullable = true, description = "Attempts begun in a second, over all pods")
        @Nullable Double ratePerSecond,
    boolean paused,
    @Schema(enumeration = {"bean", "pull", "http"}) String delivery,
    @Schema(
            nullable = true,
            description =
                "Where jobs are posted to, with delivery http; null for a caller that is bound to a tenant")
        @Nullable String url,
    @Schema(
            nullable = true,
            description =
                "The name of the secret that signs them; null for a caller that is bound to a tenant")
        @Nullable String secretRef,
    @Schema(description = "Keep finished jobs in cold storage before they are dropped")
        boolean archive,
    @Schema(description = "The fields without a value of their own") List<String> defaults,
    @Schema(
            description =
                "Of one kind that had attempts within the last week; not for a caller that is bound to a tenant")
        @JsonInclude(JsonInclude.Include.NON_NULL)
        @Nullable MeasuredView measured) {

  static final String DURATION = "ISO 8601.";

  public KindView {
    defaults = List.copyOf(defaults);
  }

  /** The wait after a failure: base * factor^(attempt - 1), at most cap. */
  @Schema(
      name = "Backoff",
      requiredProperties = {"base", "factor", "cap", "jitter"})
  @RegisterForReflection
  public record BackoffView(
      @Schema(description = DURATION) String base,
      double factor,
      @Schema(description = DURATION) String cap,
      @Schema(description = "A random part of the wait, not all of it") boolean jitter) {}

  /** How long attempts took within the last week, and what follows from it. */
  @Schema(
      name = "Measured",
      requiredProperties = {"attempts", "p50"})
  @RegisterForReflection
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public record MeasuredView(
      @Schema(description = "Of the last seven days and today, however they ended") long attempts,
      @Schema(description = DURATION + " Each at most a quarter too high") String p50,
      @Schema(description = DURATION + " From 100 attempts on") @Nullable String p99,
      @Schema(description = DURATION + " From 1,000 attempts on") @Nullable String p999,
      @Schema(
              description =
                  DURATION
                      + " Not the length of a job, since a holder extends its lease: long enough for a heartbeat that fails. With delivery pull twice p999")
          @Nullable String suggestedLease,
      @Schema(description = DURATION + " Three times p999, 10 s at least")
          @Nullable String suggestedTimeout) {

    static @Nullable MeasuredView of(@Nullable Measured measured, boolean pulled) {
      return measured == null
          ? null
          : new MeasuredView(
              measured.attempts(),
              measured.p50().toString(),
              text(measured.p99()),
              text(measured.p999()),
              text(measured.suggestedLease(pulled)),
              text(measured.suggestedTimeout()));
    }

    private static @Nullable String text(@Nullable Duration duration) {
      return duration == null ? null : duration.toString();
    }
  }

  static KindView of(KindPolicy stored, Caller caller) {
    return of(stored, caller, null);
  }

  /**
   * Where jobs are pushed to is for those who see every tenant, and so is what was measured: it is
   * of all tenants together.
   */
  static KindView of(KindPolicy stored, Caller caller, @Nullable Measured measured) {
    boolean whole = caller.tenant() == null;
    OwnPolicy own = stored.own();
    Policy or = Policy.DEFAULT;
    var defaults = new ArrayList<String>();
    String delivery = Objects.requireNonNullElse(own.delivery(), or.delivery().word());
    return new KindView(
        stored.kind(),
        stored.version(),
        stored.updatedAt(),
        value("maxAttempts", own.maxAttempts(), or.maxAttempts(), defaults),
        new BackoffView(
            text("backoff.base", own.backoffBase(), or.backoff().base(), defaults),
            value("backoff.factor", own.backoffFactor(), or.backoff().factor(), defaults),
            text("backoff.cap", own.backoffCap(), or.backoff().cap(), defaults),
            value("backoff.jitter", own.backoffJitter(), or.backoff().jitter(), defaults)),
        text("lease", own.lease(), or.lease(), defaults),
        text("timeout", own.timeout(), or.timeout(), defaults),
        text("retention", own.retention(), or.retention(), defaults),
        text("deadRetention", own.deadRetention(), or.deadRetention(), defaults),
        own.tenantCap(),
        own.kindCap(),
        own.ratePerSecond(),
        Boolean.TRUE.equals(own.paused()),
        value("delivery", own.delivery(), delivery, defaults),
        whole ? own.url() : null,
        whole ? own.secretRef() : null,
        value("archive", own.archive(), or.archive(), defaults),
        defaults,
        MeasuredView.of(whole ? measured : null, delivery.equals(Delivery.PULL.word())));
  }

  private static <T> T value(String field, @Nullable T own, T or, List<String> defaults) {
    if (own == null) {
      defaults.add(field);
    }
    return Objects.requireNonNullElse(own, or);
  }

  private static String text(
      String field, @Nullable Duration own, Duration or, List<String> defaults) {
    return value(field, own, or, defaults).toString();
  }
}
