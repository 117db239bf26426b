package dev.waybill.enqueue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.waybill.TestDatabase;
import dev.waybill.TestJobs;
import dev.waybill.job.Outcome;
import java.sql.SQLException;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** What must not enter through the SQL door is refused there, and the refusal names the column. */
class BadInputTest {

  @RegisterExtension static final TestDatabase DB = new TestDatabase();

  /** What the server said. */
  private record Refusal(
      String sqlState, String message, String detail, String hint, String column) {}

  private static Refusal refusal(String sql) {
    SQLException refused = assertThrows(SQLException.class, () -> DB.execute(sql), sql);
    @Nullable ServerErrorMessage said =
        refused instanceof PSQLException known ? known.getServerErrorMessage() : null;
    if (said == null) {
      throw new AssertionError("not from the server: " + sql, refused);
    }
    return new Refusal(
        String.valueOf(refused.getSQLState()),
        String.valueOf(said.getMessage()),
        String.valueOf(said.getDetail()),
        String.valueOf(said.getHint()),
        String.valueOf(said.getColumn()));
  }

  private static void refuses(String column, String sql) throws SQLException {
    Refusal refusal = refusal(sql);
    assertEquals(column, refusal.column(), refusal.toString());
    assertTrue(
        !refusal.hint().equals("null") || refusal.sqlState().equals("23502"), refusal.toString());
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.jobs"), sql);
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.counts"), sql);
  }

  private static final String MANY = "array_fill('{}'::jsonb, ARRAY[3])";

