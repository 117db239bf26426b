package dev.waybill.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PoolPlanTest {

  @Test
  void pools_with_their_kinds_and_slots() {
    assertEquals(
        List.of(
            new PoolPlan("fast", Set.of("email", "webhook"), 64),
            new PoolPlan("bulk", Set.of("backfill"), 8)),
        PoolPlan.parse("fast=email,webhook:64;bulk=backfill:8"));
  }

  @Test
  void blanks_and_a_last_semicolon_do_no_harm() {
    assertEquals(
        List.of(new PoolPlan("a", Set.of("x.y-z_1"), 1), new PoolPlan("b", Set.of("*"), 10_000)),
        PoolPlan.parse(" a = x.y-z_1 : 1 ; b=*:10000; "));
  }

  @ParameterizedTest
  @CsvSource(
      delimiterString = " | ",
      quoteCharacter = '`',
      value = {
        "``               | there is no pool",
        "` ; `            | there is no pool",
        "fast             | is not name=kind,kind:slots",
        "fast=email       | is not name=kind,kind:slots",
        "=email:4         | is not name=kind,kind:slots",
        "fa:st=email      | is not name=kind,kind:slots",
        "Fast=email:4     | 'Fast' is no name for a pool",
        "1=email:4        | '1' is no name for a pool",
        "fast=:4          | '' is no kind",
        "fast=email,:4    | '' is no kind",
        "fast=Email:4     | 'Email' is no kind",
        "fast=a*:4        | 'a*' is no kind",
        "fast=email:      | '' is no number of slots",
        "fast=email:0     | '0' is no number of slots",
        "fast=email:-1    | '-1' is no number of slots",
        "fast=email:10001 | '10001' is no number of slots",
        "fast=email:4.5   | '4.5' is no number of slots",
        "fast=email:99999999999 | is no number of slots",
        "a=x:1;a=y:1      | the pool a is there twice",
        "a=x:1;b=x:1      | the kind x is in two pools",
        "a=*:1;b=*:1      | the kind * is in two pools",
      })
  void a_wrong_setting_is_refused_with_what_would_be_right(String setting, String why) {
    var refused = assertThrows(IllegalArgumentException.class, () -> PoolPlan.parse(setting));
    String message = String.valueOf(refused.getMessage());
    assertTrue(message.startsWith("WAYBILL_POOLS: "), message);
    assertTrue(message.contains(why), message);
    assertTrue(message.contains("right would be fast=email"), message);
    assertEquals(1, message.lines().count());
  }

  @Test
  void one_pool_of_several_is_chosen_and_the_rest_star_knows_the_others() {
    List<PoolPlan> all = PoolPlan.parse("default=*:64;bulk=backfill:8");
    assertEquals(all, PoolPlan.chosen(" ", all));
    PoolPlan rest = PoolPlan.chosen("default", all).getFirst();
    assertEquals("default", rest.name());
    assertTrue(rest.takes("email", all));
    assertFalse(rest.takes("backfill", all));
    var refused = assertThrows(IllegalArgumentException.class, () -> PoolPlan.chosen("fast", all));
    assertEquals(
        "WAYBILL_POOL: there is no pool fast in WAYBILL_POOLS; right would be one of default, bulk",
        refused.getMessage());
  }
}
