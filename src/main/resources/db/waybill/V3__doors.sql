-- The REST door: keys that make a repeat harmless, batches, lists, figures, and who works here.

-- --------------------------------------------------------------------------------------------------- idempotency keys

-- Written in the transaction that creates what was asked for, so that both are there or neither. Whoever sends the same key meanwhile waits
-- at the primary key for the end of that transaction.
CREATE TABLE waybill.idempotency (
  scope       text NOT NULL,          -- the operation, and whose key it is
  key         text NOT NULL,
  fingerprint bytea NOT NULL,         -- of the request
  ids         bigint[] NOT NULL,      -- what was created
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (scope, key)
) WITH (fillfactor = 80);
CREATE INDEX idempotency_age ON waybill.idempotency (created_at);

-- ------------------------------------------------------------------------------------------------------------- batches

-- One chunk of a batch: jobs of any kinds, tenants and keys. Answers their ids in order. An array shorter than kinds stands for defaults.
-- Like waybill.enqueue it checks first and admits itself; the checks look for the unusual row in one pass, since a call of check_job for each
-- row took as long as the insert. It does not say which row is at fault: an EXCEPTION block here would be a subtransaction. The caller finds
-- out by asking about one row after the other, with waybill.check_row. With room_taken the caller has asked waybill.take_rooms.
CREATE FUNCTION waybill.enqueue_rows(
  kinds text[], payloads jsonb[], tenants text[], priorities integer[], run_ats timestamptz[], delays_ms bigint[], dedupe_keys text[],
  max_attempts integer[], tags text[], payload_versions integer[], traceparents text[], room_taken boolean DEFAULT false
) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  ids bigint[];
  one record;
BEGIN
  IF cardinality(delays_ms) > 0 THEN
    SELECT array_agg(coalesce(r.run_at, now() + r.delay * interval '1 millisecond') ORDER BY r.n) INTO run_ats
    FROM unnest(run_ats, delays_ms) WITH ORDINALITY AS r(run_at, delay, n);
  END IF;
  PERFORM waybill.check_job(k.kind, '', 0, NULL, NULL, NULL, NULL, 1, NULL)
  FROM (SELECT DISTINCT u.kind FROM unnest(enqueue_rows.kinds) AS u(kind)) k;
  PERFORM waybill.check_payload(p) FROM unnest(payloads) AS p WHERE NOT waybill.is_small(p);
  PERFORM waybill.check_job('k', r.tenant, r.priority, r.run_at, r.dedupe_key, r.attempts, r.tags::text[], r.version, r.traceparent)
  FROM unnest(tenants, priorities, run_ats, dedupe_keys, enqueue_rows.max_attempts, enqueue_rows.tags, payload_versions, traceparents)
    AS r(tenant, priority, run_at, dedupe_key, attempts, tags, version, traceparent)
  WHERE r.tenant <> '' AND (length(r.tenant) > 128 OR r.tenant ~ '[[:cntrl:]]')
    OR r.priority NOT BETWEEN -32768 AND 32767 OR r.run_at > now() OR r.run_at < '1970-01-01Z'
    OR length(r.dedupe_key) NOT BETWEEN 1 AND 256 OR r.attempts NOT BETWEEN 1 AND 1000 OR r.tags IS NOT NULL
    OR r.version NOT BETWEEN 1 AND 32767 OR length(r.traceparent) > 128;

  IF waybill.tenants_limited() AND NOT room_taken THEN
    PERFORM waybill.take_room(coalesce(r.tenant, ''), count(*))
    FROM unnest(enqueue_rows.kinds, tenants) AS r(kind, tenant) GROUP BY coalesce(r.tenant, '');
  END IF;

  IF EXISTS (SELECT FROM unnest(dedupe_keys) AS k WHERE k IS NOT NULL) THEN
    ids := waybill.enqueue_keyed_rows(kinds, payloads, tenants, priorities, run_ats, dedupe_keys, max_attempts, tags, payload_versions,
      traceparents);
    RETURN QUERY SELECT u.id FROM unnest(ids) WITH ORDINALITY AS u(id, n) ORDER BY u.n;
    RETURN;
  END IF;

  RETURN QUERY
  INSERT INTO waybill.jobs (plain, due, state, kind, payload, tenant, priority, run_at, max_attempts, tags, payload_version, traceparent)
  SELECT false, (r.run_at > now()) IS NOT TRUE, CASE WHEN r.run_at > now() THEN 'scheduled' ELSE 'ready' END, r.kind, r.payload, coalesce(r.tenant, ''),
    coalesce(r.priority, 0), coalesce(r.run_at, now()), r.attempts, r.tags::text[], coalesce(r.version, 1), r.traceparent
  FROM unnest(enqueue_rows.kinds, payloads, tenants, priorities, run_ats, enqueue_rows.max_attempts, enqueue_rows.tags, payload_versions,
      traceparents)
    AS r(kind, payload, tenant, priority, run_at, attempts, tags, version, traceparent)
  RETURNING id;
  FOR one IN
    SELECT r.kind, count(*) AS jobs, count(*) FILTER (WHERE r.run_at > now()) AS later
    FROM unnest(enqueue_rows.kinds, run_ats) AS r(kind, run_at) GROUP BY r.kind ORDER BY r.kind
  LOOP
    PERFORM waybill.came(one.kind, one.jobs, one.later);
  END LOOP;
