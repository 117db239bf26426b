package dev.waybill.figures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How long attempts took, and what is suggested from it. */
class DurationsTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private final Durations durations = new Durations(DB.database());

  @BeforeEach
  void nothingWasCounted() throws SQLException {
    DB.execute("TRUNCATE waybill.durations");
  }

  private static @Nullable Measured measured(String kind) throws SQLException {
    return DB.database().run(c -> Measured.of(c, kind));
  }

  @Test
  void a_bucket_ends_at_most_a_quarter_above_what_is_in_it() {
    long seed = System.nanoTime();
    var random = new Random(seed);
    for (int i = 0; i < 100_000; i++) {
      long nanos =
          TimeUnit.MICROSECONDS.toNanos(4 + (random.nextLong(1L << 42) >> random.nextInt(40)));
      long end = Bucket.end(Bucket.of(nanos)).toNanos();
      assertTrue(
          end > nanos && end <= nanos + nanos / 4, "seed " + seed + ": " + nanos + " " + end);
    }
    assertEquals(Bucket.of(0), Bucket.of(4_999));
    assertEquals(Bucket.COUNT - 1, Bucket.of(Long.MAX_VALUE));
  }

  @Test
  void what_several_processes_counted_is_one_figure_of_a_week() throws SQLException {
    assertNull(measured("k"));
    var other = new Durations(DB.database());
    for (int i = 0; i < 500; i++) {
      durations.took("k", TimeUnit.MILLISECONDS.toNanos(10));
      other.took("k", TimeUnit.MILLISECONDS.toNanos(10));
    }
    for (int i = 0; i < 30; i++) {
      durations.took("k", TimeUnit.SECONDS.toNanos(2));
    }
    durations.took("other", 1);
    durations.flush();
    other.flush();
    durations.flush();
    Measured k = assertNotNull(measured("k"));
    assertEquals(1_030, k.attempts());
    assertBetween(k.p50(), 10, 13);
    assertBetween(k.p99(), 2_000, 2_500);
    assertBetween(k.p999(), 2_000, 2_500);
    assertEquals(2, DB.database().run(Measured::all).size());

    DB.execute("UPDATE waybill.durations SET day = day - 7 WHERE kind = 'k'");
    assertEquals(1_030, assertNotNull(measured("k")).attempts());
    DB.execute("UPDATE waybill.durations SET day = day - 2 WHERE kind = 'k'");
    assertNull(measured("k"));
    durations.took("other", 1);
    durations.flush();
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.durations WHERE kind = 'k'"));
  }

  private static <T> T assertNotNull(@Nullable T value) {
    org.junit.jupiter.api.Assertions.assertNotNull(value);
    return value;
  }

  private static void assertBetween(@Nullable Duration duration, long least, long most) {
    long millis = assertNotNull(duration).toMillis();
    assertTrue(millis >= least && millis <= most, millis + " ms");
  }

  @Test
  void what_could_not_be_written_is_written_the_next_time() throws SQLException {
    durations.took("k", 1);
    DB.execute("ALTER TABLE waybill.durations RENAME TO away");
    assertThrows(SQLException.class, durations::flush);
    DB.execute("ALTER TABLE waybill.away RENAME TO durations");
    durations.took("k", 1);
    durations.flush();
    assertEquals(2, assertNotNull(measured("k")).attempts());
  }

  /** Added, and then what is old could not be forgotten: nothing was added. */
  @Test
  void what_was_written_in_part_is_not_counted_twice() throws SQLException {
    DB.execute(
        "INSERT INTO waybill.durations (day, kind, bucket, n) VALUES (current_date - 20, 'old', 1, 1)");
    DB.execute(
        "CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''it stays''; END'");
    DB.execute(
        "CREATE TRIGGER stays BEFORE DELETE ON waybill.durations FOR EACH ROW EXECUTE FUNCTION stays()");
    durations.took("k", 1);
    assertThrows(SQLException.class, durations::flush);
    assertThrows(SQLException.class, durations::flush);
    DB.execute("DROP FUNCTION stays CASCADE");
    durations.flush();
    assertEquals(1, assertNotNull(measured("k")).attempts());
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.durations WHERE kind = 'old'"));
  }

  /** All attempts but one in ten thousand took as long. */
  @ParameterizedTest(name = "{0} ms: lease {1}, pulled {2}, limit {3}")
  @CsvSource({
    "5,      PT30S, PT30S,  PT10S",
    "6000,   PT30S, PT30S,  PT20S",
    "20000,  PT1M30S, PT45S, PT1M30S",
    "100000, PT2M,  PT5M,   PT10M",
    "4000000, PT2M, PT1H,   PT4H"
  })
  void a_lease_is_short_and_a_time_limit_is_three_times_the_longest(
      long millis, Duration lease, Duration pulled, Duration timeout) {
    var buckets = new long[Bucket.COUNT];
    buckets[Bucket.of(TimeUnit.MILLISECONDS.toNanos(millis))] = 9_999;
    buckets[Bucket.COUNT - 1] = 1;
    Measured measured = Measured.of("k", buckets);
    assertEquals(lease, measured.suggestedLease(false));
    assertEquals(pulled, measured.suggestedLease(true));
    assertEquals(timeout, measured.suggestedTimeout());
  }

  @Test
  void a_few_attempts_suggest_nothing() {
    var buckets = new long[Bucket.COUNT];
    buckets[40] = 99;
    Measured few = Measured.of("k", buckets);
    assertNull(few.p99());
    assertNull(few.suggestedLease(false));
    assertNull(few.suggestedTimeout());
    buckets[40] = 999;
    Measured more = Measured.of("k", buckets);
    assertEquals(Duration.ofSeconds(30), more.suggestedLease(false));
    assertNull(more.suggestedTimeout());
  }
}