  @ParameterizedTest
  @CsvSource(
      delimiterString = " | ",
      quoteCharacter = '`',
      value = {
        "kind            | kind => NULL",
        "kind            | kind => ''",
        "kind            | kind => 'K'",
        "kind            | kind => '1k'",
        "kind            | kind => 'k k'",
        "kind            | kind => E'k\\n'",
        "kind            | kind => repeat('k', 65)",
        "kind            | kind => '*'",
        "payload         | kind => 'k', payload => to_jsonb(repeat('x', 262143))",
        "payload         | kind => 'k', payload => to_jsonb(repeat(U&'\\00e4', 131072))",
        "payload         | kind => 'k', payload => '1e400'",
        "payload         | kind => 'k', payload => '[-1e309]'",
        "payload         | kind => 'k', payload => '{\"a\": [{\"b\": 1e400}]}'",
        "payload         | kind => 'k', payload => (repeat('[', 65) || repeat(']', 65))::jsonb",
        "payload         | kind => 'k', payload => (repeat('[', 3000) || repeat(']', 3000))::jsonb",
        "payload         | kind => 'k', payload => (repeat('{\"a\":', 70) || '1' || repeat('}', 70))::jsonb",
        "tenant          | kind => 'k', tenant => repeat('t', 129)",
        "tenant          | kind => 'k', tenant => E'a\\nb'",
        "tenant          | kind => 'k', tenant => E'a\\x1b'",
        "priority        | kind => 'k', priority => 32768",
        "priority        | kind => 'k', priority => -2147483648",
        "run_at          | kind => 'k', run_at => 'infinity'",
        "run_at          | kind => 'k', run_at => '-infinity'",
        "run_at          | kind => 'k', run_at => '1969-12-31T23:59:59Z'",
        "run_at          | kind => 'k', run_at => now() + interval '11 years'",
        "run_at          | kind => 'k', run_at => '294000-01-01Z'",
        "dedupe_key      | kind => 'k', dedupe_key => ''",
        "dedupe_key      | kind => 'k', dedupe_key => repeat('d', 257)",
        "max_attempts    | kind => 'k', max_attempts => 0",
        "max_attempts    | kind => 'k', max_attempts => -1",
        "max_attempts    | kind => 'k', max_attempts => 1001",
        "max_attempts    | kind => 'k', max_attempts => 70000",
        "tags            | kind => 'k', tags => array_fill('t'::text, ARRAY[17])",
        "tags            | kind => 'k', tags => '{\"\"}'",
        "tags            | kind => 'k', tags => '{NULL}'",
        "tags            | kind => 'k', tags => '{{a,b},{c,d}}'",
        "tags            | kind => 'k', tags => ARRAY[repeat('t', 65)]",
        "payload_version | kind => 'k', payload_version => 0",
        "payload_version | kind => 'k', payload_version => 40000",
        "traceparent     | kind => 'k', traceparent => repeat('0', 129)",
      })
  void enqueue_names_the_column(String column, String arguments) throws SQLException {
    refuses(column, "SELECT waybill.enqueue(" + arguments + ")");
    if (!column.equals("payload") && !column.equals("dedupe_key")) {
      refuses(column, "SELECT waybill.enqueue_many(payloads => " + MANY + ", " + arguments + ")");
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiterString = " | ",
      quoteCharacter = '`',
      value = {
        "payloads | ARRAY['{}', NULL]::jsonb[]",
        "payloads | array_fill('{}'::jsonb, ARRAY[100001])",
        "payload  | ARRAY['{}', '1e400']::jsonb[]",
      })
  void enqueue_many_names_the_column(String column, String payloads) throws SQLException {
    refuses(column, "SELECT waybill.enqueue_many('k', " + payloads + ")");
  }

  @ParameterizedTest
  @CsvSource(
      delimiterString = " | ",
      quoteCharacter = '`',
      value = {
        "kind         | (kind) VALUES (NULL)",
        "kind         | (kind) VALUES ('Not Valid')",
        "payload      | (kind, payload) VALUES ('k', NULL)",
        "payload      | (kind, payload) VALUES ('k', to_jsonb(repeat('x', 300000)))",
        "run_at       | (kind, run_at) VALUES ('k', 'infinity')",
        "state        | (kind, state) VALUES ('k', 'done')",
        "state        | (kind, state) VALUES ('k', 'running')",
        "state        | (kind, token) VALUES ('k', gen_random_uuid())",
        "state        | (kind, lease_until) VALUES ('k', now())",
        "attempt      | (kind, attempt) VALUES ('k', 32767)",
        "attempt      | (kind, attempt) VALUES ('k', -1)",
        "crashes      | (kind, crashes) VALUES ('k', 1)",
        "attempts     | (kind, attempts) VALUES ('k', '{}')",
        "attempts     | (kind, attempts) VALUES ('k', '[]')",
      })
  void a_plain_insert_names_the_column(String column, String rest) throws SQLException {
    refuses(column, "INSERT INTO waybill.jobs " + rest);
  }

  @Test
  void what_is_no_jsonb_is_refused_by_the_type_itself() throws SQLException {
    for (String json :
        List.of(
            "{\"a\": \"\\u0000\"}", "{\"a\\u0000\": 1}", "\"\\ud800\"", "{a: 1}", "1e200000", "")) {
      Refusal refusal = refusal("SELECT waybill.enqueue('k', '" + json + "')");
      assertTrue(refusal.sqlState().startsWith("22"), refusal.toString());
    }
    assertEquals(0, DB.number("SELECT count(*) FROM waybill.jobs"));
  }

  @Test
  void a_refusal_quotes_no_payload() {
    for (String bad :
        List.of("to_jsonb(repeat('secret', 60000))", "('[\"secret\", 1e400]')::jsonb")) {
      Refusal refusal = refusal("SELECT waybill.enqueue('k', payload => " + bad + ")");
      assertFalse(refusal.message().contains("secret"), refusal.toString());
      assertFalse(refusal.detail().contains("secret"), refusal.toString());
    }
  }

  @Test
  void what_is_just_within_the_limits_enters_and_runs() throws SQLException {
    var jobs = new TestJobs(DB);
    for (String arguments :
        List.of(
            "kind => 'k' || repeat('.', 63)",
            "kind => 'k', payload => to_jsonb(repeat('x', 262142))",
            "kind => 'k', payload => (repeat('[', 63) || repeat(']', 63))::jsonb",
            "kind => 'k', payload => '1.7e308'",
            "kind => 'k', payload => 'null'",
            "kind => 'k', payload => '{\"a\": 1, \"a\": 2}'",
            "kind => 'k', tenant => repeat(U&'\\00e4', 128)",
            "kind => 'k', priority => -32768",
            "kind => 'k', run_at => '1970-01-01Z'",
            "kind => 'k', dedupe_key => repeat('d', 256)",
            "kind => 'k', max_attempts => 1000",
            "kind => 'k', tags => array_fill(repeat('t', 64), ARRAY[16])",
            "kind => 'k', payload => NULL, tenant => NULL, priority => NULL, payload_version => NULL")) {
      long id = DB.number("SELECT waybill.enqueue(" + arguments + ")");
      String kind = DB.text("SELECT kind FROM waybill.jobs WHERE id = ?", id);
      var job = jobs.claimOne(kind);
      assertEquals(id, job.id(), arguments);
      assertTrue(jobs.settle(job, Outcome.done()), arguments);
    }
    DB.auditIsClean();
  }
}