END $$;

-- The same with dedupe keys among them. Inserted in the order of the keys, so that two batches with the same keys do not lock each other out.
CREATE FUNCTION waybill.enqueue_keyed_rows(
  kinds text[], payloads jsonb[], tenants text[], priorities integer[], run_ats timestamptz[], dedupe_keys text[], max_attempts integer[],
  tags text[], payload_versions integer[], traceparents text[]
) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  ids bigint[];
  jobs jsonb;
  one record;
BEGIN
  SELECT array_agg(nextval(pg_get_serial_sequence('waybill.jobs', 'id')) ORDER BY n) INTO ids
  FROM generate_series(1, cardinality(kinds)) AS n;
  WITH came AS (
    INSERT INTO waybill.jobs (id, plain, due, state, kind, payload, tenant, priority, run_at, dedupe_key, max_attempts, tags, payload_version,
      traceparent)
    OVERRIDING SYSTEM VALUE
    SELECT r.id, false, (r.run_at > now()) IS NOT TRUE, CASE WHEN r.run_at > now() THEN 'scheduled' ELSE 'ready' END, r.kind, r.payload, coalesce(r.tenant, ''),
      coalesce(r.priority, 0), coalesce(r.run_at, now()), r.dedupe_key, r.attempts, r.tags::text[], coalesce(r.version, 1), r.traceparent
    FROM unnest(ids, enqueue_keyed_rows.kinds, payloads, tenants, priorities, run_ats, dedupe_keys, enqueue_keyed_rows.max_attempts,
        enqueue_keyed_rows.tags, payload_versions, traceparents)
      AS r(id, kind, payload, tenant, priority, run_at, dedupe_key, attempts, tags, version, traceparent)
    ORDER BY r.kind COLLATE "C", r.dedupe_key COLLATE "C", coalesce(r.tenant, '') COLLATE "C", r.id
    ON CONFLICT (kind, tenant, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
    RETURNING kind, state
  )
  SELECT jsonb_agg(jsonb_build_array(c.kind, c.jobs, c.later)) INTO jobs
  FROM (SELECT kind, count(*) AS jobs, count(*) FILTER (WHERE state = 'scheduled') AS later FROM came GROUP BY kind ORDER BY kind) c;
  FOR one IN SELECT j.value AS told FROM jsonb_array_elements(jobs) j LOOP
    PERFORM waybill.came(one.told ->> 0, (one.told ->> 1)::bigint, (one.told ->> 2)::bigint);
  END LOOP;
  -- Whose key was taken gets the id of the job that has it. One that has finished meanwhile has freed its key.
  FOR one IN
    SELECT r.n, r.kind, r.payload, r.tenant, r.priority, r.run_at, r.dedupe_key, r.attempts, r.tags, r.version, r.traceparent
    FROM unnest(ids, enqueue_keyed_rows.kinds, payloads, tenants, priorities, run_ats, dedupe_keys, enqueue_keyed_rows.max_attempts,
        enqueue_keyed_rows.tags, payload_versions, traceparents)
      WITH ORDINALITY AS r(id, kind, payload, tenant, priority, run_at, dedupe_key, attempts, tags, version, traceparent, n)
    WHERE r.dedupe_key IS NOT NULL AND NOT EXISTS (SELECT FROM waybill.jobs j WHERE j.id = r.id)
  LOOP
    ids[one.n] := waybill.enqueue(one.kind, one.payload, coalesce(one.tenant, ''), coalesce(one.priority, 0), one.run_at, one.dedupe_key,
      one.attempts, one.tags::text[], coalesce(one.version, 1), one.traceparent);
  END LOOP;
  RETURN ids;
END $$;

-- Raises what is wrong with one row of a batch, or nothing.
CREATE FUNCTION waybill.check_row(
  kind text, payload jsonb, tenant text, priority integer, run_at timestamptz, dedupe_key text, max_attempts integer, tags text[],
  payload_version integer, traceparent text
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.check_job(check_row.kind, check_row.tenant, check_row.priority, check_row.run_at, check_row.dedupe_key,
    check_row.max_attempts, check_row.tags, check_row.payload_version, check_row.traceparent);
  PERFORM waybill.check_payload(check_row.payload);
END $$;

-- ------------------------------------------------------------------------------------------------------------- run now

-- A scheduled job need not wait any more. False when it is not scheduled (any more).
CREATE FUNCTION waybill.run_now(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  woken text;
BEGIN
  UPDATE waybill.jobs j SET due = true, state = 'ready', run_at = least(j.run_at, now())
  WHERE j.id = run_now.id AND j.state = 'scheduled' RETURNING j.kind INTO woken;
  IF woken IS NULL THEN
    RETURN false;
  END IF;
  INSERT INTO waybill.tally (kind, what, n) VALUES (woken, 'scheduled', -1);
  PERFORM waybill.wake(woken);
  RETURN true;
END $$;

-- --------------------------------------------------------------------------------------------------------------- lists

-- One page of jobs, newest first (by id, descending, below `before`), and as its last row, with id NULL, how far it looked: ids above that
-- one are done with; NULL there: nothing is left. Never a count. With a filter it looks at `budget` rows of each table at most, so that a
-- filter which fits one in a million costs many pages and not one endless statement.
--
-- Plan hazard: everything goes by id, backwards, along the primary keys and jobs_done_id of each partition, merged. The settings keep the
-- planner from sorting all jobs of a kind instead.
CREATE FUNCTION waybill.list_jobs(
  of_kind text, of_state text, of_tenant text, of_tag text, before bigint, page integer, budget integer, only_tenant text, only_kinds text[]
) RETURNS TABLE (
  id bigint, kind text, tenant text, priority smallint, state text, attempt smallint, max_attempts smallint, crashes smallint,
  payload_version smallint, created_at timestamptz, run_at timestamptz, started_at timestamptz, finished_at timestamptz, worker text,
  last_error text, tags text[], dedupe_key text, looked_to bigint
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  live boolean := of_state IS NULL OR of_state IN ('scheduled', 'ready');
  ended boolean := of_state IS NULL OR of_state IN ('done', 'cancelled');
  buried boolean := of_state IS NULL OR of_state = 'dead';
  looked bigint := 0;
  -- Where every row fits, the first rows of each table fill the page. The lower bound is needed all the same: without one the
  -- plan, which does not know how small the page is, reads everything.
  filtered boolean := of_kind IS NOT NULL OR of_tenant IS NOT NULL OR of_tag IS NOT NULL OR only_tenant IS NOT NULL OR only_kinds IS NOT NULL
    OR of_state IN ('scheduled', 'ready', 'done', 'cancelled');
  depth integer := CASE WHEN filtered THEN budget ELSE page END;
BEGIN
  IF of_state = 'running' THEN
    -- As many as there are slots: read whole, then put in order.
    RETURN QUERY
    WITH running AS MATERIALIZED (
      SELECT j.id, j.kind, j.tenant, j.priority, j.state, j.attempt, j.max_attempts, j.crashes, j.payload_version, j.created_at, j.run_at,
        j.started_at, j.worker, j.last_error, j.tags, j.dedupe_key
      FROM waybill.running j
    )
    SELECT r.id, r.kind, r.tenant, r.priority, r.state, r.attempt, r.max_attempts, r.crashes, r.payload_version, r.created_at, r.run_at,
      r.started_at, NULL::timestamptz, r.worker, r.last_error, r.tags, r.dedupe_key, NULL::bigint
    FROM running r
    WHERE r.id < before AND (of_kind IS NULL OR r.kind = of_kind) AND (of_tenant IS NULL OR r.tenant = of_tenant)
      AND (of_tag IS NULL OR r.tags @> ARRAY[of_tag]) AND waybill.visible(r.tenant, r.kind, only_tenant, only_kinds)
    ORDER BY r.id DESC LIMIT page;
  ELSE
    looked := greatest(
      CASE WHEN live THEN (SELECT j.id FROM waybill.jobs j WHERE j.id < before ORDER BY j.id DESC OFFSET depth LIMIT 1) END,
      CASE WHEN ended THEN (SELECT d.id FROM waybill.jobs_done d WHERE d.id < before ORDER BY d.id DESC OFFSET depth LIMIT 1) END,
      CASE WHEN buried THEN (SELECT b.id FROM waybill.jobs_dead b WHERE b.id < before ORDER BY b.id DESC OFFSET depth LIMIT 1) END, 0);
    RETURN QUERY
    SELECT u.id, u.kind, u.tenant, u.priority, u.state, u.attempt, u.max_attempts, u.crashes, u.payload_version, u.created_at, u.run_at,
      u.started_at, u.finished_at, u.worker, u.last_error, u.tags, u.dedupe_key, NULL::bigint
    FROM (
      SELECT j.id, j.kind, j.tenant, j.priority, CASE WHEN j.state = 'scheduled' AND j.run_at <= now() THEN 'ready' ELSE j.state END AS state,
        j.attempt, j.max_attempts, j.crashes, j.payload_version, j.created_at, j.run_at, j.started_at, NULL::timestamptz AS finished_at,
        j.worker, j.last_error, j.tags, j.dedupe_key
      FROM waybill.jobs j WHERE live AND j.id < before AND j.id > looked
      UNION ALL
      SELECT d.id, d.kind, d.tenant, d.priority, d.state, d.attempt, d.max_attempts, d.crashes, d.payload_version, d.created_at, d.run_at,
        d.started_at, d.finished_at, d.worker, d.last_error, d.tags, d.dedupe_key
      FROM waybill.jobs_done d WHERE ended AND d.id < before AND d.id > looked
      UNION ALL
      SELECT b.id, b.kind, b.tenant, b.priority, 'dead', b.attempt, b.max_attempts, b.crashes, b.payload_version, b.created_at, b.run_at,
        b.started_at, b.finished_at, b.worker, b.last_error, b.tags, b.dedupe_key
      FROM waybill.jobs_dead b WHERE buried AND b.id < before AND b.id > looked
    ) u
    WHERE (of_state IS NULL OR u.state = of_state) AND (of_kind IS NULL OR u.kind = of_kind) AND (of_tenant IS NULL OR u.tenant = of_tenant)
      AND (of_tag IS NULL OR u.tags @> ARRAY[of_tag]) AND waybill.visible(u.tenant, u.kind, only_tenant, only_kinds)
    ORDER BY u.id DESC LIMIT page;
  END IF;
  looked_to := nullif(looked, 0);
  id := NULL;
  RETURN NEXT;
END $$;

-- ------------------------------------------------------------------------------------------------------------- figures

-- How it stands with each kind, in one snapshot, from the tally, the claims and the heads of the lanes: nothing here grows
-- with the number of jobs. What was claimed either runs or has ended, so claims need no count of their own. A job whose time has come and that
-- is not promoted yet is ready, as the view waybill.all_jobs has it; those are counted up to 10,000, of which a page a second is promoted.
CREATE FUNCTION waybill.figures() RETURNS TABLE (
  kind text, scheduled bigint, ready bigint, running bigint, oldest_ready_seconds double precision, claimed bigint, done bigint,
  retried bigint, dead bigint, dead_last_24h bigint
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off SET jit = off AS $$
  WITH RECURSIVE lane AS (
    (SELECT j.kind, j.payload_version, j.tenant, j.priority, j.run_at FROM waybill.jobs j WHERE j.due AND j.state = 'ready'
      ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1)
    UNION ALL
    SELECT next.* FROM lane CROSS JOIN LATERAL (
      SELECT j.kind, j.payload_version, j.tenant, j.priority, j.run_at FROM waybill.jobs j
      WHERE j.due AND j.state = 'ready'
        AND (waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority))
          > (waybill.place(lane.kind, lane.payload_version), waybill.place(lane.tenant, lane.priority))
      ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
    ) next
  ), heads AS (
    SELECT l.kind, min(l.run_at) AS oldest FROM (SELECT * FROM lane LIMIT 20000) l GROUP BY l.kind
  ), due AS (
    SELECT s.kind, count(*) AS jobs, min(s.run_at) AS oldest
    FROM (SELECT j.kind, j.run_at FROM waybill.jobs j WHERE NOT j.due AND j.run_at <= now() ORDER BY j.run_at LIMIT 10000) s
    GROUP BY s.kind
  ), at_work AS (
    SELECT j.kind, count(*) AS jobs FROM waybill.running j GROUP BY j.kind
  ), told AS (
    SELECT t.kind,
      sum(t.live) AS live,
      sum(t.n) FILTER (WHERE t.what IN ('scheduled', 'retried')) AS scheduled,
      sum(t.n) FILTER (WHERE t.what IN ('done', 'died', 'retried', 'returned', 'crashed', 'interrupted')) AS attempts_ended,
      sum(t.n) FILTER (WHERE t.what = 'done') AS done,
      sum(t.n) FILTER (WHERE t.what = 'retried') AS retried,
      sum(CASE t.what WHEN 'died' THEN t.n WHEN 'revived' THEN -t.n WHEN 'dropped' THEN -t.n ELSE 0 END) AS dead,
      sum(t.n) FILTER (WHERE t.what = 'died' AND t.slot > now() - interval '24 hours') AS dead_last_24h
    FROM waybill.counts t GROUP BY t.kind
  )
  SELECT t.kind,
    greatest(0, coalesce(t.scheduled, 0) - coalesce(due.jobs, 0))::bigint,
    greatest(0, t.live - coalesce(t.scheduled, 0) + coalesce(due.jobs, 0) - coalesce(at_work.jobs, 0))::bigint,
    coalesce(at_work.jobs, 0),
    CASE WHEN least(heads.oldest, due.oldest) <= now() THEN extract(epoch FROM now() - least(heads.oldest, due.oldest)) END::double precision,
    (coalesce(t.attempts_ended, 0) + coalesce(at_work.jobs, 0))::bigint,
    coalesce(t.done, 0)::bigint, coalesce(t.retried, 0)::bigint, t.dead::bigint, coalesce(t.dead_last_24h, 0)::bigint
  FROM told t LEFT JOIN heads ON heads.kind = t.kind LEFT JOIN due ON due.kind = t.kind LEFT JOIN at_work ON at_work.kind = t.kind
$$;

-- The figures of the last minutes, written by one process for all. Rates are a difference of two of them. Unlogged: after a crash of the
-- server it is empty, and the rates begin anew; nothing else is in it that is not counted in the tally.
CREATE UNLOGGED TABLE waybill.figures_past (
  at                   timestamptz NOT NULL,
  kind                 text NOT NULL,
  scheduled            bigint NOT NULL,
  ready                bigint NOT NULL,
  running              bigint NOT NULL,
  oldest_ready_seconds double precision,
  claimed              bigint NOT NULL,
  done                 bigint NOT NULL,
  retried              bigint NOT NULL,
  dead                 bigint NOT NULL,
  dead_last_24h        bigint NOT NULL,
  PRIMARY KEY (at, kind)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

-- What metrics tell of tables and of the server, as it was last measured; a row is one gauge with one label at most. Written as the figures
-- are, by one process for all.
CREATE UNLOGGED TABLE waybill.gauges (
  name  text NOT NULL,
  label text NOT NULL DEFAULT '',
  of    text NOT NULL DEFAULT '',
  value double precision NOT NULL,
  at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, of)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

-- Costs the same however many jobs there are: statistics, catalogs, one row a kind. A role without pg_read_all_stats is told since when of its
-- own sessions only, and slots and standbys have no age in seconds at all, so there is one in transactions beside it. A vacuum's own snapshot
-- holds nothing back; autovacuum's workers are nobody's sessions. A partition is overdue when it is older than what Dropper waits for.
CREATE FUNCTION waybill.measure(default_retention_ms bigint) RETURNS TABLE (name text, label text, of text, value double precision)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT m.name, 'table', s.relname::text, m.value
  FROM pg_stat_user_tables s CROSS JOIN LATERAL (VALUES ('dead_tuples', s.n_dead_tup::float8),
    ('seconds_since_autovacuum', coalesce(extract(epoch FROM now() - greatest(s.last_autovacuum, s.last_vacuum))::float8, 'NaN'))) AS m(name, value)
  WHERE s.schemaname = 'waybill' AND s.relname IN ('jobs', 'jobs_dead', 'tally', 'arrivals', 'claims')
  UNION ALL
  SELECT 'oldest_snapshot_seconds', '', '', greatest(0,
    (SELECT extract(epoch FROM now() - min(a.xact_start)) FROM pg_stat_activity a
      WHERE a.backend_xmin IS NOT NULL AND a.datname = current_database() AND a.pid <> pg_backend_pid()
        AND a.usesysid IS NOT NULL AND a.query NOT ILIKE 'vacuum%'),
    (SELECT extract(epoch FROM now() - min(p.prepared)) FROM pg_prepared_xacts p WHERE p.database = current_database()))
  UNION ALL
  SELECT 'oldest_snapshot_transactions', '', '', greatest(0,
    (SELECT max(age(a.backend_xmin)) FROM pg_stat_activity a
      WHERE (a.datname = current_database() OR a.datname IS NULL) AND a.pid <> pg_backend_pid()
        AND a.usesysid IS NOT NULL AND a.query NOT ILIKE 'vacuum%'),
    (SELECT max(age(r.xmin)) FROM pg_replication_slots r),
    (SELECT max(age(p.transaction)) FROM pg_prepared_xacts p WHERE p.database = current_database()))
  UNION ALL
  SELECT m.name, 'table', 'jobs_done', m.value
  FROM (
    SELECT count(*)::float8 AS partitions, coalesce(extract(epoch FROM max(d.ends) - now()) / 86400, 0)::float8 AS ahead,
      (count(*) FILTER (WHERE d.ends < now() - greatest(k.longest, interval '1 hour'))
        + (SELECT count(*) FROM waybill.leaving l WHERE NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = l.partition)))::float8 AS overdue
    FROM waybill.done_partitions() d CROSS JOIN (
      SELECT coalesce(max(coalesce(k.retention_ms, default_retention_ms)), default_retention_ms) * interval '1 millisecond' AS longest
      FROM (SELECT DISTINCT t.kind FROM waybill.counts t) t LEFT JOIN waybill.kinds k ON k.kind = t.kind
    ) k
  ) p CROSS JOIN LATERAL (VALUES ('partitions', p.partitions), ('partition_days_ahead', p.ahead), ('partitions_overdue', p.overdue))
    AS m(name, value)
  UNION ALL
  SELECT 'kind_paused', 'kind', k.kind, k.paused::int::float8 FROM waybill.kinds k
$$;

-- True when it was this process that did it. Figures at most every 4 seconds, the rest at most every 14. What is of a time to come was written
-- before the clock of the server was set back: it counts for nothing, and goes, since whoever reads takes the latest. Two seconds ahead may be
-- a transaction that began after this one.
CREATE FUNCTION waybill.sample_figures(default_retention_ms bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(7733810, 3)
      OR EXISTS (SELECT FROM waybill.figures_past p WHERE p.at > now() - interval '4 seconds' AND p.at <= now() + interval '2 seconds') THEN
    RETURN false;
  END IF;
  -- With a row that only says that a sample was taken: what a sample does not name had not moved by then.
  INSERT INTO waybill.figures_past SELECT now(), f.* FROM waybill.figures() f UNION ALL SELECT now(), '', 0, 0, 0, NULL, 0, 0, 0, 0, 0;
  DELETE FROM waybill.figures_past p WHERE p.at < now() - interval '2 minutes' OR p.at > now() + interval '2 seconds';
  IF NOT EXISTS (SELECT FROM waybill.gauges g WHERE g.at > now() - interval '14 seconds' AND g.at <= now() + interval '2 seconds') THEN
    DELETE FROM waybill.gauges;
    INSERT INTO waybill.gauges (name, label, of, value) SELECT m.name, m.label, m.of, m.value FROM waybill.measure(default_retention_ms) m;
  END IF;
  RETURN true;
END $$;

-- ------------------------------------------------------------------------------------------------------------- workers

-- Each process says every few seconds that it is there. Unlogged: it is told again soon.
CREATE UNLOGGED TABLE waybill.workers (
  process    uuid PRIMARY KEY,
  name       text NOT NULL,
  version    text NOT NULL,
  roles      text[] NOT NULL,
  pools      jsonb NOT NULL,
  draining   boolean NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  seen_at    timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA waybill FROM PUBLIC;
