package dev.waybill.api;

import com.fasterxml.jackson.databind.SequenceWriter;
import dev.waybill.access.Caller;
import dev.waybill.db.Database;
import jakarta.inject.Inject;
import jakarta.inject.Singleton;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.jboss.logging.Logger;
import org.jspecify.annotations.Nullable;

/**
 * Lists jobs, newest first, page by page. However rare what is asked for, one page costs a bounded
 * number of rows looked at; then it says where to go on.
 */
@Singleton
final class JobLists {

  /** So long a stream looks on without finding anything; then it says where to go on. */
  private static final long STREAM_NANOS_MAX = 5_000_000_000L;

  private static final Logger LOG = Logger.getLogger(JobLists.class);

  static final int PAGE_MAX = 1_000;
  static final int STREAM_MAX = 1_000_000;

  /** How many rows of each table one statement looks at. */
  private static final int BUDGET = 20_000;

  /** A page that found too little looks on for so long. */
  private static final Duration PATIENCE = Duration.ofMillis(250);

  private static final Set<String> STATES =
      Set.of("scheduled", "ready", "running", "done", "dead", "cancelled");
  private static final Pattern KIND = Pattern.compile("[a-z][a-z0-9_.-]{0,63}");
  private static final int TENANT_MAX = 128;
  private static final int TAG_MAX = 64;

  /** The function has the plan's settings and says why. */
  private static final String LIST = "SELECT * FROM waybill.list_jobs(?, ?, ?, ?, ?, ?, ?, ?, ?)";

  /** A client that reads slowly holds a thread and its buffers for as long. */
  private static final int STREAMS_AT_ONCE = 32;

  /** Of one tenant, or of one credential that is bound to none: the others have theirs. */
  private static final int STREAMS_OF_ONE = STREAMS_AT_ONCE / 4;

  private final Database database;
  private final Semaphore streams = new Semaphore(STREAMS_AT_ONCE);
  private final ConcurrentHashMap<String, Integer> streamsOf = new ConcurrentHashMap<>();

  @Inject
  JobLists(DataSource dataSource) {
    this.database = new Database(dataSource);
  }

  /** What to list; a null does not narrow. */
  record Filter(
      @Nullable String kind,
      @Nullable String state,
      @Nullable String tenant,
      @Nullable String tag) {

    Filter {
      if (kind != null && !KIND.matcher(kind).matches()) {
        throw Problem.invalid("kind", "It is no kind.");
      }
      if (state != null && !STATES.contains(state)) {
        throw Problem.invalid("state", "One of scheduled, ready, running, done, dead, cancelled.");
      }
      if (tenant != null && (tenant.length() > TENANT_MAX || tenant.indexOf(0) >= 0)) {
        throw Problem.invalid("tenant", "At most " + TENANT_MAX + " characters.");
      }
      if (tag != null && (tag.isEmpty() || tag.length() > TAG_MAX || tag.indexOf(0) >= 0)) {
        throw Problem.invalid("tag", "1 to " + TAG_MAX + " characters.");
      }
    }
  }

  /** Where a page begins: ids below this. */
  static long before(@Nullable String cursor) {
    if (cursor == null) {
      return Long.MAX_VALUE;
    }
    try {
      String plain = new String(Base64.getUrlDecoder().decode(cursor), StandardCharsets.UTF_8);
      if (plain.startsWith("1:")) {
        return Long.parseLong(plain.substring(2));
      }
    } catch (IllegalArgumentException _) {
      // Said below.
    }
    throw Problem.invalid("after", "Send the `next` of the page before, as it was.");
  }

  private static String cursor(long before) {
    return Base64.getUrlEncoder()
        .withoutPadding()
        .encodeToString(("1:" + before).getBytes(StandardCharsets.UTF_8));
  }

  /** What one statement found, and below which id to go on; null: nothing is left. */
  private record Found(List<JobSummary> jobs, @Nullable Long goOn) {}

  JobPage page(Filter filter, long before, int limit, Caller caller) throws SQLException {
    long begunNanos = System.nanoTime();
    var jobs = new ArrayList<JobSummary>();
    @Nullable Long from = before;
    while (from != null && jobs.size() < limit) {
      long below = from;
      int wanted = limit - jobs.size();
      Found found = database.run(c -> find(c, filter, below, wanted, caller));
      jobs.addAll(found.jobs());
      from = found.goOn();
      if (System.nanoTime() - begunNanos > PATIENCE.toNanos()) {
        break;
      }
    }
    return new JobPage(jobs, from == null ? null : cursor(from));
  }

