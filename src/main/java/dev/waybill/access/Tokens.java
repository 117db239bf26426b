package dev.waybill.access;

import dev.waybill.db.Database;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * The tokens of {@code waybill.tokens}: 256 random bits each, of which only the SHA-256 is kept.
 * (Nothing slower is needed: what has 256 bits cannot be guessed, whatever a guess costs.)
 */
@Singleton
public final class Tokens implements Credentials {

  /** Says what it is where it is found by accident. */
  private static final String PREFIX = "wbt_";

  private static final int BITS = 256;
  private static final int FIRST_LENGTH_MIN = 32;

  /** A token is asked about again after so long, by one request; the others go on meanwhile. */
  private static final long FRESH_NANOS = TimeUnit.SECONDS.toNanos(2);

  /** What was read longer ago than this is not relied on: a revoked token is refused by then. */
  private static final long STALE_NANOS = TimeUnit.SECONDS.toNanos(4);

  private static final int REMEMBERED_MAX = 10_000;

  private static final String FIND =
      """
      SELECT t.id, t.hash, t.name, t.role, t.tenant, t.kinds, t.payloads,
        t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now()) AS valid,
        t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute' AS say_used
      FROM waybill.tokens t WHERE t.hash = ?
      """;

  /** Once a minute and token at most; several processes pass each other by. */
  private static final String USED =
      """
      UPDATE waybill.tokens SET last_used_at = now() WHERE id = (
        SELECT t.id FROM waybill.tokens t WHERE t.id = ? AND (t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute')
        FOR NO KEY UPDATE SKIP LOCKED)
      """;

  private static final String MINT =
      """
      INSERT INTO waybill.tokens (hash, name, role, tenant, kinds, payloads, created_by, expires_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, now() + ?::bigint * interval '1 millisecond')
      ON CONFLICT (hash) DO NOTHING
      RETURNING id
      """;

  private static final String ANY =
      """
      SELECT EXISTS (SELECT FROM waybill.tokens WHERE role = 'operator' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))
      """;

  private static final String LIST =
      """
      SELECT id, name, role, tenant, kinds, payloads, created_at, created_by, expires_at, revoked_at, last_used_at
      FROM waybill.tokens WHERE id < ? ORDER BY id DESC LIMIT ?
      """;

  private static final String READ =
      """
      SELECT id, name, role, tenant, kinds, payloads, created_at, created_by, expires_at, revoked_at, last_used_at
      FROM waybill.tokens WHERE id = ?
      """;

  private static final String REVOKE =
      """
      UPDATE waybill.tokens SET revoked_at = now() WHERE id = ? AND revoked_at IS NULL
      """;

  /** For the log: see {@code waybill.who}. */
  private static final String WHO = "SELECT set_config('waybill.who', 'setting', true)";

  /**
   * A token to be.
   *
   * @param payloads null for what is usual for the role
   */
  public record NewToken(
      String name,
      Role role,
      @Nullable String tenant,
      @Nullable List<String> kinds,
      @Nullable Boolean payloads,
      @Nullable Long expiresInMillis) {}

  /**
   * A token as it is kept: without what proves it.
   *
   * @param lastUsedAt to about a minute
   */
  public record Kept(
      long id,
      String name,
      String role,
      @Nullable String tenant,
      @Nullable List<String> kinds,
      boolean payloads,
      OffsetDateTime createdAt,
      String createdBy,
      @Nullable OffsetDateTime expiresAt,
      @Nullable OffsetDateTime revokedAt,
      @Nullable OffsetDateTime lastUsedAt) {}

  /**
   * A token as it is handed out, once.
   *
   * @param secret what the caller will show
   */
  public record Minted(Kept kept, String secret) {
    /** Without the secret. */
    @Override
    public String toString() {
      return "token=" + kept.id();
    }
  }

