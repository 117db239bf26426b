-- Who may do what, for the roles of deploy/postgresql/roles.sql as far as they are there; without them nothing happens.
-- docs/decisions/0045 says why the service need not own the schema.

-- Called by the owner: by each migration that makes tables or functions, and by roles.sql when the roles come later than the schema.
CREATE FUNCTION waybill.give_roles_their_rights() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'waybill_runtime') THEN
    GRANT USAGE ON SCHEMA waybill TO waybill_runtime;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA waybill TO waybill_runtime;
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA waybill TO waybill_runtime;
    REVOKE EXECUTE ON FUNCTION waybill.give_roles_their_rights() FROM waybill_runtime;
    -- Which version the schema has is for the migration to write, what was done in the log of operators for nobody to change.
    REVOKE INSERT, UPDATE, DELETE ON waybill.schema_history FROM waybill_runtime;
    REVOKE UPDATE, DELETE ON waybill.audit_log FROM waybill_runtime;
    -- The service's own vacuum. Before version 17 this takes the owner: there autovacuum does it alone.
    IF current_setting('server_version_num')::integer >= 170000 THEN
      EXECUTE 'GRANT MAINTAIN ON waybill.jobs, waybill.tally, waybill.arrivals, waybill.claims TO waybill_runtime';
    END IF;
  END IF;
  -- Roles belong to the cluster: this may be a database of somebody else's, whose owner was not let in.
  IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'waybill_history' AND pg_has_role(r.oid, 'MEMBER'))
      AND EXISTS (SELECT FROM pg_class c WHERE c.oid = 'waybill.jobs_done'::regclass AND pg_get_userbyid(c.relowner) <> 'waybill_history') THEN
    -- To be given a table, a role must be able to make one there; it need not for longer.
    GRANT CREATE, USAGE ON SCHEMA waybill TO waybill_history;
    ALTER TABLE waybill.jobs_done OWNER TO waybill_history;
    -- cancel() writes into that table, and would run by the owner's right what the table's owner hangs on it as a trigger. So it runs by his.
    ALTER FUNCTION waybill.cancel(bigint) OWNER TO waybill_history;
    GRANT SELECT, DELETE ON waybill.jobs, waybill.plain_keyed TO waybill_history;
    GRANT INSERT ON waybill.tally, waybill.arrivals TO waybill_history;
    GRANT EXECUTE ON FUNCTION waybill.make_partitions(integer), waybill.with_attempt(jsonb, smallint, text, timestamptz, text, text)
      TO waybill_history;
    REVOKE CREATE ON SCHEMA waybill FROM waybill_history;
  END IF;
  IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'waybill_viewer') THEN
    GRANT USAGE ON SCHEMA waybill TO waybill_viewer;
    GRANT SELECT ON waybill.all_jobs, waybill.kinds, waybill.limits, waybill.workers, waybill.replays, waybill.audit_log, waybill.archives, waybill.figures_past
      TO waybill_viewer;
    GRANT EXECUTE ON FUNCTION waybill.done_partitions() TO waybill_viewer;
  END IF;
END $$;
REVOKE ALL ON FUNCTION waybill.give_roles_their_rights() FROM PUBLIC;

SELECT waybill.give_roles_their_rights();
