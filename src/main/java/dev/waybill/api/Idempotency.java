package dev.waybill.api;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.waybill.access.Caller;
import dev.waybill.db.Beat;
import dev.waybill.db.Database;
import dev.waybill.enqueue.NewJob;
import io.quarkus.scheduler.Scheduled;
import io.quarkus.scheduler.Scheduled.ConcurrentExecution;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.HexFormat;
import java.util.List;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Keeps for a day what was created under an {@code Idempotency-Key}. The row is written in the
 * transaction that creates, so a crash between commit and answer leaves both or neither; of two
 * requests at once the second waits at the primary key, finds that it came second and undoes its
 * own work.
 */
@Singleton
final class Idempotency {

  private static final Logger LOG = Logger.getLogger(Idempotency.class);
  private static final int KEY_MAX = 255;

  private static final String FIND =
      """
      SELECT fingerprint, ids, created_at FROM waybill.idempotency
      WHERE scope = ? AND key = ? AND created_at > now() - interval '24 hours'
      """;

  /** Changes no row when somebody was first; waits for one who is about to be. */
  private static final String REMEMBER =
      """
      INSERT INTO waybill.idempotency AS i (scope, key, fingerprint, ids) VALUES (?, ?, ?, ?)
      ON CONFLICT (scope, key) DO UPDATE SET fingerprint = excluded.fingerprint, ids = excluded.ids, created_at = now()
      WHERE i.created_at <= now() - interval '24 hours'
      """;

  /** A page bounds the transaction; several processes pass each other's rows by. */
  private static final String FORGET =
      """
      DELETE FROM waybill.idempotency i USING (
        SELECT scope, key FROM waybill.idempotency WHERE created_at < now() - interval '24 hours'
        ORDER BY created_at LIMIT ? FOR UPDATE SKIP LOCKED
      ) old
      WHERE i.scope = old.scope AND i.key = old.key
      """;

  private static final int PAGE = 1_000;
  private static final int PAGES_MAX = 100;

  /** The same values in another order of the fields are the same request. */
  private static final ObjectMapper SORTED =
      JsonMapper.builder().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS).build();

  private final Database database;
  private final Beat beat = new Beat(LOG, Logger.Level.WARN, "old keys not swept, trying again");

  @Inject
  Idempotency(Database database) {
    this.database = database;
  }

  /**
   * What was created before.
   *
   * @param fingerprint in hexadecimal
   */
  record Known(String fingerprint, List<Long> ids, OffsetDateTime createdAt) {

    Known {
      ids = List.copyOf(ids);
    }

    /** A repeat asks for the same; anything else under this key is refused. */
    void same(String asked) {
      if (!fingerprint.equals(asked)) {
        throw Problem.conflict(
            "idempotency-conflict",
            "The key was used for another request",
            "This Idempotency-Key came with another body within the last 24 hours.");
      }
    }
  }

  /** Somebody was first: what was done in this transaction must be undone. */
  static final class Raced extends RuntimeException {
    private static final long serialVersionUID = 1L;
  }

  /**
   * One key of one caller for one operation.
   *
   * @param scope the operation and whose key it is
   */
  record Key(String scope, String value) {

    /** Null when the request has none. */
    static @Nullable Key of(@Nullable String header, String operation, Caller caller) {
      if (header == null) {
        return null;
      }
      boolean printable = header.chars().allMatch(c -> c > 0x20 && c < 0x7F);
      if (header.isEmpty() || header.length() > KEY_MAX || !printable) {
        throw Problem.invalid(
            "Idempotency-Key", "1 to " + KEY_MAX + " printable ASCII characters without spaces.");
      }
      return new Key(operation + " " + caller.scope(), header);
    }

    /** What was created under it within a day, or null. */
    @Nullable Known find(Connection connection) throws SQLException {
      try (PreparedStatement statement = connection.prepareStatement(FIND)) {
        statement.setString(1, scope);
        statement.setString(2, value);
        try (ResultSet row = statement.executeQuery()) {
          return row.next()
              ? new Known(
                  HexFormat.of().formatHex(row.getBytes(1)),
                  List.of((Long[]) row.getArray(2).getArray()),
                  row.getObject(3, OffsetDateTime.class))
              : null;
        }
      }
    }

    /**
     * In the transaction that created these.
     *
     * @throws Raced when somebody else did so first
     */
    void remember(Connection connection, String fingerprint, List<Long> ids) throws SQLException {
      try (PreparedStatement statement = connection.prepareStatement(REMEMBER)) {
        statement.setString(1, scope);
        statement.setString(2, value);
        statement.setBytes(3, HexFormat.of().parseHex(fingerprint));
        statement.setArray(4, connection.createArrayOf("int8", ids.toArray()));
        if (statement.executeUpdate() == 0) {
          throw new Raced();
        }
      }
    }
  }

  /** Sums up what was asked for, thing by thing. */
  static final class Fingerprint {

    private final MessageDigest digest = sha256();
    private @Nullable String sum;

    private static MessageDigest sha256() {
      try {
        return MessageDigest.getInstance("SHA-256");
      } catch (NoSuchAlgorithmException missing) {
        throw new IllegalStateException(missing);
      }
    }

    /** The values count, not how they were written: defaults, order of fields, spaces. */
    Fingerprint add(NewJob job) {
      try {
        String payload = SORTED.writeValueAsString(SORTED.readValue(job.payload(), Object.class));
        return add(job.kind())
            .add(payload)
            .add(job.tenant())
            .add(String.valueOf(job.priority()))
            .add(job.runAt() == null ? "" : job.runAt().toInstant().toString())
            .add(String.valueOf(job.delay()))
            .add(job.dedupeKey() == null ? "" : job.dedupeKey())
            .add(String.valueOf(job.maxAttempts()))
            .add(String.join("\n", job.tags()))
            .add(String.valueOf(job.payloadVersion()));
      } catch (JsonProcessingException bug) {
        throw new IllegalStateException("a payload that was read cannot be read", bug);
      }
    }

    /** With its length, so that two parts are never taken for two others. */
    Fingerprint add(String part) {
      byte[] bytes = part.getBytes(StandardCharsets.UTF_8);
      for (int shift = 24; shift >= 0; shift -= 8) {
        digest.update((byte) (bytes.length >>> shift));
      }
      digest.update(bytes);
      return this;
    }

    /** In hexadecimal; nothing is added after it. */
    String sum() {
      if (sum == null) {
        sum = HexFormat.of().formatHex(digest.digest());
      }
      return sum;
    }
  }

  @Scheduled(every = "1m", delayed = "30s", concurrentExecution = ConcurrentExecution.SKIP)
  void beat() {
    beat.run(this::forget);
  }

  /** Forgets what is older than a day; answers how many keys. */
  int forget() throws SQLException {
    int forgotten = 0;
    for (int page = 0; page < PAGES_MAX; page++) {
      int some =
          database.run(connection -> {
            try (PreparedStatement statement = connection.prepareStatement(FORGET)) {
              statement.setInt(1, PAGE);
              return statement.executeUpdate();
            }
          });
      forgotten += some;
      if (some < PAGE) {
        break;
      }
    }
    return forgotten;
  }
}