  /**
   * One of the places for streams is held while this runs.
   *
   * @throws Problem.Thrown when there is none, before anything is written
   */
  void inPlace(Caller caller, Streaming streaming) throws IOException {
    String whose = caller.tenant() == null ? "name:" + caller.name() : caller.scope();
    if (streamsOf.merge(whose, 1, Integer::sum) > STREAMS_OF_ONE) {
      leave(whose);
      throw Problem.tooMany(
          "This process streams " + STREAMS_OF_ONE + " lists at once for one caller.");
    }
    try {
      if (!streams.tryAcquire()) {
        throw Problem.tooMany("This process streams " + STREAMS_AT_ONCE + " lists at once.");
      }
      try {
        streaming.run();
      } finally {
        streams.release();
      }
    } finally {
      leave(whose);
    }
  }

  /** Writes to a client. */
  interface Streaming {
    void run() throws IOException;
  }

  private void leave(String whose) {
    streamsOf.computeIfPresent(whose, (_, n) -> n == 1 ? null : n - 1);
  }

  /** Page by page, so that no connection is held while the client reads slowly. */
  void stream(Filter filter, long before, int limit, Caller caller, SequenceWriter out)
      throws IOException {
    int left = limit;
    @Nullable Long from = before;
    long patience = System.nanoTime() + STREAM_NANOS_MAX;
    try {
      while (from != null && left > 0 && System.nanoTime() - patience < 0) {
        long below = from;
        int wanted = Math.min(left, PAGE_MAX);
        Found found = database.run(c -> find(c, filter, below, wanted, caller));
        for (JobSummary job : found.jobs()) {
          out.write(job);
        }
        if (!found.jobs().isEmpty()) {
          patience = System.nanoTime() + STREAM_NANOS_MAX;
        }
        left -= found.jobs().size();
        from = found.goOn();
      }
    } catch (SQLException failure) {
      // The status is sent already: a line that says so, and where to go on.
      LOG.warnf("list cut short sqlstate=%s", failure.getSQLState());
    }
    if (from != null) {
      out.write(Map.of("next", cursor(from)));
    }
  }

  private static Found find(
      Connection connection, Filter filter, long before, int limit, Caller caller)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(LIST)) {
      statement.setString(1, filter.kind());
      statement.setString(2, filter.state());
      statement.setString(3, filter.tenant());
      statement.setString(4, filter.tag());
      statement.setLong(5, before);
      statement.setInt(6, limit);
      statement.setInt(7, BUDGET);
      int _ = caller.bindScope(statement, 8);
      var jobs = new ArrayList<JobSummary>();
      @Nullable Long lookedTo = null;
      try (ResultSet row = statement.executeQuery()) {
        while (row.next()) {
          long id = row.getLong("id");
          if (row.wasNull()) {
            lookedTo = row.getObject("looked_to", Long.class);
          } else {
            jobs.add(summary(row, id));
          }
        }
      }
      return new Found(
          jobs, jobs.size() == limit ? Long.valueOf(jobs.getLast().id()) : aboveBottom(lookedTo));
    }
  }

  /** The row at the end of the budget itself was not looked at. */
  private static @Nullable Long aboveBottom(@Nullable Long lookedTo) {
    return lookedTo == null ? null : lookedTo + 1;
  }

  private static JobSummary summary(ResultSet row, long id) throws SQLException {
    @Nullable Array tags = row.getArray("tags");
    return new JobSummary(
        id,
        row.getString("kind"),
        row.getString("tenant"),
        row.getInt("priority"),
        row.getString("state"),
        row.getInt("attempt"),
        row.getObject("max_attempts", Integer.class),
        row.getInt("crashes"),
        row.getInt("payload_version"),
        row.getObject("created_at", OffsetDateTime.class),
        row.getObject("run_at", OffsetDateTime.class),
        row.getObject("started_at", OffsetDateTime.class),
        row.getObject("finished_at", OffsetDateTime.class),
        row.getString("worker"),
        row.getString("last_error"),
        tags == null ? List.of() : List.of((String[]) tags.getArray()),
        row.getString("dedupe_key"));
  }
}
