package dev.waybill.retain;

import dev.waybill.TestDatabase;
import java.sql.SQLException;
import java.util.List;

/** Days of the past with finished jobs in them, as if Waybill had run then. */
final class PastDays {

  private final TestDatabase db;

  PastDays(TestDatabase db) {
    this.db = db;
  }

  /** Makes the partition of that day; answers its name. */
  String make(int daysAgo) throws SQLException {
    String name =
        db.text(
            "SELECT 'jobs_done_' || to_char((now() AT TIME ZONE 'UTC')::date - ?, 'YYYYMMDD')",
            daysAgo);
    if (db.is("SELECT to_regclass('waybill.' || ?) IS NULL", name)) {
      db.execute("CREATE TABLE waybill." + name + " (LIKE waybill.jobs_done INCLUDING INDEXES)");
      String from =
          db.text(
              "SELECT ((now() AT TIME ZONE 'UTC')::date - ?)::timestamp AT TIME ZONE 'UTC'",
              daysAgo);
      String to =
          db.text(
              "SELECT ((now() AT TIME ZONE 'UTC')::date - ? + 1)::timestamp AT TIME ZONE 'UTC'",
              daysAgo);
      db.execute(
          String.format(
              "ALTER TABLE waybill.jobs_done ATTACH PARTITION waybill.%s FOR VALUES FROM ('%s') TO ('%s')",
              name, from, to));
    }
    return name;
  }

  /** Jobs that were enqueued and done at noon of that day. In one statement: an audit may be on. */
  void done(int daysAgo, String kind, int jobs) throws SQLException {
    String _ = make(daysAgo);
    db.execute(
        """
        WITH told AS (
          INSERT INTO waybill.tally (kind, what, n) SELECT ?, w, ? FROM unnest(ARRAY['enqueued', 'done']) w
        )
        INSERT INTO waybill.jobs_done (id, run_at, created_at, started_at, finished_at, priority, attempt, crashes, payload_version,
          state, kind, tenant, payload, tags, attempts, result)
        SELECT nextval('waybill.jobs_id_seq'), t, t, t, t, 0, 1, 0, 1, 'done', ?, 'acme', jsonb_build_object('n', n, 'text', E'\\u00e9 " \\\\ \\n'),
          ARRAY['a', 'b'], '[{"attempt": 1}]', '{"ok": true}'
        FROM generate_series(1, ?) n, (SELECT (((now() AT TIME ZONE 'UTC')::date - ?)::timestamp + interval '12 hours') AT TIME ZONE 'UTC') d(t)
        """,
        kind,
        jobs,
        kind,
        jobs,
        daysAgo);
  }

  List<String> attached() throws SQLException {
    return db
        .column(
            "SELECT name FROM waybill.done_partitions() WHERE ends < now() - interval '2 days' ORDER BY 1")
        .stream()
        .map(String::valueOf)
        .toList();
  }

  /** All past days, in whatever state a test left them. */
  void tidyUp() throws SQLException {
    for (String pending :
        db.column("SELECT name FROM waybill.done_partitions() WHERE detaching").stream()
            .map(String::valueOf)
            .toList()) {
      db.execute("ALTER TABLE waybill.jobs_done DETACH PARTITION waybill." + pending + " FINALIZE");
    }
    for (String name :
        db
            .column(
                """
                SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'jobs_done_2%'
                  AND relname < 'jobs_done_' || to_char((now() AT TIME ZONE 'UTC')::date - 1, 'YYYYMMDD')
                """)
            .stream()
            .map(String::valueOf)
            .toList()) {
      db.execute("DROP TABLE waybill." + name);
    }
    db.execute("DELETE FROM waybill.leaving");
    db.execute("DELETE FROM waybill.archives");
    db.execute("DELETE FROM waybill.swept");
    db.execute("DELETE FROM waybill.turns");
  }
}
