-- Waybill's schema. docs/ARCHITECTURE.md has the tour; docs/decisions/0002-table-shape.md the measurements behind the shape.

DO $$
BEGIN
  -- Roles belong to the cluster, so another database may have made it already, or be making it now.
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'waybill_producer') THEN
    CREATE ROLE waybill_producer NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'role waybill_producer does not exist and % may not create it', current_user
      USING HINT = 'Let an administrator run: CREATE ROLE waybill_producer NOLOGIN';
END $$;

-- ---------------------------------------------------------------------------------------------------------- tables

-- Limits that hold for every door. One row.
CREATE TABLE waybill.limits (
  only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  payload_bytes_max integer NOT NULL DEFAULT 262144,
  payload_depth_max integer NOT NULL DEFAULT 64,
  bulk_rows_max     integer NOT NULL DEFAULT 100000,
  run_at_ahead_max  interval NOT NULL DEFAULT '10 years'
);
INSERT INTO waybill.limits DEFAULT VALUES;

-- Policies of kinds. A NULL means: the default of the running build (dev.waybill.job.Policy).
CREATE TABLE waybill.kinds (
  kind            text PRIMARY KEY CHECK (kind ~ '^[a-z][a-z0-9_.-]{0,63}$'),
  version         bigint NOT NULL DEFAULT 1,
  max_attempts    smallint CHECK (max_attempts BETWEEN 1 AND 1000),
  backoff_base_ms bigint CHECK (backoff_base_ms BETWEEN 0 AND 86400000),
  backoff_factor  double precision CHECK (backoff_factor BETWEEN 1 AND 100),
  backoff_cap_ms  bigint CHECK (backoff_cap_ms BETWEEN 0 AND 2592000000),
  backoff_jitter  boolean,
  lease_ms        bigint CHECK (lease_ms BETWEEN 1000 AND 86400000),
  timeout_ms      bigint CHECK (timeout_ms BETWEEN 1 AND 2592000000),
  retention_ms    bigint CHECK (retention_ms BETWEEN 0 AND 315360000000),
  dead_retention_ms bigint CHECK (dead_retention_ms BETWEEN 0 AND 315360000000),
  tenant_cap      integer CHECK (tenant_cap >= 1),
  kind_cap        integer CHECK (kind_cap >= 1),
  rate_per_second double precision CHECK (rate_per_second BETWEEN 0.001 AND 1000000),
  paused          boolean NOT NULL DEFAULT false,
  delivery        text CHECK (delivery IN ('bean', 'pull', 'http')),
  push_url        text CHECK (length(push_url) BETWEEN 1 AND 2000),
  push_secret     text CHECK (length(push_secret) BETWEEN 1 AND 128),
  archive         boolean,
  updated_at      timestamptz NOT NULL DEFAULT now(),
  CHECK (delivery <> 'http' OR push_url IS NOT NULL)
);

-- Whoever changes a policy, by whatever door, makes a new version of it.
CREATE FUNCTION waybill.policy_changed() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.version := OLD.version + 1;
  NEW.updated_at := now();
  RETURN NEW;
END $$;
CREATE TRIGGER kinds_changed BEFORE UPDATE ON waybill.kinds FOR EACH ROW
WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION waybill.policy_changed();

-- What is left of the rate of a kind that has one, and since when. Written by the one claimer that decides for the kind (claim.Headroom).
-- Unlogged: after a crash the bucket begins anew.
CREATE UNLOGGED TABLE waybill.rates (
  kind      text PRIMARY KEY,
  left_over double precision NOT NULL,
  at        timestamptz NOT NULL
) WITH (fillfactor = 20);

-- Live jobs only: scheduled, ready, running. Finished ones leave by one statement (DELETE ... RETURNING into an INSERT).
-- What a claim changes stands before what it leaves alone: a new version on the same page is logged without its common beginning and end,
-- so with worker behind payload each claim logged the payload again (335 bytes a claim instead of 130).
-- And none of what it changes is in an index or an index's condition: so the new version needs no entry in any index (HOT) as long as its
-- page has room, hence the fillfactor: a claimed row is longer by its token, lease and worker. With state in a condition each claim wrote
-- two entries, a third of its work.
CREATE TABLE waybill.jobs (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_at          timestamptz NOT NULL DEFAULT now(),
  created_at      timestamptz NOT NULL DEFAULT now(),
  started_at      timestamptz,
  lease_until     timestamptz,
  token           uuid,
  priority        smallint NOT NULL DEFAULT 0,
  attempt         smallint NOT NULL DEFAULT 0,
  max_attempts    smallint,
  crashes         smallint NOT NULL DEFAULT 0,
  payload_version smallint NOT NULL DEFAULT 1,
  plain           boolean NOT NULL DEFAULT true,
  due             boolean NOT NULL DEFAULT true, -- state <> 'scheduled'
  state           text NOT NULL DEFAULT 'ready',
  worker          text,
  kind            text NOT NULL,
  tenant          text NOT NULL DEFAULT '',
  payload         jsonb NOT NULL DEFAULT '{}',
  dedupe_key      text,
  tags            text[],
  traceparent     text,
  last_error      text,
  progress        jsonb,
  attempts        jsonb
) WITH (
  fillfactor = 45,
  autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 10000,
  autovacuum_vacuum_cost_delay = 0
);

-- The ready rows and the running ones, lane by lane, each lane (kind, payload_version, tenant, priority) in the order in which it is served.
-- A lane lies at two places: the hash of its kind with the version added, so that the versions of a kind lie together, and the hash of its
-- tenant with the priority added. The version stands before the tenant: all lanes of a kind that an older build cannot read lie behind those
-- it can, and its sweep ends before them. Hashes, since behind a text PostgreSQL has to look for each column anew at each comparison, a quarter
-- of a bulk insert. So who looks for a kind or a tenant asks for its place and for its name. The seed is drawn here: nobody who only chooses
-- names finds one that shares the place of another. The index has the expressions written out: who inserts a row needs no right to a function.
-- No two entries are alike, and without deduplicate_items = off each full page would be searched for such: 2,600 instructions for each row of
-- a bulk insert.
DO $$
DECLARE
  place text := format('hashtextextended(%%s, %s) + %%s', (random() * 9e15)::bigint);
