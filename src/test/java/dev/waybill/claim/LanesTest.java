package dev.waybill.claim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
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
    lanes.swept(List.of(lane("a", END - 5)));
    emptiedAt(END);
    assertTrue(lanes.isEmpty());
    assertTrue(lanes.recall(OPEN));
    assertEquals(END - LATE, next().lowMicros());
  }

  @Test
  void recalled_in_vain_it_does_not_begin_earlier_each_time() {
    lanes.swept(List.of(lane("a", END - 5)));
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
  void what_a_sweep_found_long_before_the_end_does_not_move_it() {
    lanes.swept(List.of(lane("a", END)));
    emptiedAt(END);
    lanes.swept(List.of(lane("a", END - 10 * LATE)));
    emptiedAt(END - 9 * LATE);
    assertTrue(lanes.recall(OPEN));
    assertEquals(END - LATE, next().lowMicros());
  }

  @Test
  void it_says_when_it_cannot_recall_all_that_was_emptied_since_the_last_sweep() {
    lanes.swept(List.of(lane("a", END)));
    emptiedAt(END);
    assertTrue(lanes.remembersAll(Set.of("k")));
    assertFalse(lanes.remembersAll(Set.of()), "its kind is not recalled");
    lanes.swept(IntStream.range(0, 17).mapToObj(n -> lane("t" + n, END)).toList());
    assertTrue(lanes.remembersAll(Set.of()), "nothing emptied since the sweep");
    for (int n = 0; n < 17; n++) {
      emptiedAt(END);
    }
    assertFalse(lanes.remembersAll(Set.of("k")), "more than are remembered");
    lanes.swept(List.of());
    assertTrue(lanes.remembersAll(Set.of("k")));
  }

  @Test
  void what_is_paused_or_too_new_is_not_recalled() {
    lanes.swept(List.of(lane("a", END)));
    emptiedAt(END);
    assertFalse(lanes.recall(Map.of()));
    assertFalse(lanes.recall(Map.of("k", 0)));
    assertTrue(lanes.recall(OPEN));
  }

  @Test
  void what_a_sweep_found_while_claims_went_on_is_added() {
    lanes.swept(List.of(lane("a", END), lane("b", END)));
    lanes.sweepBegins();
    lanes.advance(lane("a", END), END + 100, 9);
    lanes.add(List.of(lane("a", END - 5_000), lane("c", END)), Set.of("k"));
    var heads =
        lanes.next(9, _ -> 1).stream()
            .map(turn -> turn.lane().tenant() + (turn.lane().lowMicros() - END))
            .sorted()
            .toList();
    assertEquals(List.of("a-5000", "b0", "c0"), heads, "a came late, b came after it looked");
  }

  /** Its backlog may last for hours. */
  @Test
  void a_kind_that_was_paused_is_not_kept_by_a_sweep_that_did_not_look_for_it() {
    lanes.swept(List.of(lane("a", END)));
    lanes.add(List.of(), Set.of("k"));
    assertFalse(lanes.isEmpty(), "it may have come after the look");
    lanes.add(List.of(), Set.of());
    assertTrue(lanes.isEmpty());
  }

  @Test
  void what_is_kept_beside_what_was_found_is_bounded() {
    for (int i = 0; i < 3; i++) {
      int round = i;
      lanes.add(
          IntStream.range(0, Sweep.LANES_MAX - 1)
              .mapToObj(n -> lane(round + "t" + n, END))
              .toList(),
          Set.of("k"));
    }
    assertEquals(Sweep.LANES_MAX, lanes.tenants());
  }

  @Test
  void what_was_emptied_while_a_sweep_looked_counts_as_emptied_since() {
    lanes.sweepBegins();
    IntStream.range(0, 17)
        .forEach(i -> {
          lanes.add(List.of(lane("t" + i, END)), Set.of("k"));
          emptiedAt(END);
        });
    assertFalse(lanes.remembersAll(Set.of("k")), "of 17 lanes it forgot one");
    lanes.sweepBegins();
    assertTrue(lanes.remembersAll(Set.of("k")));
    lanes.forget();
    assertFalse(lanes.remembersAll(Set.of("k")), "that sweep found nothing out");
  }
}
