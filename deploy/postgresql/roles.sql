-- The roles of Waybill. Run it in Waybill's database as a superuser, before the first migration or at any time after; again as often as
-- you like:
--
--   psql -d waybill -v ON_ERROR_STOP=1 -1 -f roles.sql
--   psql -d waybill -c '\password waybill' -c '\password waybill_runtime'
--
-- waybill           owns the schema. Only the migration logs in as it (WAYBILL_MIGRATE=only).
-- waybill_runtime   what the service runs as, in every role: reads and writes rows; of the schema it may change
--                   the history table only, by way of waybill_history.
-- waybill_history   owns the table waybill.jobs_done and waybill.cancel(), which writes into it; nobody logs in as it. To detach a past day without a lock that
--                   claims would queue behind takes this, and no function can do it for somebody else. docs/decisions/0045.
-- waybill_producer  for applications: enqueue and cancel by function. GRANT waybill_producer TO your_application.
-- waybill_viewer    for people and dashboards: sees jobs, payloads included, and figures; changes nothing.

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['waybill', 'waybill_runtime', 'waybill_history', 'waybill_producer', 'waybill_viewer'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = name) THEN
      EXECUTE format('CREATE ROLE %I %s', name, CASE WHEN name IN ('waybill', 'waybill_runtime') THEN 'LOGIN' ELSE 'NOLOGIN' END);
    END IF;
  END LOOP;
END $$;

-- The owner makes new days in a table that it does not own; the service takes past ones out.
GRANT waybill_history TO waybill, waybill_runtime;
-- Who holds a snapshot, and since when: for alerts and for waybill doctor. It shows the statements of other sessions too; leave it out where
-- that is too much, and both say what they cannot see.
GRANT pg_read_all_stats TO waybill_runtime;

DO $$
BEGIN
  -- The owner of the schema needs no right in the rest of the database, and nobody else may make one that is called so.
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO waybill, waybill_runtime, waybill_viewer', current_database());
END $$;
CREATE SCHEMA IF NOT EXISTS waybill AUTHORIZATION waybill;
ALTER SCHEMA waybill OWNER TO waybill;

-- What migrations make later is there for the service without anybody thinking of it.
ALTER DEFAULT PRIVILEGES FOR ROLE waybill IN SCHEMA waybill GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO waybill_runtime;
ALTER DEFAULT PRIVILEGES FOR ROLE waybill IN SCHEMA waybill GRANT EXECUTE ON FUNCTIONS TO waybill_runtime;

-- For what is there already. Each migration does it for what it made (V20).
DO $$
BEGIN
  IF to_regprocedure('waybill.give_roles_their_rights()') IS NOT NULL THEN
    SET LOCAL ROLE waybill;
    PERFORM waybill.give_roles_their_rights();
    RESET ROLE;
  END IF;
END $$;
