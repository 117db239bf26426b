package dev.waybill;

import io.smallrye.config.ConfigMapping;
import io.smallrye.config.WithDefault;
import java.util.Optional;
import java.util.OptionalInt;

/** Settings that concern the whole. */
@ConfigMapping(prefix = "waybill")
interface Settings {

  String ROLES = "api,worker,maintenance";
  String DATA = "data";

  /** {@code WAYBILL_ROLES}. */
  @WithDefault(ROLES)
  String roles();

  /** {@code WAYBILL_MIGRATE}: start, only or never. */
  @WithDefault("start")
  String migrate();

  /**
   * {@code WAYBILL_KINDS}: policies of kinds as JSON, applied at start where the database has no
   * value of its own.
   */
  Optional<String> kinds();

  /** {@code WAYBILL_DATA}: where the embedded database keeps its data. */
  @WithDefault(DATA)
  String data();

  Db db();

  Listen listen();

  Http http();

  /** The database; read by {@link Waybill} before Quarkus starts. */
  interface Db {

    /** {@code WAYBILL_DB_URL}: none means the embedded database. */
    Optional<String> url();

    Optional<String> user();

    Optional<String> password();

    /** {@code WAYBILL_DB_CONNECTIONS}: at most so many. */
    @WithDefault("16")
    int connections();

    /**
     * {@code WAYBILL_DB_ENGINE_CONNECTIONS}: at most so many more for claims, settles and
     * maintenance. Default: 24, or 16 and one for each pool if that is more.
     */
    OptionalInt engineConnections();
  }

  /** Wake-ups. */
  interface Listen {

    /**
     * {@code WAYBILL_LISTEN_URL}: a direct connection, when the main one goes through PgBouncer;
     * {@code none} there to only poll. Default: the main URL.
     */
    Optional<String> url();
  }

  /** Where REST, metrics and health are served. */
  interface Http {

    /** {@code WAYBILL_HTTP_HOST}. */
    @WithDefault("127.0.0.1")
    String host();

    /** {@code WAYBILL_HTTP_PORT}. */
    @WithDefault("8080")
    int port();
  }
}
