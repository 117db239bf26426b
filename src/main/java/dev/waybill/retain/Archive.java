package dev.waybill.retain;

import dev.waybill.db.Database;
import dev.waybill.job.Policy;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.zip.GZIPOutputStream;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Writes the finished jobs of a kind and a day to cold storage, for kinds that ask for it: one JSON
 * object a line, gzip. That it was written is recorded only when the storage has it for good, and
 * nothing is removed before that is recorded; writing twice writes the same object again.
 */
@Singleton
public final class Archive {

  private static final Logger LOG = Logger.getLogger(Archive.class);

  /** Kinds of a counted, leaving day that must not go before they were written. */
  private static final String LEAVING =
      """
      SELECT j.key, j.value::bigint FROM waybill.leaving l CROSS JOIN LATERAL jsonb_each_text(l.jobs) j
      JOIN waybill.kinds k ON k.kind = j.key AND k.archive
      WHERE l.partition = ?::oid::regclass
        AND NOT EXISTS (SELECT FROM waybill.archives a WHERE a.partition = l.partition AND a.kind = j.key)
      ORDER BY j.key
      """;

  /**
   * Days of which such a kind may go before the day itself does, because others are kept longer.
   */
  private static final String EARLY =
      """
      WITH kept AS MATERIALIZED (
        SELECT t.kind, coalesce(k.retention_ms, ?) * interval '1 millisecond' AS keep, coalesce(k.archive, false) AS archive
        FROM (SELECT DISTINCT kind FROM waybill.counts) t LEFT JOIN waybill.kinds k ON k.kind = t.kind
      )
      SELECT d.partition::oid, d.name, k.kind FROM waybill.done_partitions() d
      JOIN kept k ON d.ends < now() - greatest(k.keep, interval '1 hour')
      WHERE k.archive AND k.keep < (SELECT max(keep) FROM kept) AND NOT d.detaching
        AND NOT EXISTS (SELECT FROM waybill.archives a WHERE a.partition = d.partition AND a.kind = k.kind)
        AND NOT EXISTS (SELECT FROM waybill.leaving l WHERE l.partition = d.partition)
      ORDER BY d.ends, k.kind
      """;

  private static final String CLOSE = "SELECT waybill.close_partition(?::oid::regclass)";

  private static final String PAGE = "SELECT waybill.archive_page(?::oid::regclass, ?, ?, ?)";

  private static final String PATIENCE = "SET LOCAL idle_in_transaction_session_timeout = '10min'";

  private static final String RECORD =
      """
      INSERT INTO waybill.archives (partition, name, kind, jobs, object) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
      """;

  private static final String ASKING = "SELECT kind FROM waybill.kinds WHERE archive ORDER BY kind";

  /** Rows that are in memory at a time: a payload may have 256 kB. */
  private static final int FETCH = 50;

  private static final int BUFFER = 1 << 16;

  /** Stored time is the database's, and so is the time in a signature. */
  private static final String NOW = "SELECT now()";

  /** Whether another process has written it since we began to read. */
  private static final String RECORDED =
      "SELECT count(*) FROM waybill.archives WHERE partition = ? AND kind = ?";

  private final Database database;
  private final Supplier<Optional<Shelf>> place;
  private volatile @Nullable Shelf shelf;

  /** Said once: it would be said every minute otherwise. */
  private final Set<String> saidHomeless = ConcurrentHashMap.newKeySet();

  private volatile boolean failing;

  @Inject
  Archive(Database database, RetainSettings settings) {
    this(database, () -> Shelves.of(settings, () -> now(database)));
  }

  Archive(Database database, Supplier<Optional<Shelf>> place) {
    this.database = database;
    this.place = place;
  }

  private static Instant now(Database database) throws IOException {
    try {
      return database.run(connection -> {
        try (PreparedStatement statement = connection.prepareStatement(NOW);
            ResultSet rows = statement.executeQuery()) {
          boolean _ = rows.next();
          return rows.getTimestamp(1).toInstant();
        }
      });
    } catch (SQLException failure) {
      throw new IOException("the database does not tell the time", failure);
    }
  }

  /**
   * At the start: refuses a wrong setting, and warns of a missing one, which would be noticed
   * months later otherwise.
   */
  public void open() throws SQLException {
    shelf = place.get().orElse(null);
    if (shelf == null) {
      for (String kind : database.run(Archive::asking)) {
        homeless(kind);
      }
    }
  }