  /** What was read about a token. */
  private record Known(@Nullable Caller caller, long readNanos, AtomicBoolean reading) {
    long ageNanos() {
      return System.nanoTime() - readNanos;
    }

    Caller proven() {
      if (caller == null) {
        throw Denied.unknown("The token is not known, or it has expired or was revoked.");
      }
      return caller;
    }
  }

  private final Database database;
  private final SecureRandom random = new SecureRandom();
  private final ConcurrentHashMap<String, Known> known = new ConcurrentHashMap<>();

  /** Apart, so that whoever tries out tokens does not push the good ones out. */
  private final ConcurrentHashMap<String, Known> refused = new ConcurrentHashMap<>();

  @Inject
  Tokens(DataSource dataSource) {
    this.database = new Database(dataSource);
  }

  @Override
  public Caller who(String bearer) throws SQLException {
    byte[] hash = hash(bearer);
    String key = Base64.getEncoder().encodeToString(hash);
    @Nullable Known last = last(key);
    if (last == null || last.ageNanos() > STALE_NANOS) {
      last = read(key, hash);
    } else if (last.ageNanos() > FRESH_NANOS && last.reading().compareAndSet(false, true)) {
      last = readOr(last, key, hash);
    }
    return last.proven();
  }

  @Override
  public @Nullable Caller known(String bearer) {
    @Nullable Known last = last(Base64.getEncoder().encodeToString(hash(bearer)));
    if (last == null
        || last.ageNanos() > STALE_NANOS
        || (last.ageNanos() > FRESH_NANOS && !last.reading().get())) {
      return null;
    }
    return last.proven();
  }

  private @Nullable Known last(String key) {
    @Nullable Known last = known.get(key);
    return last == null ? refused.get(key) : last;
  }

  /** For a moment a database that is away does not matter. */
  private Known readOr(Known last, String key, byte[] hash) {
    try {
      return read(key, hash);
    } catch (SQLException _) {
      return last;
    }
  }

  private Known read(String key, byte[] hash) throws SQLException {
    long sent = System.nanoTime();
    @Nullable Caller caller = database.run(connection -> find(connection, hash));
    var read = new Known(caller, sent, new AtomicBoolean());
    if (caller != null) {
      known.put(key, read);
      refused.remove(key);
    } else {
      known.remove(key);
      if (refused.size() >= REMEMBERED_MAX) {
        refused.clear();
      }
      refused.put(key, read);
    }
    return read;
  }

