-- Dead letters as a product, and the log of what operators did. docs/decisions/0028 to 0031 say why.

-- --------------------------------------------------------------------------------------------------------- audit log

-- Who did what to whose jobs, and how many there were. Written in the transaction of the act itself: neither is there without the other.
CREATE TABLE waybill.audit_log (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at     timestamptz NOT NULL DEFAULT now(),
  who    text NOT NULL CHECK (length(who) BETWEEN 1 AND 256),
  what   text NOT NULL CHECK (what ~ '^[a-z][a-z-]{0,39}$'),
  target text CHECK (length(target) <= 256),
  tenant text,
  filter jsonb,
  jobs   bigint NOT NULL CHECK (jobs >= 0)
);
CREATE INDEX audit_log_tenant ON waybill.audit_log (tenant, id) WHERE tenant IS NOT NULL;

-- Append-only for everybody, the owner and replication included.
CREATE FUNCTION waybill.audit_log_stays() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = '42501', HINT = 'What was written there stays.';
END $$;
CREATE TRIGGER audit_log_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.audit_log
FOR EACH STATEMENT EXECUTE FUNCTION waybill.audit_log_stays();
ALTER TABLE waybill.audit_log ENABLE ALWAYS TRIGGER audit_log_stays;

-- ------------------------------------------------------------------------------------------------------ dead letters

-- Lists are newest first, replays go from the oldest on; whatever is filtered by comes first, so that a page reads what it shows.
DROP INDEX waybill.jobs_dead_group;
CREATE INDEX jobs_dead_time ON waybill.jobs_dead (finished_at, id);
CREATE INDEX jobs_dead_kind ON waybill.jobs_dead (kind, finished_at, id);
CREATE INDEX jobs_dead_group ON waybill.jobs_dead (kind, fingerprint, finished_at, id);
CREATE INDEX jobs_dead_fingerprint ON waybill.jobs_dead (fingerprint, finished_at, id);
CREATE INDEX jobs_dead_tenant ON waybill.jobs_dead (tenant, finished_at, id);
CREATE INDEX jobs_dead_tenant_kind ON waybill.jobs_dead (tenant, kind, finished_at, id);
CREATE INDEX jobs_dead_tenant_group ON waybill.jobs_dead (tenant, kind, fingerprint, finished_at, id);

