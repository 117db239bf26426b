package dev.waybill.retain;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;
import io.smallrye.config.WithName;
import java.time.Duration;
import java.util.Optional;

/** Settings of this room. */
@ConfigMapping(prefix = "waybill")
interface RetainSettings {

  /**
   * {@code WAYBILL_ARCHIVE}: where finished jobs of kinds with {@code archive} go before they are
   * removed, {@code file:///directory} or {@code s3://bucket/prefix}.
   */
  Optional<String> archive();

  /** {@code WAYBILL_RETAIN_EVERY}: how often is looked for what can go. */
  @WithName("retain-every")
  @WithDefault("1m")
  Duration every();

  @WithName("archive-s3")
  S3 s3();

  /** {@code WAYBILL_ARCHIVE_S3_...}. */
  interface S3 {

    /** Default: Amazon's for the region. */
    Optional<String> endpoint();

    @WithDefault("us-east-1")
    String region();

    Optional<String> accessKey();

    Optional<String> secretKey();

    Optional<String> sessionToken();
  }
}
