package dev.waybill.blackbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.awaitility.Awaitility;

/** What must hold after every fault: the guarantees of the contract, against the outside log. */
final class Invariants {

  private static final Duration DRAIN = Duration.ofSeconds(90);

  private static final String LIVE =
      """
      SELECT string_agg(state || ' ' || n, ', ')
      FROM (SELECT state, count(*) n FROM waybill.jobs GROUP BY state) live
      """;

  /** Jobs with what is wrong with them; each condition names its guarantee. */
  private static final String BROKEN =
      """
      WITH job AS (
        SELECT a.*,
          (SELECT count(*) FROM jsonb_array_elements(a.attempts) e WHERE e->>'outcome' = 'crashed') AS crashed,
          (SELECT count(*) FROM jsonb_array_elements(a.attempts) e
            WHERE e->>'outcome' IN ('retry', 'crashed', 'dead', 'cancelled')) AS burned,
          (SELECT count(DISTINCT e->>'attempt') FROM jsonb_array_elements(a.attempts) e
            WHERE e->>'outcome' IN ('retry', 'crashed', 'dead', 'cancelled')) AS burned_numbers
        FROM waybill.all_jobs a
      )
      SELECT format('job %s %s: %s; attempt %s of %s, crashes %s, history %s',
        id, state, wrong, attempt, max_attempts, crashes, attempts)
      FROM job CROSS JOIN LATERAL (VALUES
        ('1: not in a terminal state', state NOT IN ('done', 'dead', 'cancelled')),
        ('3: an attempt was settled twice', burned_numbers <> burned),
        ('3: the attempt that was done was settled before', state = 'done' AND attempt <> burned + 1),
        ('4: attempt and history differ', state = 'dead' AND attempt <> burned),
        ('4: attempt passed its limit', attempt > coalesce(max_attempts, 10)),
        ('4: crashes and history differ', crashes <> crashed),
        ('10: started before run_at', started_at < run_at)
      ) AS found(wrong, is_so)
      WHERE is_so ORDER BY id LIMIT 20
      """;

  private Invariants() {}

  /** Waits until nothing is live, then checks. */
  static void check(TestDatabase database, EnqueueLog log) throws SQLException {
    awaitDrained(database);
    checkNow(database, log);
  }

  static void awaitDrained(TestDatabase database) {
    Awaitility.await("the backlog drains")
        .atMost(DRAIN)
        .pollInterval(Duration.ofMillis(100))
        .untilAsserted(() -> assertEquals("null", database.text(LIVE), "live jobs"));
  }

  static void checkNow(TestDatabase database, EnqueueLog log) throws SQLException {
    assertEquals(List.of(), database.texts(BROKEN), "broken jobs");
    assertEquals(
        List.of(),
        database.texts("SELECT guarantee || ': ' || detail FROM waybill.audit() WHERE NOT ok"),
        "audit");
    compare(database, log);
  }

  /** Every acknowledged id is there once; nothing is there that nobody sent. */
  private static void compare(TestDatabase database, EnqueueLog log) throws SQLException {
    Map<Long, Integer> acknowledged = log.acknowledged();
    var missing = new HashSet<>(acknowledged.keySet());
    var unanswered = new HashSet<>(log.unanswered());
    var strange = new ArrayList<String>();
    for (String row :
        database.texts("SELECT id || ' ' || coalesce(payload->>'n', '-1') FROM waybill.all_jobs")) {
      String[] words = row.split(" ", 2);
      long id = Long.parseLong(words[0]);
      int number = Integer.parseInt(words[1]);
      if (acknowledged.containsKey(id) ? !missing.remove(id) : !unanswered.remove(number)) {
        strange.add(row);
      }
    }
    assertTrue(missing.isEmpty(), "1: acknowledged and lost: " + missing);
    assertTrue(strange.isEmpty(), "1: nobody enqueued (or twice): " + strange);
  }
}