  private static List<String> asking(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(ASKING);
        ResultSet rows = statement.executeQuery()) {
      var kinds = new ArrayList<String>();
      while (rows.next()) {
        kinds.add(rows.getString(1));
      }
      return kinds;
    }
  }

  private void homeless(String kind) {
    if (saidHomeless.add(kind)) {
      LOG.warnf(
          "kind=%s asks for an archive and WAYBILL_ARCHIVE is not set: its finished jobs are kept,"
              + " and days that hold some are not dropped",
          kind);
    }
  }

  private record Wanted(Day day, String kind, long jobs) {}

  /** Whether this day may go: each kind that asks for it was written. */
  boolean leaving(Day day, BooleanSupplier turn) throws SQLException {
    List<Wanted> wanted =
        database.run(connection -> {
          try (PreparedStatement statement = connection.prepareStatement(LEAVING)) {
            statement.setLong(1, day.oid());
            try (ResultSet rows = statement.executeQuery()) {
              var kinds = new ArrayList<Wanted>();
              while (rows.next()) {
                kinds.add(new Wanted(day, rows.getString(1), rows.getLong(2)));
              }
              return kinds;
            }
          }
        });
    boolean all = true;
    for (Wanted some : wanted) {
      all &= write(some, turn);
    }
    return all;
  }

  /** Writes what is to be deleted from days that stay. */
  public void writeEarly(BooleanSupplier turn) throws SQLException {
    List<Wanted> wanted =
        database.run(connection -> {
          try (PreparedStatement statement = connection.prepareStatement(EARLY)) {
            statement.setLong(1, Policy.DEFAULT.retention().toMillis());
            try (ResultSet rows = statement.executeQuery()) {
              var kinds = new ArrayList<Wanted>();
              while (rows.next()) {
                var day = new Day(rows.getLong(1), rows.getString(2));
                kinds.add(new Wanted(day, rows.getString(3), -1));
              }
              return kinds;
            }
          }
        });
    for (Wanted some : wanted) {
      if (shelf == null) {
        homeless(some.kind());
      } else {
        try {
          close(some.day());
          boolean _ = write(some, turn);
        } catch (SQLException failure) {
          // What else is past its time does not wait for this one.
          LOG.warnf(
              "not archived, trying again kind=%s partition=%s sqlstate=%s",
              some.kind(), some.day().name(), failure.getSQLState());
        }
      }
    }
  }

  /** Nothing is added to the day after it was read. */
  private void close(Day day) throws SQLException {
    database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(CLOSE)) {
        statement.setLong(1, day.oid());
        return statement.execute();
      }
    });
  }

  /**
   * False when it could not be written now: without a place, without the turn, or with a place that
   * fails.
   */
  private boolean write(Wanted wanted, BooleanSupplier turn) throws SQLException {
    @Nullable Shelf to = shelf;
    if (to == null) {
      homeless(wanted.kind());
      return false;
    }
    String name = nameOf(wanted);
    try {
      long jobs = writeObject(to, name, wanted, turn);
      if (jobs < 0) {
        return false;
      }
      record(wanted, jobs, jobs == 0 ? null : to.locationOf(name));
      failing = false;
      if (jobs > 0) {
        LOG.infof(
            "archived kind=%s partition=%s jobs=%d", wanted.kind(), wanted.day().name(), jobs);
      }
      return true;
    } catch (IOException | UncheckedIOException failure) {
      if (!failing) {
        LOG.errorf(
            "the archive cannot be written, trying again: kind=%s partition=%s: %s",
            wanted.kind(), wanted.day().name(), failure.getMessage());
      }
      failing = true;
      return false;
    }
  }

  /**
   * The partition's number is in it: the same day of a database that was restored from a backup
   * does not overwrite this one.
   */
  private static String nameOf(Wanted wanted) {
    return String.format(
        Locale.ROOT, "%s/%s-%d.ndjson.gz", wanted.kind(), wanted.day().name(), wanted.day().oid());
  }

  /** How many jobs; negative when the turn was lost in the middle. */
  private long writeObject(Shelf to, String name, Wanted wanted, BooleanSupplier turn)
      throws IOException, SQLException {
    long blocks = database.run(connection -> Expiry.blocks(connection, wanted.day()));
    try (Shelf.Parcel parcel = to.begin(name)) {
      var gzip = new GZIPOutputStream(parcel, BUFFER);
      var lines = new BufferedWriter(new OutputStreamWriter(gzip, StandardCharsets.UTF_8), BUFFER);
      var pace = new Pace();
      long jobs = 0;
      for (long first = 0; first < blocks; first += Day.PAGE_BLOCKS) {
        if (!turn.getAsBoolean()) {
          return -1;
        }
        long from = first;
        jobs += database.transaction(connection -> copyPage(connection, wanted, from, lines));
        pace.rest();
      }
      if (wanted.jobs() >= 0 && jobs != wanted.jobs()) {
        throw new IOException(wanted.jobs() + " jobs were counted, " + jobs + " read");
      }
      lines.flush();
      gzip.finish();
      if (recorded(wanted)) {
        // Another process was faster, and may have deleted jobs while we read: ours may lack some.
        return -1;
      }
      if (jobs > 0) {
        parcel.complete();
      }
      return jobs;
    }
  }

  /** In a transaction, so that the driver reads the rows in portions. */
  private static long copyPage(Connection connection, Wanted wanted, long first, Writer to)
      throws SQLException {
    patience(connection);
    try (PreparedStatement statement = connection.prepareStatement(PAGE)) {
      statement.setFetchSize(FETCH);
      statement.setLong(1, wanted.day().oid());
      statement.setLong(2, first);
      statement.setLong(3, first + Day.PAGE_BLOCKS);
      statement.setString(4, wanted.kind());
      long jobs = 0;
      try (ResultSet rows = statement.executeQuery()) {
        while (rows.next()) {
          to.write(rows.getString(1));
          to.write('\n');
          jobs++;
        }
      }
      return jobs;
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  /**
   * A portion may have to wait until cold storage has taken one: longer than an idle transaction of
   * the engine may.
   */
  private static void patience(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(PATIENCE)) {
      boolean _ = statement.execute();
    }
  }

  private boolean recorded(Wanted wanted) throws SQLException {
    return database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(RECORDED)) {
        statement.setLong(1, wanted.day().oid());
        statement.setString(2, wanted.kind());
        try (ResultSet rows = statement.executeQuery()) {
          return rows.next() && rows.getLong(1) > 0;
        }
      }
    });
  }

  private void record(Wanted wanted, long jobs, @Nullable String location) throws SQLException {
    database.run(connection -> {
      try (PreparedStatement statement = connection.prepareStatement(RECORD)) {
        statement.setLong(1, wanted.day().oid());
        statement.setString(2, wanted.day().name());
        statement.setString(3, wanted.kind());
        statement.setLong(4, jobs);
        statement.setString(5, location);
        return statement.executeUpdate();
      }
    });
  }
}
