package dev.waybill.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.waybill.TestDatabase;
import dev.waybill.enqueue.NewJob;
import java.sql.SQLException;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Keys of producers, as the database keeps them. */
class IdempotencyTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static final String FINGERPRINT = new Idempotency.Fingerprint().add("x").sum();

  @BeforeEach
  void forgetAll() throws SQLException {
    DB.execute("DELETE FROM waybill.idempotency");
  }

  private static void remember(String scope, String key, long id) throws SQLException {
    boolean _ =
        DB.database()
            .transaction(c -> {
              new Idempotency.Key(scope, key).remember(c, FINGERPRINT, List.of(id));
              return true;
            });
  }

  @Test
  void keys_of_the_last_day_stay_and_older_ones_are_swept_in_pages() throws SQLException {
    DB.execute(
        """
        INSERT INTO waybill.idempotency (scope, key, fingerprint, ids, created_at)
        SELECT 's', 'k' || g, '\\x00', ARRAY[g], now() - CASE WHEN g > 2500 THEN interval '23 hours' ELSE interval '25 hours' END
        FROM generate_series(1, 2510) g
        """);
    assertEquals(2_500, new Idempotency(DB.database()).forget());
    assertEquals(10, DB.number("SELECT count(*) FROM waybill.idempotency"));
    assertEquals(0, new Idempotency(DB.database()).forget());
  }

  @Test
  void who_comes_second_is_told_and_another_scope_is_another_key() throws SQLException {
    remember("enqueue ", "k", 1);
    assertThrows(Idempotency.Raced.class, () -> remember("enqueue ", "k", 2));
    remember("enqueue tenant:acme", "k", 3);
    var known = DB.database().run(c -> new Idempotency.Key("enqueue ", "k").find(c));
    assertEquals(List.of(1L), known == null ? List.of() : known.ids());
  }

  @Test
  void a_fingerprint_is_of_the_values_and_of_each_of_them() {
    NewJob job =
        NewJob.of("k", "{\"a\": 1, \"b\": {\"d\": 2, \"c\": 3}}").withTags(List.of("x", "y"));
    String sum = new Idempotency.Fingerprint().add(job).sum();
    NewJob same = NewJob.of("k", "{\"b\":{\"c\":3,\"d\":2},\"a\":1}").withTags(List.of("x", "y"));
    assertEquals(sum, new Idempotency.Fingerprint().add(same).sum());
    for (NewJob other :
        List.of(
            job.withTenant("t"),
            job.withPriority(1),
            job.withDedupeKey("d"),
            job.withMaxAttempts(3),
            job.withPayloadVersion(2),
            job.withTags(List.of("xy")),
            job.withDelay(java.time.Duration.ofSeconds(1)))) {
      assertNotEquals(sum, new Idempotency.Fingerprint().add(other).sum(), other::toString);
    }
    assertNotEquals(
        new Idempotency.Fingerprint().add(job).add(job).sum(), sum, "two jobs are not one");
  }
}
