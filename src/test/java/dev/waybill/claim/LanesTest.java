package dev.waybill.claim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LanesTest {

  private static final long END = 1_000_000_000L;
  private static final long LATE = 50_000;
  private static final Map<String, Integer> OPEN = Map.of("k", 1);

  private final Lanes lanes = new Lanes();

  private static Lane lane(String tenant, long low) {
    return new Lane("k", 1, tenant, 0, low, 7, 0);
  }

  private Lane next() {
    return lanes.next(1, _ -> 1).getFirst().lane();
  }

  /** A claim that got to there, and then nothing more. */
  private void emptiedAt(long micros) {
    Lane lane = next();
    lanes.advance(lane, micros, 9);
    lanes.exhausted(lane);
  }

  @Test
  void what_was_emptied_is_recalled_a_little_before_its_end_for_late_commits() {
    assertFalse(lanes.recall(OPEN), "nothing known");
    lanes.refresh(List.of(lane("a", END - 5)));
    emptiedAt(END);
    assertTrue(lanes.isEmpty());
    assertTrue(lanes.recall(OPEN));
    assertEquals(END - LATE, next().lowMicros());
  }

  @Test
  void recalled_in_vain_it_does_not_begin_earlier_each_time() {
    lanes.refresh(List.of(lane("a", END - 5)));
    emptiedAt(END);
    for (int i = 0; i < 5; i++) {
      assertTrue(lanes.recall(OPEN));
      assertEquals(END - LATE, next().lowMicros());
      lanes.exhausted(next());
    }
    // A late one was there: the end stays where it was.
    assertTrue(lanes.recall(OPEN));
    emptiedAt(END - 10);
    assertTrue(lanes.recall(OPEN));
    assertEquals(END - LATE, next().lowMicros());
  }

  @Test
  void an_end_that_lies_far_ahead_is_given_up() {
    lanes.refresh(List.of(lane("a", END)));
    emptiedAt(END);
    lanes.refresh(List.of(lane("a", END - 10 * LATE)));
    emptiedAt(END - 9 * LATE);
    assertTrue(lanes.recall(OPEN));
    assertEquals(END - 10 * LATE, next().lowMicros(), "the database's clock was set back");
  }

  @Test
  void what_is_paused_or_too_new_is_not_recalled() {
    lanes.refresh(List.of(lane("a", END)));
    emptiedAt(END);
    assertFalse(lanes.recall(Map.of()));
    assertFalse(lanes.recall(Map.of("k", 0)));
    assertTrue(lanes.recall(OPEN));
  }
}