  private static @Nullable Caller find(Connection connection, byte[] hash) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(FIND)) {
      statement.setBytes(1, hash);
      try (ResultSet row = statement.executeQuery()) {
        // Compared again, in constant time: an index tells by its time how far it had to look.
        if (!row.next() || !MessageDigest.isEqual(row.getBytes("hash"), hash)) {
          return null;
        }
        if (!row.getBoolean("valid")) {
          return null;
        }
        if (row.getBoolean("say_used")) {
          used(connection, row.getLong("id"));
        }
        @Nullable List<String> kinds = strings(row.getArray("kinds"));
        return new Caller(
            row.getString("name"),
            Role.valueOf(row.getString("role").toUpperCase(Locale.ROOT)),
            row.getString("tenant"),
            kinds == null ? null : Set.copyOf(kinds),
            row.getBoolean("payloads"));
      }
    }
  }

  private static void used(Connection connection, long id) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(USED)) {
      statement.setLong(1, id);
      int _ = statement.executeUpdate();
    }
  }

  /**
   * The operator's first token comes from a setting. One that was revoked stays so, also when the
   * setting is still there. Refuses a start that nobody could ever come into.
   */
  void first(String secret) throws SQLException {
    if (secret.isEmpty()) {
      if (!database.run(Tokens::operatorExists)) {
        throw new IllegalArgumentException(
            "WAYBILL_AUTH=token and there is no operator's token; right would be"
                + " WAYBILL_FIRST_TOKEN or WAYBILL_FIRST_TOKEN_FILE with 32 random characters or"
                + " more, such as openssl rand -hex 32 makes");
      }
      return;
    }
    var token = new NewToken("first", Role.OPERATOR, null, null, null, null);
    boolean _ =
        database.transaction(connection -> {
          try (PreparedStatement who = connection.prepareStatement(WHO)) {
            boolean _ = who.execute();
          }
          return insert(connection, hash(secret), token, "setting") != null;
        });
  }

  static void checkFirst(String secret) {
    if (secret.isEmpty()) {
      return;
    }
    if (secret.length() < FIRST_LENGTH_MIN || !secret.chars().allMatch(c -> c > 32 && c < 127)) {
      throw new IllegalArgumentException(
          "WAYBILL_FIRST_TOKEN: it is shorter than 32 characters, or has others than printable"
              + " ASCII; right would be what openssl rand -hex 32 makes");
    }
  }

  private static boolean operatorExists(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ANY);
        ResultSet row = statement.executeQuery()) {
      return row.next() && row.getBoolean(1);
    }
  }

  /** Makes a token; only here is it seen whole. */
  public Minted mint(Connection connection, NewToken token, Caller by) throws SQLException {
    byte[] bits = new byte[BITS / 8];
    random.nextBytes(bits);
    String secret = PREFIX + Base64.getUrlEncoder().withoutPadding().encodeToString(bits);
    @Nullable Long id = insert(connection, hash(secret), token, by.name());
    @Nullable Kept kept = id == null ? null : read(connection, id);
    if (kept == null) {
      throw new IllegalStateException("the same 256 random bits twice");
    }
    return new Minted(kept, secret);
  }

  private static @Nullable Long insert(
      Connection connection, byte[] hash, NewToken token, String by) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(MINT)) {
      statement.setBytes(1, hash);
      statement.setString(2, token.name());
      statement.setString(3, token.role().word());
      statement.setString(4, token.tenant());
      statement.setArray(
          5,
          token.kinds() == null ? null : connection.createArrayOf("text", token.kinds().toArray()));
      statement.setBoolean(
          6, token.payloads() == null ? token.role().readsPayloads() : token.payloads());
      statement.setString(7, by);
      statement.setObject(8, token.expiresInMillis(), Types.BIGINT);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? row.getLong(1) : null;
      }
    }
  }

  /** Newest first, from below this id. */
  public List<Kept> list(Connection connection, long before, int limit) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LIST)) {
      statement.setLong(1, before);
      statement.setInt(2, limit);
      var list = new ArrayList<Kept>();
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          list.add(kept(rows));
        }
      }
      return list;
    }
  }

  public @Nullable Kept read(Connection connection, long id) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(READ)) {
      statement.setLong(1, id);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? kept(row) : null;
      }
    }
  }

  /** True when it was valid until now. Call {@link #forget} after the commit. */
  public boolean revoke(Connection connection, long id) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(REVOKE)) {
      statement.setLong(1, id);
      return statement.executeUpdate() == 1;
    }
  }

  /** In this process a change counts at once; in the others within seconds. */
  public void forget() {
    known.clear();
    refused.clear();
  }

  private static Kept kept(ResultSet row) throws SQLException {
    return new Kept(
        row.getLong("id"),
        row.getString("name"),
        row.getString("role"),
        row.getString("tenant"),
        strings(row.getArray("kinds")),
        row.getBoolean("payloads"),
        row.getObject("created_at", OffsetDateTime.class),
        row.getString("created_by"),
        row.getObject("expires_at", OffsetDateTime.class),
        row.getObject("revoked_at", OffsetDateTime.class),
        row.getObject("last_used_at", OffsetDateTime.class));
  }

  private static @Nullable List<String> strings(@Nullable Array array) throws SQLException {
    return array == null ? null : List.of((String[]) array.getArray());
  }

  private static byte[] hash(String secret) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(secret.getBytes(StandardCharsets.UTF_8));
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
