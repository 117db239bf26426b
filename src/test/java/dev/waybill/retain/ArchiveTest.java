package dev.waybill.retain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Supplier;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

class ArchiveTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  @TempDir Path directory = Path.of("replaced");

  private final PastDays past = new PastDays(DB);

  private static final RetainEvents NOBODY =
      new RetainEvents() {
        @Override
        public void reaped(String kind, long n) {}

        @Override
        public void purged(String kind, long n) {}
      };

  @AfterEach
  void tidyUp() throws SQLException {
    past.tidyUp();
  }

  private static Retention retention(Supplier<Optional<Shelf>> place) throws SQLException {
    var database = DB.database();
    var archive = new Archive(database, place);
    var retention =
        new Retention(
            new Turn(database),
            archive,
            new Expiry(database, NOBODY),
            new Dropper(database, archive, NOBODY),
            new Leftovers(database));
    retention.open();
    return retention;
  }

  private static void retain(Shelf shelf) throws SQLException {
    // A turn of its own each time: the one before may have ended in the middle.
    DB.execute("DELETE FROM waybill.turns");
    retention(() -> Optional.of(shelf)).turn(() -> true);
  }

  private Shelf shelf() {
    return new DirectoryShelf(directory);
  }

  private static void keep(String kind, long retentionMillis, boolean archive) throws SQLException {
    DB.execute(
        "INSERT INTO waybill.kinds (kind, retention_ms, archive) VALUES (?, ?, ?)",
        kind,
        retentionMillis,
        archive);
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> files = Files.walk(directory)) {
      return files.filter(Files::isRegularFile).sorted().toList();
    }
  }

  private static List<String> lines(InputStream compressed) throws IOException {
    try (var in = new GZIPInputStream(compressed)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
    }
  }

  private static String digest(String from) throws SQLException {
    return DB.text(
        "SELECT count(*) || ' ' || coalesce(md5(string_agg(j::text, '|' ORDER BY id)), '') FROM "
            + from
            + " j");
  }

  /** As docs/retention.md says it is done. */
  private static String digestOf(List<String> lines) throws SQLException {
    DB.execute("CREATE TABLE public.restored (LIKE waybill.jobs_done)");
    try {
      for (String line : lines) {
        DB.execute(
            "INSERT INTO public.restored SELECT * FROM jsonb_populate_record(NULL::waybill.jobs_done, ?::jsonb)",
            line);
      }
      return digest("public.restored");
    } finally {
      DB.execute("DROP TABLE public.restored");
    }
  }

  // ------------------------------------------------------------------------------------ directory

  @Test
  void what_is_read_back_equals_what_was_there() throws Exception {
    keep("kept", 86_400_000, true);
    past.done(9, "kept", 120);
    past.done(9, "usual", 50);
    String there = digest("(SELECT * FROM waybill.jobs_done WHERE kind = 'kept')");
    retain(shelf());
    assertEquals(List.of(), past.attached());
    List<Path> files = files();
    assertEquals(1, files.size(), files::toString);
    assertTrue(files.getFirst().toString().matches(".*/kept/jobs_done_\\d{8}-\\d+\\.ndjson\\.gz"));
    try (InputStream in = Files.newInputStream(files.getFirst())) {
      assertEquals(there, digestOf(lines(in)));
    }
    assertEquals(
        files.getFirst().toUri().toString(), DB.text("SELECT object FROM waybill.archives"));
    assertEquals(120, DB.number("SELECT jobs FROM waybill.archives"));
    DB.auditIsClean();
  }

  @Test
  void a_kind_kept_shorter_is_written_before_it_is_deleted_from_a_day_that_stays()
      throws Exception {
    keep("brief", 3_600_000, true);
    past.done(3, "brief", 40);
    past.done(3, "usual", 10);
    String there = digest("(SELECT * FROM waybill.jobs_done WHERE kind = 'brief')");
    retain(shelf());
    assertEquals(1, past.attached().size());
    assertEquals(10, DB.number("SELECT count(*) FROM waybill.jobs_done"));
    try (InputStream in = Files.newInputStream(files().getFirst())) {
      assertEquals(there, digestOf(lines(in)));
    }
    DB.auditIsClean();
    retain(shelf());
    assertEquals(1, files().size(), "not again, without them");
  }

  @Test
  void without_a_place_nothing_is_dropped_and_it_is_said_once() throws Exception {
    keep("kept", 86_400_000, true);
    past.done(9, "kept", 5);
    past.done(10, "usual", 5);
    var said = new Said();
    try (said) {
      Retention retention = retention(Optional::empty);
      retention.turn(() -> true);
      retention.turn(() -> true);
    }
    assertEquals(1, said.of("WAYBILL_ARCHIVE is not set").size(), said.lines::toString);
    assertEquals(1, past.attached().size());
    assertEquals(5, DB.number("SELECT count(*) FROM waybill.jobs_done"));
    DB.auditIsClean();
    retain(shelf());
    assertEquals(List.of(), past.attached());
    assertEquals(1, files().size());
    DB.auditIsClean();
  }

  @Test
  void a_place_that_fails_keeps_the_day_and_is_tried_again() throws Exception {
    keep("kept", 86_400_000, true);
    past.done(9, "kept", 5);
    Files.createFile(directory.resolve("kept")); // In the way of the kind's directory.
    retain(shelf());
    assertEquals(1, past.attached().size());
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.archives"));
    Files.delete(directory.resolve("kept"));
    retain(shelf());
    assertEquals(List.of(), past.attached());
    assertEquals(1, files().size());
    DB.auditIsClean();
  }

  /** Fails after so many bytes, as a process that is killed does. */
  private static Shelf failingAfter(Shelf inner, int bytes, boolean before, boolean tidy) {
    return new Shelf() {
      @Override
      public Parcel begin(String name) throws IOException {
        Parcel parcel = inner.begin(name);
        return new Parcel() {
          private int written;

          @Override
          void complete() throws IOException {
            if (!before) {
              parcel.complete();
            }
            throw new IOException("killed");
          }

          @Override
          public void write(int value) throws IOException {
            write(new byte[] {(byte) value}, 0, 1);
          }

          @Override
          public void write(byte[] content, int offset, int length) throws IOException {
            written += length;
            if (written > bytes) {
              throw new IOException("killed");
            }
            parcel.write(content, offset, length);
          }

          @Override
          public void close() throws IOException {
            if (tidy) {
              parcel.close();
            }
          }
        };
      }

      @Override
      public String locationOf(String name) {
        return inner.locationOf(name);
      }
    };
  }

  @Test
  void killed_while_writing_or_before_or_after_the_rename_leaves_one_whole_object()
      throws Exception {
    keep("kept", 86_400_000, true);
    past.done(9, "kept", 500);
    String there = digest("waybill.jobs_done");
    retain(failingAfter(shelf(), 5, true, false));
    retain(failingAfter(shelf(), Integer.MAX_VALUE, true, false));
    assertEquals(1, files().size(), "an unfinished one; the one before was taken away");
    assertFalse(files().getFirst().toString().endsWith(".gz"));
    retain(failingAfter(shelf(), Integer.MAX_VALUE, false, true));
    assertEquals(500, DB.number("SELECT count(*) FROM waybill.jobs_done"), "not removed yet");
    DB.auditIsClean();
    retain(shelf());
    assertEquals(1, files().size(), files()::toString);
    try (InputStream in = Files.newInputStream(files().getFirst())) {
      assertEquals(there, digestOf(lines(in)));
    }
    assertEquals(List.of(), past.attached());
    DB.auditIsClean();
  }

  /** One was frozen in the middle, another wrote, deleted and went on. */
  @Test
  void who_wakes_late_does_not_overwrite_the_whole_with_what_is_left() throws Exception {
    keep("brief", 3_600_000, true);
    past.done(3, "brief", 40);
    past.done(3, "usual", 10);
    Shelf late =
        new Shelf() {
          @Override
          public Parcel begin(String name) throws IOException {
            try {
              retain(shelf());
            } catch (SQLException e) {
              throw new IOException(e);
            }
            return shelf().begin(name);
          }

          @Override
          public String locationOf(String name) {
            return shelf().locationOf(name);
          }
        };
    retain(late);
    try (InputStream in = Files.newInputStream(files().getFirst())) {
      assertEquals(40, lines(in).size());
    }
    assertEquals(1, files().size());
    DB.auditIsClean();
  }

  // ------------------------------------------------------------------------------------------- S3

  private static Shelf bucket(FakeS3 s3, String secret) {
    return new S3Shelf(
        URI.create(s3.endpoint()),
        "a-bucket",
        "pre fix/",
        new Signature("eu-north-1", FakeS3.ACCESS_KEY, secret),
        null,
        Instant::now);
  }

  @Test
  void small_days_go_to_s3_in_one_request() throws Exception {
    keep("kept", 86_400_000, true);
    past.done(9, "kept", 30);
    String there = digest("waybill.jobs_done");
    try (var s3 = new FakeS3()) {
      s3.fail("PUT", 503, "<Error><Code>SlowDown</Code></Error>", 2);
      retain(bucket(s3, FakeS3.SECRET_KEY));
      assertEquals(List.of("PUT", "PUT", "PUT"), s3.requests());
      assertEquals(1, s3.objects().size());
      String path = s3.objects().keySet().iterator().next();
      assertTrue(path.startsWith("/a-bucket/pre%20fix/kept/jobs_done_"), path);
      assertEquals(there, digestOf(lines(new ByteArrayInputStream(s3.objects().get(path)))));
      assertEquals(
          path.replace("%20", " "), DB.text("SELECT substr(object, 5) FROM waybill.archives"));
    }
    assertEquals(List.of(), past.attached());
    DB.auditIsClean();
  }

  @Test
  void large_days_go_to_s3_in_parts_and_are_there_when_put_together() throws Exception {
    keep("kept", 86_400_000, true);
    past.done(9, "kept", 200);
    // Not to be compressed: some 19 MB.
    DB.execute(
        """
        UPDATE waybill.jobs_done d SET payload = (
          SELECT jsonb_build_object('noise', string_agg(md5(d.id || ' ' || n), '')) FROM generate_series(1, 5000) n)
        """);
    String there = digest("waybill.jobs_done");
    try (var s3 = new FakeS3()) {
      s3.fail("PUT partNumber,uploadId", 500, "", 1);
      // S3 may say 200 and then that it failed.
      s3.fail("POST uploadId", 200, "<Error><Code>InternalError</Code></Error>", 1);
      retain(bucket(s3, FakeS3.SECRET_KEY));
      assertEquals(1, s3.objects().size(), s3.requests()::toString);
      assertEquals(0, s3.openUploads());
      assertTrue(s3.requests().stream().filter(r -> r.startsWith("PUT")).count() >= 3);
      assertEquals(
          there,
          digestOf(lines(new ByteArrayInputStream(s3.objects().values().iterator().next()))));
    }
    assertEquals(List.of(), past.attached());
    DB.auditIsClean();
  }

  @Test
  void an_upload_that_fails_is_taken_back_and_the_day_stays() throws Exception {
    keep("kept", 86_400_000, true);
    past.done(9, "kept", 100);
    DB.execute(
        """
        UPDATE waybill.jobs_done d SET payload = (
          SELECT jsonb_build_object('noise', string_agg(md5(d.id || ' ' || n), '')) FROM generate_series(1, 5000) n)
        """);
    try (var s3 = new FakeS3()) {
      s3.fail("POST uploadId", 403, "<Error><Code>AccessDenied</Code></Error>", 1);
      retain(bucket(s3, FakeS3.SECRET_KEY));
      assertEquals(0, s3.objects().size());
      assertEquals(0, s3.openUploads());
      assertEquals(100, DB.number("SELECT count(*) FROM waybill.jobs_done"));
      retain(bucket(s3, FakeS3.SECRET_KEY));
      assertEquals(1, s3.objects().size());
      assertEquals(List.of(), past.attached());
    }
    DB.auditIsClean();
  }

  @Test
  void a_wrong_key_is_refused_and_said_without_it() throws Exception {
    keep("kept", 86_400_000, true);
    past.done(9, "kept", 3);
    var said = new Said();
    try (var s3 = new FakeS3();
        said) {
      retain(bucket(s3, "another secret"));
      assertEquals(List.of("PUT"), s3.requests(), "not again: it would not help");
    }
    assertEquals(1, said.of("SignatureDoesNotMatch").size(), said.lines::toString);
    assertEquals(0, said.of("another secret").size());
    assertEquals(1, past.attached().size());
  }

  // ------------------------------------------------------------------------------------- settings

  record Given(String url, long vacuumDead) implements RetainSettings, RetainSettings.S3 {
    @Override
    public Optional<String> archive() {
      return Optional.of(url);
    }

    @Override
    public Duration every() {
      return Duration.ofMinutes(1);
    }

    @Override
    public S3 s3() {
      return this;
    }

    @Override
    public Optional<String> endpoint() {
      return Optional.empty();
    }

    @Override
    public String region() {
      return "us-east-1";
    }

    @Override
    public Optional<String> accessKey() {
      return Optional.empty();
    }

    @Override
    public Optional<String> secretKey() {
      return Optional.of("s");
    }

    @Override
    public Optional<String> sessionToken() {
      return Optional.empty();
    }
  }

  @Test
  void wrong_settings_are_refused_in_one_line_that_says_what_would_be_right() {
    for (String wrong :
        List.of(
            "/var/archive",
            "file://relative",
            "s3://",
            "s3://Bucket/x",
            "http://x",
            "file:///no/such/directory",
            "s3://bucket/x")) {
      String said =
          String.valueOf(
              assertThrows(
                      IllegalArgumentException.class,
                      () -> Shelves.of(new Given(wrong, 0), Instant::now),
                      wrong)
                  .getMessage());
      assertTrue(said.startsWith("WAYBILL_ARCHIVE") && said.lines().count() == 1, said);
    }
    assertTrue(Shelves.of(new Given(" ", 0), Instant::now).isEmpty());
  }

  /** What this room's log says meanwhile. */
  private static final class Said extends Handler implements AutoCloseable {

    private final List<String> lines = new CopyOnWriteArrayList<>();
    private final Logger logger = Logger.getLogger(Archive.class.getName());

    Said() {
      logger.addHandler(this);
    }

    List<String> of(String words) {
      return lines.stream().filter(line -> line.contains(words)).toList();
    }

    @Override
    public void publish(@Nullable LogRecord record) {
      if (record != null) {
        lines.add(new SimpleFormatter().formatMessage(record) + Arrays.asList(parameters(record)));
      }
    }

    private static Object[] parameters(LogRecord record) {
      Object @Nullable [] parameters = record.getParameters();
      return parameters == null ? new Object[0] : parameters;
    }

    @Override
    public void flush() {}

    @Override
    public void close() {
      logger.removeHandler(this);
    }
  }
}
