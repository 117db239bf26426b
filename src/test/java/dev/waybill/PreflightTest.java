package dev.waybill;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PreflightTest {

  @AfterEach
  void forget() {
    System.clearProperty("waybill.drain");
    System.clearProperty("waybill.pools");
    System.clearProperty("waybill.db.engine-connections");
  }

  @Test
  void a_stop_may_take_as_long_as_the_drain_and_half_a_minute_more() throws Exception {
    assertEquals(Duration.ofSeconds(55), Preflight.stopsWithin());
    System.setProperty("waybill.drain", "10m");
    assertEquals(Duration.ofSeconds(630), Preflight.stopsWithin());
  }

  @Test
  void a_drain_that_is_no_duration_is_refused_with_what_would_be_right() {
    for (String wrong : new String[] {"soon", "-5s", "P3D", "999999h"}) {
      System.setProperty("waybill.drain", wrong);
      String said =
          String.valueOf(
              assertThrows(Preflight.Refused.class, Preflight::stopsWithin).getMessage());
      assertTrue(said.contains("WAYBILL_DRAIN: '" + wrong) && said.contains("25s"), said);
    }
  }

  @Test
  void the_engines_connections_follow_the_pools_unless_they_are_set() throws Exception {
    assertEquals(24, Preflight.engineConnections());
    System.setProperty("waybill.pools", "a=a:1;b=b:1");
    assertEquals(24, Preflight.engineConnections());
    System.setProperty("waybill.pools", "p=k:1;".repeat(30));
    assertEquals(47, Preflight.engineConnections());
    System.setProperty("waybill.db.engine-connections", "12");
    assertEquals(12, Preflight.engineConnections());
    System.setProperty("waybill.db.engine-connections", "many");
    String said =
        String.valueOf(
            assertThrows(Preflight.Refused.class, Preflight::engineConnections).getMessage());
    assertTrue(said.startsWith("WAYBILL_DB_ENGINE_CONNECTIONS: 'many'"), said);
  }
}