BEGIN
  EXECUTE format('CREATE FUNCTION waybill.place(name text, number smallint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '
    || place, 'name', 'number');
  EXECUTE format('CREATE INDEX jobs_due ON waybill.jobs ((' || place || '), (' || place || '), run_at, id) WITH (deduplicate_items = off) '
    'WHERE due', 'kind', 'payload_version', 'tenant', 'priority');
END $$;
-- Waiting for their time: the promoter reads its head.
CREATE INDEX jobs_scheduled ON waybill.jobs (run_at) WHERE NOT due;
-- One live job for each (kind, tenant, key): two tenants that both call something order-42 must not learn of each other.
CREATE UNIQUE INDEX jobs_dedupe ON waybill.jobs (kind, tenant, dedupe_key) WHERE dedupe_key IS NOT NULL;

-- What runs, without an index that each claim would have to write to: a row for each claim, written by the claim. A job is running by it
-- while it has the claim's token. A row of which all have ended says nothing any more; settles and the reaper delete it. Its kinds are those
-- that the claim asked for: who looks for one kind reads no jobs of pools that do not serve it. Up to 8 kB it stays in the table,
-- uncompressed: 500 jobs are 4 kB.
CREATE TABLE waybill.claims (
  token uuid PRIMARY KEY,
  ids   bigint[] NOT NULL,
  kinds text[] NOT NULL
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE waybill.claims ALTER COLUMN ids SET STORAGE EXTERNAL;

-- Plan hazard: OFFSET 0 keeps the look into jobs inside of the loop over the claims, by the primary key. As a join it may become one that
-- reads all jobs.
CREATE VIEW waybill.running AS
  SELECT j.*, c.kinds AS kinds_of_claim FROM waybill.claims c CROSS JOIN LATERAL (
    SELECT * FROM waybill.jobs j WHERE j.id = ANY (c.ids) AND j.token = c.token OFFSET 0
  ) j;

-- Finished jobs: done and cancelled. Partitions by day (UTC) of completion, made ahead and dropped whole. No DEFAULT partition.
CREATE TABLE waybill.jobs_done (
  id              bigint NOT NULL,
  run_at          timestamptz NOT NULL,
  created_at      timestamptz NOT NULL,
  started_at      timestamptz,
  finished_at     timestamptz NOT NULL,
  priority        smallint NOT NULL,
  attempt         smallint NOT NULL,
  max_attempts    smallint,
  crashes         smallint NOT NULL,
  payload_version smallint NOT NULL,
  state           text NOT NULL,
  kind            text NOT NULL,
  tenant          text NOT NULL,
  payload         jsonb NOT NULL,
  dedupe_key      text,
  tags            text[],
  traceparent     text,
  worker          text,
  last_error      text,
  attempts        jsonb,
  result          jsonb
) PARTITION BY RANGE (finished_at);
CREATE INDEX jobs_done_id ON waybill.jobs_done (id);

-- Dead letters: not tried again by themselves.
CREATE TABLE waybill.jobs_dead (
  id              bigint PRIMARY KEY,
  run_at          timestamptz NOT NULL,
  created_at      timestamptz NOT NULL,
  started_at      timestamptz,
  finished_at     timestamptz NOT NULL,
  priority        smallint NOT NULL,
  attempt         smallint NOT NULL,
  max_attempts    smallint,
  crashes         smallint NOT NULL,
  payload_version smallint NOT NULL,
  kind            text NOT NULL,
  tenant          text NOT NULL,
  payload         jsonb NOT NULL,
  dedupe_key      text,
  tags            text[],
  traceparent     text,
  worker          text,
  last_error      text NOT NULL,
  attempts        jsonb,
  fingerprint     text NOT NULL
);
CREATE INDEX jobs_dead_group ON waybill.jobs_dead (kind, fingerprint, finished_at);

-- What happened to jobs, in rows that are only ever added, so that nobody waits for a counter: the statement that moves jobs adds a row for
-- each kind, in its own transaction. The audit needs what came and what was purged, which cannot be counted later; the figures need the
-- rest, which would take a scan. Claims add nothing: what was claimed either runs or has ended. The folder sums the rows up from time to
-- time. docs/decisions/0025 says how the figures follow from these.
CREATE TABLE waybill.tally (
  kind text   NOT NULL,
  -- enqueued, purged: came, by any door (folded from waybill.arrivals); deleted for good, from wherever.
  -- recounted: came as well, shortly before a crash of the server, and was counted again.
  -- scheduled: to (+) and from (-) the jobs that wait for their time; those of 'retried' are there as well.
  -- done, died, cancelled, retried, crashed, returned (snoozed or released): how attempts and jobs ended.
  -- interrupted: cancelled while running; counted under 'cancelled' too.
  -- revived, dropped: dead letters that live again, that were deleted.
  -- No CHECK, whose expression is read anew for each statement (14 us); waybill.audit() finds a word that is none of these.
  what text   NOT NULL,
  n    bigint NOT NULL,
  slot timestamptz -- of 'died': its quarter of an hour, until a day is over
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- What came since the folder was here, a row for each call: as many as there are jobs, where they are enqueued one by one. Unlogged, since
-- to log a row and its end was a tenth of the WAL of a job's whole life. After a crash of the server or on a standby that takes over it is
-- empty, and what the folder had not yet seen, ten seconds' worth, is counted again from the jobs themselves: see retain.Recount.
CREATE UNLOGGED TABLE waybill.arrivals (
  kind text   NOT NULL,
  n    bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Has a row as long as nothing was lost of arrivals: it goes with them. Recount adds it, also the first time.
CREATE UNLOGGED TABLE waybill.arrivals_whole (since timestamptz NOT NULL);

-- Both, and by how many jobs more or fewer are live for it.
CREATE VIEW waybill.counts AS
  SELECT kind, what, n, slot,
    CASE WHEN what IN ('enqueued', 'recounted', 'revived') THEN n WHEN what IN ('done', 'died', 'cancelled') THEN -n ELSE 0 END AS live
  FROM waybill.tally
  UNION ALL SELECT kind, 'enqueued', n, NULL, n FROM waybill.arrivals;

-- ---------------------------------------------------------------------------------------------- admission, every door

-- The checks of every door. They name the column at fault and say what would be right. Not CHECK constraints: those are paid again by
-- every claim. Not one big WHEN of a trigger either: PostgreSQL reads such an expression anew for each statement, 20 us a job.
-- Called with the caller's fixed search_path, as check_payload.
CREATE FUNCTION waybill.check_job(
  kind text, tenant text, priority integer, run_at timestamptz, dedupe_key text, max_attempts integer, tags text[],
  payload_version integer, traceparent text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  ahead interval;
BEGIN
  IF kind IS NULL OR kind !~ '^[a-z][a-z0-9_.-]{0,63}$' THEN
    RAISE EXCEPTION 'kind is missing or not valid' USING ERRCODE = '22023', COLUMN = 'kind',
      HINT = 'A kind is 1 to 64 characters: a lower-case letter, then lower-case letters, digits, "_", "." or "-".';
  END IF;
  IF tenant <> '' AND (length(tenant) > 128 OR tenant ~ '[[:cntrl:]]') THEN
    RAISE EXCEPTION 'tenant is not valid' USING ERRCODE = '22023', COLUMN = 'tenant',
      HINT = 'A tenant is at most 128 characters, without control characters.';
  END IF;
  IF priority NOT BETWEEN -32768 AND 32767 THEN
    RAISE EXCEPTION 'priority is out of range' USING ERRCODE = '22023', COLUMN = 'priority', HINT = 'Between -32768 and 32767.';
  END IF;
  IF run_at IS NOT NULL AND (run_at > now() OR run_at < '1970-01-01Z') THEN
    SELECT l.run_at_ahead_max INTO STRICT ahead FROM waybill.limits l;
    IF NOT isfinite(run_at) OR run_at > now() + ahead OR run_at < '1970-01-01Z' THEN
      RAISE EXCEPTION 'run_at is out of range' USING ERRCODE = '22023', COLUMN = 'run_at',
        HINT = format('Between 1970 and %s ahead of now.', ahead);
    END IF;
  END IF;
  IF length(dedupe_key) NOT BETWEEN 1 AND 256 THEN
    RAISE EXCEPTION 'dedupe_key has % characters', length(dedupe_key) USING ERRCODE = '22023', COLUMN = 'dedupe_key',
      HINT = 'A dedupe key is 1 to 256 characters.';
  END IF;
  IF max_attempts NOT BETWEEN 1 AND 1000 THEN
    RAISE EXCEPTION 'max_attempts is %', max_attempts USING ERRCODE = '22023', COLUMN = 'max_attempts', HINT = 'Between 1 and 1000.';
  END IF;
  IF tags IS NOT NULL AND (cardinality(tags) > 16 OR array_ndims(tags) > 1
      OR EXISTS (SELECT FROM unnest(tags) tag WHERE tag IS NULL OR length(tag) NOT BETWEEN 1 AND 64)) THEN
    RAISE EXCEPTION 'tags are not valid' USING ERRCODE = '22023', COLUMN = 'tags', HINT = 'At most 16 tags of 1 to 64 characters.';
  END IF;
  IF payload_version NOT BETWEEN 1 AND 32767 THEN
    RAISE EXCEPTION 'payload_version is %', payload_version USING ERRCODE = '22023', COLUMN = 'payload_version',
      HINT = 'Between 1 and 32767.';
  END IF;
  IF length(traceparent) > 128 THEN
    RAISE EXCEPTION 'traceparent has % characters', length(traceparent) USING ERRCODE = '22023', COLUMN = 'traceparent',
      HINT = 'A W3C traceparent; at most 128 characters are kept.';
  END IF;
  RETURN true;
END $$;

-- What a small payload cannot be is not looked for in it: 500 bytes of jsonb are never nested 64 deep, and a number outside of a double's
-- range prints at least 309 digits.
-- The planner puts this in place of the call. The size in bytes stands first: it is known without making text of a large payload. And the
-- text is measured as it is made, with a byte for its end, since a value of type text would be a copy of it.
CREATE FUNCTION waybill.is_small(payload jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_column_size(payload) <= 500 AND pg_column_size(jsonb_out(payload)) <= 309;

CREATE FUNCTION waybill.check_payload(payload jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  limits waybill.limits%ROWTYPE;
  written text;
BEGIN
  IF waybill.is_small(payload) THEN
    RETURN true;
  END IF;
  written := payload::text;
  SELECT * INTO STRICT limits FROM waybill.limits;
  IF octet_length(written) > limits.payload_bytes_max THEN
    RAISE EXCEPTION 'payload has % bytes, more than %', octet_length(written), limits.payload_bytes_max
      USING ERRCODE = '22023', COLUMN = 'payload', HINT = 'Store large content elsewhere and enqueue a reference to it.';
  END IF;
  IF jsonb_path_exists(payload, format('$.**{%s}', limits.payload_depth_max)::jsonpath) THEN
    RAISE EXCEPTION 'payload is nested deeper than %', limits.payload_depth_max
      USING ERRCODE = '22023', COLUMN = 'payload', HINT = 'Flatten it.';
  END IF;
  IF written ~ '[0-9]{155}[0-9]{154}' AND jsonb_path_exists(payload,
      '$.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))') THEN
    RAISE EXCEPTION 'payload holds a number that no double can hold'
      USING ERRCODE = '22023', COLUMN = 'payload', HINT = 'Send it as a string.';
  END IF;
  RETURN true;
END $$;

-- For rows that come by a plain INSERT; the functions below have checked theirs (and say so in the column plain).
CREATE FUNCTION waybill.admit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.check_job(NEW.kind, NEW.tenant, NEW.priority, NEW.run_at, NEW.dedupe_key, NEW.max_attempts, NEW.tags,
    NEW.payload_version, NEW.traceparent);
  PERFORM waybill.check_payload(NEW.payload);
  IF NEW.state NOT IN ('ready', 'scheduled') OR NEW.token IS NOT NULL OR NEW.lease_until IS NOT NULL THEN
    RAISE EXCEPTION 'a job cannot be inserted as %', NEW.state USING ERRCODE = '22023', COLUMN = 'state',
      HINT = 'Leave out state, token and lease_until: a new job is ready or scheduled, as run_at says.';
  END IF;
  IF NEW.attempt <> 0 OR NEW.crashes <> 0 OR NEW.attempts IS NOT NULL THEN
    RAISE EXCEPTION 'a new job has no attempts' USING ERRCODE = '22023',
      COLUMN = CASE WHEN NEW.attempt <> 0 THEN 'attempt' WHEN NEW.crashes <> 0 THEN 'crashes' ELSE 'attempts' END,
      HINT = 'Leave out attempt, crashes and attempts: Waybill counts them.';
  END IF;
  IF waybill.tenants_limited() THEN
    PERFORM waybill.take_room(NEW.tenant, 1);
  END IF;
  NEW.due := NEW.run_at <= now();
  NEW.state := CASE WHEN NEW.due THEN 'ready' ELSE 'scheduled' END;
  IF NEW.dedupe_key IS NULL THEN
    PERFORM waybill.came(NEW.kind, 1, CASE WHEN NEW.due THEN 0 ELSE 1 END);
  ELSE
    -- Whatever the transaction said of all constraints: at once would be before this row is there.
    SET CONSTRAINTS waybill.plain_keyed_ends DEFERRED;
    INSERT INTO waybill.plain_keyed (id, kind, due) VALUES (NEW.id, NEW.kind, NEW.due);
  END IF;
  RETURN NEW;
END $$;

-- The only trigger, since every job that a function inserts pays for its condition. That is a column and nothing else: PostgreSQL reads it
-- anew for each statement, and NOT alone would be a microsecond a job.
CREATE TRIGGER jobs_admit BEFORE INSERT ON waybill.jobs FOR EACH ROW
WHEN (NEW.plain) EXECUTE FUNCTION waybill.admit();

-- Plain rows that have a dedupe key, until their transaction ends: with ON CONFLICT one of them may come to nothing after jobs_admit saw it,
-- so it is counted at the commit, when it is there or not. A row without a key is there, or its statement fails. (Who chooses ids himself,
-- by the owner's right, and lets ON CONFLICT drop those that are taken, makes the figures wrong.)
CREATE UNLOGGED TABLE waybill.plain_keyed (
  id   bigint PRIMARY KEY,
  kind text NOT NULL,
  due  boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

CREATE FUNCTION waybill.count_keyed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM waybill.plain_keyed k WHERE k.id = NEW.id;
  -- What its own transaction cancelled is not there; waybill.cancel() has counted it. Not looked for in jobs_done, which would lock each day
  -- of it, and may belong to somebody who must not get the owner's right (V20).
  IF FOUND AND EXISTS (SELECT FROM waybill.jobs j WHERE j.id = NEW.id) THEN
    PERFORM waybill.came(NEW.kind, 1, CASE WHEN NEW.due THEN 0 ELSE 1 END);
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER plain_keyed_ends AFTER INSERT ON waybill.plain_keyed DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION waybill.count_keyed();

-- Who waits for work: a pool that has been idle for a while arms the rows of its kinds. Enqueueing disarms and notifies, so there is one
-- NOTIFY for each time that somebody fell idle, not one for each job: NOTIFY takes a lock that serialises commits.
-- Unlogged: after a crash it is empty, and polling is the truth anyway.
CREATE UNLOGGED TABLE waybill.waiting (
  kind  text PRIMARY KEY,
  armed boolean NOT NULL,
  since timestamptz NOT NULL DEFAULT now() -- Arming says so again after a minute. After five nobody is there any more.
) WITH (fillfactor = 20);

-- 64 bits, one for all kinds of a hash: nobody waits for a kind whose bit is not set. An enqueue reads this in a third of the time that a look
-- for the row takes. Only mark_armed() writes it.
CREATE UNLOGGED SEQUENCE waybill.armed MINVALUE -9223372036854775808 START 0;

-- When somebody last notified, in milliseconds since 1970: known at once to all, which a row would not be.
CREATE UNLOGGED SEQUENCE waybill.woken MINVALUE 0 START 0;

-- The planner puts these two in place of the call.
CREATE FUNCTION waybill.mask_of(kind text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1::bigint << (hashtext(kind) & 63);

CREATE FUNCTION waybill.may_be_armed(mask bigint) RETURNS boolean LANGUAGE sql
RETURN pg_sequence_last_value('waybill.armed'::regclass) & mask <> 0;

-- A bit is set before the row it stands for is armed for others, and cleared after a disarming has committed: a bit too many costs time, one
-- too few a wake-up. So all bits are made from all rows, under a lock that is kept until others see what was armed under it. Who has it
-- marks, so nobody waits for it here. In a transaction of its own: one that has disarmed may roll back. Rows of pools that are gone go, too,
-- or their bits would stay.
CREATE FUNCTION waybill.mark_armed() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_try_advisory_xact_lock(7733810, 16) THEN
    DELETE FROM waybill.waiting w
    WHERE w.kind IN (SELECT l.kind FROM waybill.waiting l WHERE l.since < now() - interval '5 minutes' FOR UPDATE SKIP LOCKED);
    PERFORM setval('waybill.armed', w.bits)
    FROM (SELECT coalesce(bit_or(waybill.mask_of(kind)), 0) AS bits FROM waybill.waiting WHERE armed) w
    WHERE w.bits IS DISTINCT FROM pg_sequence_last_value('waybill.armed');
  END IF;
END $$;

-- From their next commit on producers of these kinds notify; look once more after it. In a transaction of its own, read committed.
-- A notification wakes pools everywhere, and all but the first find it done: they do not wait for the lock.
-- SKIP LOCKED: a row that an open producer's transaction has disarmed is passed by, or this would wait for that transaction; its commit
-- notifies. But one that met a row after another had disarmed it holds it as well, and notifies nobody: then this is false, try again.
CREATE FUNCTION waybill.arm(kinds text[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM unnest(kinds) k WHERE waybill.may_be_armed(waybill.mask_of(k)) IS NOT TRUE
      OR NOT EXISTS (SELECT FROM waybill.waiting w WHERE w.kind = k AND w.armed AND w.since > now() - interval '1 minute')) THEN
    PERFORM pg_advisory_xact_lock(7733810, 16);
    INSERT INTO waybill.waiting (kind, armed)
    SELECT DISTINCT k, true FROM unnest(kinds) k WHERE NOT EXISTS (SELECT FROM waybill.waiting w WHERE w.kind = k);
    UPDATE waybill.waiting w SET armed = true, since = now()
    WHERE w.kind IN (SELECT a.kind FROM waybill.waiting a WHERE a.kind = ANY (kinds)
      AND NOT (a.armed AND a.since > now() - interval '1 minute') FOR NO KEY UPDATE SKIP LOCKED);
    PERFORM waybill.mark_armed();
  END IF;
  RETURN NOT EXISTS (SELECT FROM waybill.waiting w WHERE w.kind = ANY (kinds) AND NOT w.armed);
END $$;

-- Wakes those who wait for this kind. SKIP LOCKED: if another producer is about to wake them, that is enough. But its notification leaves
-- with its commit, and that may take its time: so once a tenth of a second somebody else may notify as well.
-- By the owner's right, for the sequence.
CREATE FUNCTION waybill.wake(kind text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_ms bigint;
BEGIN
  IF EXISTS (SELECT FROM waybill.waiting w WHERE w.kind = wake.kind AND w.armed) THEN
    -- Such a transaction may not touch a row that was changed since its snapshot, and must not fail because of a hint.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      PERFORM pg_notify('waybill', wake.kind);
      RETURN;
    END IF;
    now_ms := extract(epoch FROM clock_timestamp()) * 1000;
    UPDATE waybill.waiting w SET armed = false
    WHERE w.kind = (SELECT a.kind FROM waybill.waiting a WHERE a.kind = wake.kind AND a.armed FOR UPDATE SKIP LOCKED);
    IF FOUND OR now_ms - coalesce(pg_sequence_last_value('waybill.woken'), 0) NOT BETWEEN -1000 AND 99 THEN
      PERFORM setval('waybill.woken', now_ms);
      PERFORM pg_notify('waybill', wake.kind);
    END IF;
  END IF;
END $$;

-- Jobs came, so many of them for later: count them, and wake those who wait for their kind. Called by the owner's right: before version
-- 18 who may not read the sequence is refused, from 18 on he finds nobody waiting.
CREATE FUNCTION waybill.came(kind text, jobs bigint, later bigint DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO waybill.arrivals (kind, n) VALUES (came.kind, jobs);
  IF later > 0 THEN
    INSERT INTO waybill.tally (kind, what, n) VALUES (came.kind, 'scheduled', later);
  END IF;
  IF waybill.may_be_armed(waybill.mask_of(came.kind)) THEN
    PERFORM waybill.wake(came.kind);
  END IF;
END $$;

-- ----------------------------------------------------------------------------------------------------- door 1: SQL

-- What needs no closer look: most jobs. The planner puts this in place of the call. Each operator costs an enqueue a third of a microsecond:
-- hence LIKE for a length, which is one where a comparison is two, and no count in the pattern of the kind, where {0,63} is five microseconds.
-- And all are immutable: then plpgsql takes no snapshot for the condition, which costs the more the more sessions there are. So the depth
-- is asked for by a path, and not by pg_column_size as in is_small.
CREATE FUNCTION waybill.is_usual(kind text, payload jsonb, tenant text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN kind NOT LIKE '_________________________________________________________________%'
  AND tenant NOT LIKE '_________________________________________________________________________________________________________________________________%'
  AND kind ~ '^[a-z][a-z0-9_.-]*$' AND tenant !~ '[[:cntrl:]]' AND octet_length(payload::text) <= 308 AND NOT payload @? '$.**{64}';

-- A job with nothing unusual about it. As little as possible, since PostgreSQL prepares each expression and each statement anew in each
-- transaction, a microsecond or more for each. Hence no fixed search_path, which would take one, too: what is here has to say where each
-- name lives, and leaves operators and functions of PostgreSQL to expressions whose names were bound when they were made. The kind's bit
-- comes as an argument since it is known when a statement with a literal is planned; with a wrong one the job waits for a poll.
CREATE FUNCTION waybill.enqueue_usual(kind text, payload jsonb, tenant text, priority smallint, mask bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
  job bigint;
BEGIN
  -- The last term is a constant while no tenant has a limit (V6).
  IF waybill.is_usual(enqueue_usual.kind, enqueue_usual.payload, enqueue_usual.tenant) AND NOT waybill.tenants_limited() THEN
    WITH counted AS (
      INSERT INTO waybill.arrivals (kind, n) VALUES (enqueue_usual.kind, 1)
    )
    INSERT INTO waybill.jobs (plain, kind, payload, tenant, priority)
    VALUES (false, enqueue_usual.kind, enqueue_usual.payload, enqueue_usual.tenant, enqueue_usual.priority)
    RETURNING id INTO job;
    IF waybill.may_be_armed(enqueue_usual.mask) THEN
      -- Another kind may have the same bit. Asked here as well, since the call costs more than the question.
      IF EXISTS (SELECT FROM waybill.waiting w WHERE w.kind OPERATOR(pg_catalog.=) enqueue_usual.kind AND w.armed) THEN
        PERFORM waybill.wake(enqueue_usual.kind);
      END IF;
    END IF;
    RETURN job;
  END IF;
  RETURN waybill.enqueue_any(enqueue_usual.kind, enqueue_usual.payload, enqueue_usual.tenant, enqueue_usual.priority, NULL, NULL, NULL, NULL,
    1, NULL);
END $$;

CREATE FUNCTION waybill.enqueue_any(
  kind text, payload jsonb, tenant text, priority integer, run_at timestamptz, dedupe_key text, max_attempts integer, tags text[],
  payload_version integer, traceparent text
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  job bigint;
BEGIN
  PERFORM waybill.check_job(enqueue_any.kind, enqueue_any.tenant, enqueue_any.priority, enqueue_any.run_at, enqueue_any.dedupe_key,
    enqueue_any.max_attempts, enqueue_any.tags, enqueue_any.payload_version, enqueue_any.traceparent);
  PERFORM waybill.check_payload(enqueue_any.payload);
  -- A job that is there already needs no room.
  IF waybill.tenants_limited() THEN
    IF enqueue_any.dedupe_key IS NOT NULL THEN
      SELECT id INTO job FROM waybill.jobs WHERE kind = enqueue_any.kind AND tenant = coalesce(enqueue_any.tenant, '')
        AND dedupe_key = enqueue_any.dedupe_key;
      IF job IS NOT NULL THEN
        RETURN job;
      END IF;
    END IF;
    PERFORM waybill.take_room(coalesce(enqueue_any.tenant, ''), 1);
  END IF;
  -- The job that holds a dedupe key may finish between the two statements; then its key is free, and we try again.
  FOR round IN 1..10 LOOP
    INSERT INTO waybill.jobs (plain, due, state, kind, payload, tenant, priority, run_at, max_attempts, tags, payload_version, traceparent,
      dedupe_key)
    VALUES (false, (enqueue_any.run_at > now()) IS NOT TRUE, CASE WHEN enqueue_any.run_at > now() THEN 'scheduled' ELSE 'ready' END, enqueue_any.kind, coalesce(enqueue_any.payload, '{}'),
      coalesce(enqueue_any.tenant, ''), coalesce(enqueue_any.priority, 0), coalesce(enqueue_any.run_at, now()), enqueue_any.max_attempts,
      enqueue_any.tags, coalesce(enqueue_any.payload_version, 1), enqueue_any.traceparent, enqueue_any.dedupe_key)
    ON CONFLICT (kind, tenant, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
    RETURNING id INTO job;
    IF job IS NOT NULL THEN
      PERFORM waybill.came(enqueue_any.kind, 1, CASE WHEN enqueue_any.run_at > now() THEN 1 ELSE 0 END);
      RETURN job;
    END IF;
    SELECT id INTO job FROM waybill.jobs WHERE kind = enqueue_any.kind AND tenant = coalesce(enqueue_any.tenant, '')
      AND dedupe_key = enqueue_any.dedupe_key;
    IF job IS NOT NULL THEN
      RETURN job;
    END IF;
  END LOOP;
  RAISE EXCEPTION 'the job that holds this dedupe key could not be read' USING ERRCODE = '40001', COLUMN = 'dedupe_key',
    HINT = 'Try the transaction again.';
END $$;

-- Two ways: one for jobs that say no more than kind, payload, tenant and priority, one for all others. Which one is decided here and not in
-- them: PostgreSQL puts this expression in place of the call, and with defaults and literals nothing of it is left when a job comes. Each
-- term would cost its part of a microsecond there, since expressions are prepared anew in each transaction. It runs by the caller's right
-- and its names were bound when it was made, so that no search_path changes it; the two ways are as safe to call as this.
CREATE FUNCTION waybill.enqueue(
  kind text, payload jsonb DEFAULT '{}', tenant text DEFAULT '', priority integer DEFAULT 0,
  run_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL, max_attempts integer DEFAULT NULL,
  tags text[] DEFAULT NULL, payload_version integer DEFAULT 1, traceparent text DEFAULT NULL
) RETURNS bigint LANGUAGE sql
RETURN CASE
  WHEN priority BETWEEN -32768 AND 32767 AND run_at IS NULL AND dedupe_key IS NULL AND max_attempts IS NULL AND tags IS NULL
    AND payload_version = 1 AND traceparent IS NULL
  THEN waybill.enqueue_usual(kind, payload, tenant, priority::smallint, waybill.mask_of(kind))
  ELSE waybill.enqueue_any(kind, payload, tenant, priority, run_at, dedupe_key, max_attempts, tags, payload_version, traceparent)
END;

-- One of these is NULL. Called with the caller's fixed search_path.
CREATE FUNCTION waybill.refuse_null(payloads jsonb[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'payloads[%] is NULL', array_position(payloads, NULL) USING ERRCODE = '22023', COLUMN = 'payloads',
    HINT = 'For a job without content use ''{}''.';
END $$;

-- What is no small payload. The planner puts this in place of the call, so that nobody copies the array.
CREATE FUNCTION waybill.check_one(payloads jsonb[], payload jsonb) RETURNS boolean LANGUAGE sql
RETURN CASE WHEN payload IS NULL THEN waybill.refuse_null(payloads) ELSE waybill.check_payload(payload) END;

-- With a generic plan: a plan for these very arguments would take a copy of the array into itself.
CREATE FUNCTION waybill.enqueue_many(
  kind text, payloads jsonb[], tenant text DEFAULT '', priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL,
  max_attempts integer DEFAULT NULL, tags text[] DEFAULT NULL, payload_version integer DEFAULT 1, traceparent text DEFAULT NULL
) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  jobs integer := cardinality(payloads);
  later boolean := coalesce(enqueue_many.run_at > now(), false);
BEGIN
  PERFORM waybill.check_job(enqueue_many.kind, enqueue_many.tenant, enqueue_many.priority, enqueue_many.run_at, NULL,
    enqueue_many.max_attempts, enqueue_many.tags, enqueue_many.payload_version, enqueue_many.traceparent);
  IF jobs > (SELECT bulk_rows_max FROM waybill.limits) THEN
    RAISE EXCEPTION '% payloads in one call', jobs USING ERRCODE = '22023', COLUMN = 'payloads',
      HINT = format('At most %s; call it again in the same transaction.', (SELECT bulk_rows_max FROM waybill.limits));
  END IF;
  IF array_ndims(payloads) > 1 THEN
    RAISE EXCEPTION 'payloads has % dimensions', array_ndims(payloads) USING ERRCODE = '22023', COLUMN = 'payloads', HINT = 'One array of payloads.';
  END IF;
  -- What is the same for all is worked out once.
  tenant := coalesce(tenant, '');
  priority := coalesce(priority, 0);
  run_at := coalesce(run_at, now());
  payload_version := coalesce(payload_version, 1);
  -- Room that is taken stays taken, so nobody may be refused for his payload after it.
  IF waybill.tenants_limited() THEN
    PERFORM waybill.check_one(payloads, p) FROM unnest(payloads) AS p WHERE waybill.is_small(p) IS NOT TRUE;
    PERFORM waybill.take_room(enqueue_many.tenant, jobs);
  END IF;
  -- One pass: each payload is checked where it is inserted. unnest in FROM would write them all down first, and array_position would copy
  -- the array for itself.
  RETURN QUERY
  INSERT INTO waybill.jobs (plain, due, state, kind, payload, tenant, priority, run_at, max_attempts, tags, payload_version, traceparent)
  SELECT false, NOT later, CASE WHEN later THEN 'scheduled' ELSE 'ready' END, enqueue_many.kind, p.one, enqueue_many.tenant, enqueue_many.priority,
    enqueue_many.run_at, enqueue_many.max_attempts, enqueue_many.tags, enqueue_many.payload_version, enqueue_many.traceparent
  FROM (SELECT unnest(payloads) AS one) p
  WHERE waybill.is_small(p.one) OR waybill.check_one(payloads, p.one)
  RETURNING id;
  IF FOUND THEN
    PERFORM waybill.came(enqueue_many.kind, jobs, CASE WHEN later THEN jobs ELSE 0 END);
  END IF;
END $$;

-- Cancelling a running job takes its lease away: the holder is told that it lost it, and its handler is interrupted.
CREATE FUNCTION waybill.cancel(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
  -- Nobody kept house for two weeks. Looked up by name, since trying and catching would cost a subtransaction.
  IF to_regclass('waybill.jobs_done_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL THEN
    PERFORM waybill.make_partitions();
  END IF;
  WITH gone AS (
    DELETE FROM waybill.jobs j WHERE j.id = cancel.id RETURNING j.*
  ), uncounted AS (
    -- A plain row of this very transaction: it came and went.
    DELETE FROM waybill.plain_keyed k WHERE k.id = cancel.id AND EXISTS (SELECT FROM gone) RETURNING k.kind, k.due
  ), came AS (
    INSERT INTO waybill.arrivals (kind, n) SELECT u.kind, 1 FROM uncounted u
  ), counted AS (
    INSERT INTO waybill.tally (kind, what, n)
    SELECT g.kind, f.what, f.n FROM gone g CROSS JOIN LATERAL (VALUES ('cancelled', 1, true),
      ('scheduled', -1, g.state = 'scheduled'), ('interrupted', 1, g.state = 'running')) AS f(what, n, applies)
    WHERE f.applies
    UNION ALL SELECT u.kind, 'scheduled', 1 FROM uncounted u WHERE NOT u.due
  )
  INSERT INTO waybill.jobs_done (id, run_at, created_at, started_at, finished_at, priority, attempt, max_attempts, crashes,
    payload_version, state, kind, tenant, payload, dedupe_key, tags, traceparent, worker, last_error, attempts)
  SELECT g.id, g.run_at, g.created_at, g.started_at, now(), g.priority, g.attempt, g.max_attempts, g.crashes,
    g.payload_version, 'cancelled', g.kind, g.tenant, g.payload, g.dedupe_key, g.tags, g.traceparent, g.worker, g.last_error,
    CASE WHEN g.state = 'running'
      THEN waybill.with_attempt(g.attempts, g.attempt, g.worker, g.started_at, 'cancelled', NULL) ELSE g.attempts END
  FROM gone g;
  RETURN FOUND;
END $$;

-- ------------------------------------------------------------------------------------------------- what rooms share

-- Appends one ended attempt to a job's history, which keeps the last 50.
CREATE FUNCTION waybill.with_attempt(
  attempts jsonb, attempt smallint, worker text, started_at timestamptz, outcome text, error text
) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN jsonb_array_length(attempts) >= 50 THEN attempts - 0 ELSE coalesce(attempts, '[]') END
    || jsonb_build_array(jsonb_strip_nulls(jsonb_build_object('attempt', attempt, 'worker', worker, 'startedAt', started_at,
      'endedAt', now(), 'outcome', outcome, 'error', left(error, 1000))))
$$;

-- The same failure has the same fingerprint, whatever ids, numbers, names in quotes, addresses, paths and times its text has. Codes are kept:
-- status 404 is another failure than status 500. A mark before such a number (U+0001, which no error text holds) keeps it from the last rules.
CREATE FUNCTION waybill.fingerprint(error text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  t text := translate(lower(left(error, 4000)), E'\t\n\r', '   ');
BEGIN
  -- Each step costs microseconds for each dead letter, so those that most texts do not need look first.
  IF strpos(t, '"') > 0 THEN t := regexp_replace(t, '"(?:[^"\\]|\\.)*"', '"#"', 'g'); END IF;
  IF strpos(t, '`') > 0 THEN t := regexp_replace(t, '`[^`]*`', '"#"', 'g'); END IF;
  -- An apostrophe inside of a word or at its end quotes nothing.
  IF strpos(t, '''') > 0 THEN t := regexp_replace(t, '(^|[^[:alnum:]])''[^'']*''(?![[:alnum:]])', '\1"#"', 'g'); END IF;
  IF strpos(t, '://') > 0 THEN t := regexp_replace(t, '([a-z][a-z0-9+.-]*://[^/\s?#]+)[^\s,;)"\]]*', '\1', 'g'); END IF;
  IF strpos(t, '@') > 0 THEN
    t := regexp_replace(t, '[^\s@<>,;:="()]+@[a-z0-9-]+(\.[a-z0-9-]+)+', '#', 'g');
    t := regexp_replace(t, '@[0-9a-f]{5,16}\M', '#', 'g');
  END IF;
  IF t ~ '[/\\]' THEN t := regexp_replace(t, '(^|[\s=(,\["<])(?:[a-z]:\\|\.{0,2}/)[^\s:,;)"\]>]+', '\1/#', 'g'); END IF;
  IF t ~ '[0-9]' THEN
    t := regexp_replace(t, '\m[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\M', '#', 'g');
    t := regexp_replace(t, '\m[0-9]{4}-[0-9]{2}-[0-9]{2}([t ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?(z|[+-][0-9]{2}:?([0-9]{2})?))?)?', '#', 'g');
    t := regexp_replace(t, '\m(http(?:/[0-9.]+)?|status|code|sqlstate|errno|exit|error)([\s:=#(]+)([0-9][0-9a-z]{0,4})\M', E'\\1\\2\x01\\3', 'g');
    t := regexp_replace(t, '0x[0-9a-f]+', '#', 'g');
    IF t ~ ':[0-9a-f]*:' THEN t := regexp_replace(t, '\m[0-9a-f]{1,4}(:[0-9a-f]{0,4}){3,7}', '#', 'g'); END IF;
    t := regexp_replace(t, '\m(?=[a-z_-]*[0-9])(?=[0-9a-f]{7,}\M|[0-9a-z_-]{16,}\M)[0-9a-z_-]+', '#', 'g');
    t := regexp_replace(t, E'(\x01' || '[0-9][0-9a-z]*)|[0-9]+([.,:][0-9]+)*', '\1#', 'g');
    t := regexp_replace(t, '(^|[\s=(:,\[])[+-]#', '\1#', 'g');
  END IF;
  IF strpos(t, '#') > 0 THEN t := regexp_replace(t, '(["/]?#"?)(\s*[,;]\s*["/]?#"?)+', '\1', 'g'); END IF;
  RETURN left(md5(btrim(regexp_replace(t, '  +', ' ', 'g'))), 16);
END $$;

-- Dead letters are counted here and not in the statements that write them: there are several, and none is on the way of every job.
CREATE FUNCTION waybill.count_died() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO waybill.tally (kind, what, n, slot)
  SELECT d.kind, 'died', count(*), date_bin('15 minutes', now(), 'epoch') FROM died d GROUP BY d.kind;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_dead_came AFTER INSERT ON waybill.jobs_dead REFERENCING NEW TABLE AS died
FOR EACH STATEMENT EXECUTE FUNCTION waybill.count_died();

-- A dead letter that goes back is in waybill.jobs by the end of the statement that takes it out of here.
-- Without sequential scans: a plan that a session made on the empty table would be kept while it grows. The same holds for the functions
-- below and in later versions that look jobs up by id or key.
CREATE FUNCTION waybill.count_undead() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
  INSERT INTO waybill.tally (kind, what, n)
  SELECT g.kind, g.what, count(*)
  FROM (SELECT d.kind, CASE WHEN EXISTS (SELECT FROM waybill.jobs j WHERE j.id = d.id) THEN 'revived' ELSE 'dropped' END AS what
    FROM gone d) g
  GROUP BY g.kind, g.what;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_dead_gone AFTER DELETE ON waybill.jobs_dead REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION waybill.count_undead();

-- Makes the partitions of today and the days ahead, and names each one made. Safe when several do it at once. By the owner's right: whoever
-- cancels or settles first on a day without a partition may be somebody who may create nothing.
CREATE FUNCTION waybill.make_partitions(days_ahead integer DEFAULT 14) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  day date;
  name text;
BEGIN
  IF days_ahead NOT BETWEEN 0 AND 366 THEN
    RAISE EXCEPTION 'days_ahead is %', days_ahead USING ERRCODE = '22023', HINT = 'Between 0 and 366.';
  END IF;
  FOR day IN SELECT d::date FROM generate_series((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + days_ahead, '1 day') d LOOP
    name := 'jobs_done_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass('waybill.' || name) IS NOT NULL;
    PERFORM pg_advisory_xact_lock(7733810, 1);
    CONTINUE WHEN to_regclass('waybill.' || name) IS NOT NULL;
    -- Made apart and attached: PARTITION OF would lock out every settle behind a long reader, ATTACH does not.
    EXECUTE format('CREATE TABLE waybill.%I (LIKE waybill.jobs_done INCLUDING INDEXES)', name);
    EXECUTE format('ALTER TABLE waybill.jobs_done ATTACH PARTITION waybill.%I FOR VALUES FROM (%L) TO (%L)',
      name, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
    RETURN NEXT name;
  END LOOP;
END $$;
SELECT waybill.make_partitions();

CREATE VIEW waybill.all_jobs AS
  SELECT id, kind, tenant, priority, CASE WHEN state = 'scheduled' AND run_at <= now() THEN 'ready' ELSE state END AS state,
    payload, attempt, created_at, run_at, started_at, NULL::timestamptz AS finished_at, worker, last_error,
    NULL::jsonb AS result, tags, max_attempts, crashes, payload_version, dedupe_key, traceparent, attempts, progress
  FROM waybill.jobs
  UNION ALL
  SELECT id, kind, tenant, priority, state, payload, attempt, created_at, run_at, started_at, finished_at, worker, last_error,
    result, tags, max_attempts, crashes, payload_version, dedupe_key, traceparent, attempts, NULL
  FROM waybill.jobs_done
  UNION ALL
  SELECT id, kind, tenant, priority, 'dead', payload, attempt, created_at, run_at, started_at, finished_at, worker, last_error,
    NULL, tags, max_attempts, crashes, payload_version, dedupe_key, traceparent, attempts, NULL
  FROM waybill.jobs_dead;

-- ---------------------------------------------------------------------------------------------------------- grants

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA waybill FROM PUBLIC;
GRANT USAGE ON SCHEMA waybill TO waybill_producer;
GRANT EXECUTE ON FUNCTION waybill.enqueue(text, jsonb, text, integer, timestamptz, text, integer, text[], integer, text),
  waybill.enqueue_many(text, jsonb[], text, integer, timestamptz, integer, text[], integer, text),
  waybill.mask_of(text), waybill.enqueue_usual(text, jsonb, text, smallint, bigint),
  waybill.enqueue_any(text, jsonb, text, integer, timestamptz, text, integer, text[], integer, text),
  waybill.cancel(bigint) TO waybill_producer;
