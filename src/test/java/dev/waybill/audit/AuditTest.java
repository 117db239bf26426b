package dev.waybill.audit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.waybill.TestDatabase;
import java.sql.SQLException;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class AuditTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  private static List<AuditLog.Line> page(@Nullable String tenant, @Nullable Long after, int limit)
      throws SQLException {
    return DB.database().run(c -> AuditLog.page(c, tenant, after, limit));
  }

  private static void record(String who, @Nullable String tenant) throws SQLException {
    DB.database()
        .run(c -> {
          Audit.record(c, who, Act.CANCEL, "1", tenant, 1);
          return 0;
        });
  }

  @Test
  void a_line_says_who_did_what_to_which_jobs_and_how_many() throws SQLException {
    DB.database()
        .run(c -> {
          Audit.record(c, "ops", Act.REPLAY_START, "7", "acme", "{\"kind\": \"email\"}", 12);
          return 0;
        });
    AuditLog.Line line = page(null, null, 1).getFirst();
    assertEquals(
        "ops replay-start 7 acme {\"kind\": \"email\"} 12",
        String.join(
            " ",
            line.who(),
            line.what(),
            line.target(),
            line.tenant(),
            line.filter(),
            String.valueOf(line.jobs())));
  }

  @Test
  void an_act_that_rolls_back_leaves_no_line() throws SQLException {
    long before = DB.number("SELECT count(*) FROM waybill.audit_log");
    assertThrows(
        IllegalStateException.class,
        () ->
            DB.database()
                .transaction(c -> {
                  Audit.record(c, "ops", Act.DELETE, "1", null, 1);
                  throw new IllegalStateException("the act failed");
                }));
    assertEquals(before, DB.number("SELECT count(*) FROM waybill.audit_log"));
  }

  @Test
  void nobody_changes_or_removes_a_line() throws SQLException {
    record("ops", null);
    for (String sql :
        List.of(
            "UPDATE waybill.audit_log SET who = 'somebody else'",
            "DELETE FROM waybill.audit_log",
            "TRUNCATE waybill.audit_log",
            "SET session_replication_role = replica; DELETE FROM waybill.audit_log")) {
      SQLException refused = assertThrows(SQLException.class, () -> DB.execute(sql), sql);
      assertEquals("42501", refused.getSQLState(), sql);
    }
    DB.execute("SET session_replication_role = origin");
  }

  @Test
  void a_line_past_its_retention_is_forgotten_and_that_is_logged() throws SQLException {
    record("young", null);
    DB.execute(
        """
        INSERT INTO waybill.audit_log (at, who, what, target, jobs)
        SELECT now() - interval '366 days', 'old', 'delete', '1', 1 FROM generate_series(1, 3)
        """);
    long young = DB.number("SELECT count(*) FROM waybill.audit_log WHERE who <> 'old'");
    assertEquals(3, DB.number("SELECT waybill.forget_audit()"));
    assertEquals(0, DB.number("SELECT waybill.forget_audit()"));
    assertEquals(
        "{\"lines\": 3}",
        DB.text(
            "SELECT (filter - 'until')::text FROM waybill.audit_log WHERE what = 'audit-forget'"));
    assertEquals(young + 1, DB.number("SELECT count(*) FROM waybill.audit_log"));
    assertThrows(
        SQLException.class,
        () -> DB.execute("UPDATE waybill.limits SET audit_retention = interval '1 day'"));
  }

  @Test
  void what_is_changed_by_sql_is_logged_with_what_changed() throws SQLException {
    DB.execute("INSERT INTO waybill.kinds (kind) VALUES ('merely-known')");
    DB.execute("INSERT INTO waybill.kinds (kind, max_attempts) VALUES ('k', 3)");
    DB.execute("UPDATE waybill.kinds SET max_attempts = 5, tenant_cap = 2 WHERE kind = 'k'");
    DB.execute("UPDATE waybill.kinds SET max_attempts = 5 WHERE kind = 'k'");
    DB.execute("UPDATE waybill.kinds SET paused = true WHERE kind = 'k'");
    DB.execute("DELETE FROM waybill.kinds WHERE kind = 'k'");
    assertEquals(
        List.of(
            "sql:postgres policy {\"changed\": {\"max_attempts\": [null, 3]}, \"version\": 1}",
            "sql:postgres policy {\"changed\": {\"tenant_cap\": [null, 2], \"max_attempts\": [3, 5]}, \"version\": 2}",
            "sql:postgres pause {\"changed\": {\"paused\": [false, true]}, \"version\": 3}",
            "sql:postgres policy-delete {\"version\": 3}"),
        DB.column(
            """
            SELECT who || ' ' || what || ' ' || filter FROM waybill.audit_log WHERE target IN ('k', 'merely-known') ORDER BY id
            """));
  }

  @Test
  void whoever_acts_for_somebody_is_logged_by_that_name() throws SQLException {
    boolean _ =
        DB.database()
            .transaction(c -> {
              Audit.actsFor(c, "somebody");
              return TestDatabase.execute(
                      c, "INSERT INTO waybill.kinds (kind, max_attempts) VALUES ('theirs', 3)")
                  == 1;
            });
    DB.execute("UPDATE waybill.kinds SET max_attempts = 4 WHERE kind = 'theirs'");
    assertEquals(
        List.of("somebody", "sql:postgres"),
        DB.column("SELECT who FROM waybill.audit_log WHERE target = 'theirs' ORDER BY id"));
  }

  @Test
  void pages_are_newest_first_and_end_where_the_next_begins() throws SQLException {
    for (int i = 0; i < 5; i++) {
      record("page-" + i, null);
    }
    List<AuditLog.Line> first = page(null, null, 2);
    assertEquals(List.of("page-4", "page-3"), first.stream().map(AuditLog.Line::who).toList());
    List<AuditLog.Line> second = page(null, first.getLast().id(), 2);
    assertEquals(List.of("page-2", "page-1"), second.stream().map(AuditLog.Line::who).toList());
  }

  @Test
  void a_tenant_reads_only_what_was_done_to_its_jobs() throws SQLException {
    record("a", "mine");
    record("b", "theirs");
    record("c", null);
    assertEquals(List.of("a"), page("mine", null, 10).stream().map(AuditLog.Line::who).toList());
  }
}