-- How many dead letters each group has, without counting them. As with the tally, whoever buries or takes out only adds a row, so that a
-- thousand jobs that die of the same failure at once do not wait for one counter. The folder sums up.
CREATE TABLE waybill.dead_moves (
  kind        text NOT NULL,
  fingerprint text NOT NULL,
  tenant      text NOT NULL,
  n           bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE waybill.dead_counts (
  kind        text NOT NULL,
  fingerprint text NOT NULL,
  tenant      text NOT NULL,
  n           bigint NOT NULL,
  PRIMARY KEY (kind, fingerprint, tenant)
) WITH (fillfactor = 70);
CREATE INDEX dead_counts_tenant ON waybill.dead_counts (tenant);
INSERT INTO waybill.dead_counts SELECT kind, fingerprint, tenant, count(*) FROM waybill.jobs_dead GROUP BY kind, fingerprint, tenant;

-- By trigger, since many statements bury and take out, in Java and by hand; and once a statement, not once a row.
CREATE FUNCTION waybill.dead_came() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO waybill.dead_moves (kind, fingerprint, tenant, n)
  SELECT kind, fingerprint, tenant, count(*) FROM came GROUP BY kind, fingerprint, tenant;
  RETURN NULL;
END $$;
CREATE FUNCTION waybill.dead_went() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO waybill.dead_moves (kind, fingerprint, tenant, n)
  SELECT kind, fingerprint, tenant, -count(*) FROM went GROUP BY kind, fingerprint, tenant;
  RETURN NULL;
END $$;
CREATE FUNCTION waybill.dead_cleared() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  TRUNCATE waybill.dead_moves, waybill.dead_counts;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_dead_group_came AFTER INSERT ON waybill.jobs_dead REFERENCING NEW TABLE AS came
FOR EACH STATEMENT EXECUTE FUNCTION waybill.dead_came();
CREATE TRIGGER jobs_dead_group_went AFTER DELETE ON waybill.jobs_dead REFERENCING OLD TABLE AS went
FOR EACH STATEMENT EXECUTE FUNCTION waybill.dead_went();
CREATE TRIGGER jobs_dead_group_from AFTER UPDATE ON waybill.jobs_dead REFERENCING OLD TABLE AS went
FOR EACH STATEMENT EXECUTE FUNCTION waybill.dead_went();
CREATE TRIGGER jobs_dead_group_to AFTER UPDATE ON waybill.jobs_dead REFERENCING NEW TABLE AS came
FOR EACH STATEMENT EXECUTE FUNCTION waybill.dead_came();
CREATE TRIGGER jobs_dead_group_cleared AFTER TRUNCATE ON waybill.jobs_dead
FOR EACH STATEMENT EXECUTE FUNCTION waybill.dead_cleared();

-- The filter of lists and replays: a NULL asks for nothing. Plain SQL without SET, so that the planner inlines it, and a custom plan keeps only
-- what was asked for: then every combination has its index.
CREATE FUNCTION waybill.dead_match(
  kind text, tenant text, fingerprint text, finished_at timestamptz, id bigint,
  of_kind text, of_kinds text[], of_tenant text, of_fingerprint text, died_after timestamptz, died_before timestamptz, of_ids bigint[]
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (of_kind IS NULL OR kind = of_kind) AND (of_kinds IS NULL OR kind = ANY (of_kinds)) AND (of_tenant IS NULL OR tenant = of_tenant)
  AND (of_fingerprint IS NULL OR fingerprint = of_fingerprint) AND (died_after IS NULL OR finished_at >= died_after)
  AND (died_before IS NULL OR finished_at < died_before) AND (of_ids IS NULL OR id = ANY (of_ids));

-- Takes dead letters back into the queue, ready now; answers those it took. Lock them before. The job keeps its id, its attempt number and
-- its history, and is allowed as many attempts more as it was allowed before: the limit is raised, so that the attempt number never falls
-- and never passes it. What it was allowed is its own limit, or the policy's; after the first return it stands in the history.
-- One whose dedupe key a live job has stays dead.
CREATE FUNCTION waybill.return_dead(ids bigint[], by_whom text, default_attempts integer, edited jsonb DEFAULT NULL)
RETURNS TABLE (id bigint, kind text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
  IF edited IS NOT NULL THEN
    PERFORM waybill.check_payload(edited);
  END IF;
  RETURN QUERY
  WITH back AS (
    INSERT INTO waybill.jobs (id, plain, state, run_at, created_at, priority, attempt, max_attempts, crashes, payload_version, kind, tenant,
      payload, dedupe_key, tags, traceparent, last_error, attempts)
    OVERRIDING SYSTEM VALUE
    SELECT d.id, false, 'ready', now(), d.created_at, d.priority, d.attempt, least(d.attempt + was.allowed, 32767), d.crashes, d.payload_version,
      d.kind, d.tenant, coalesce(edited, d.payload), d.dedupe_key, d.tags, d.traceparent, d.last_error,
      CASE WHEN jsonb_array_length(d.attempts) >= 50 THEN d.attempts - 0 ELSE coalesce(d.attempts, '[]') END
        || jsonb_build_array(jsonb_build_object('attempt', d.attempt, 'endedAt', now(), 'outcome', 'replayed', 'by', by_whom,
          'allowed', was.allowed))
    FROM waybill.jobs_dead d LEFT JOIN waybill.kinds k ON k.kind = d.kind
      CROSS JOIN LATERAL (
        SELECT coalesce(
          (SELECT (h.e->>'allowed')::integer FROM jsonb_array_elements(d.attempts) WITH ORDINALITY AS h(e, n)
            WHERE h.e->>'outcome' = 'replayed' ORDER BY h.n DESC LIMIT 1),
          d.max_attempts, k.max_attempts, default_attempts) AS allowed
      ) was
    WHERE d.id = ANY (ids)
    ORDER BY d.id
    ON CONFLICT (kind, tenant, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
    RETURNING id, kind
  ), gone AS (
    DELETE FROM waybill.jobs_dead d WHERE d.id = ANY (ARRAY(SELECT b.id FROM back b))
  )
  SELECT b.id, b.kind FROM back b;
END $$;

-- Replays: dead letters that go back into the queue, so many a second. A row is the whole state of one, so that any pod moves the next slice
-- and a pod may die at any time: the slice and the new position commit together.
CREATE TABLE waybill.replays (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  state           text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped')),
  who             text NOT NULL,
  created_at      timestamptz NOT NULL DEFAULT now(),
  ended_at        timestamptz,
  rate_per_second double precision NOT NULL CHECK (rate_per_second BETWEEN 0.01 AND 10000),
  kind            text,
  kinds           text[],
  tenant          text,
  fingerprint     text,
  died_after      timestamptz,
  died_before     timestamptz,
  ids             bigint[],
  -- Nothing that died later: a job that dies again is not replayed again.
  until_at        timestamptz NOT NULL DEFAULT now(),
  at_finished     timestamptz NOT NULL DEFAULT '-infinity',
  at_id           bigint NOT NULL DEFAULT 0,
  -- The rate is honoured up to here.
  paid_until      timestamptz NOT NULL DEFAULT now(),
  matched         bigint NOT NULL,
  matched_more    boolean NOT NULL,
  returned        bigint NOT NULL DEFAULT 0,
  skipped_dedupe  bigint NOT NULL DEFAULT 0,
  skipped_busy    bigint NOT NULL DEFAULT 0
);
CREATE INDEX replays_running ON waybill.replays (id) WHERE state = 'running';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA waybill FROM PUBLIC;
