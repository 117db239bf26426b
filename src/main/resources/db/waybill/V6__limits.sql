-- What one tenant may put in: so many jobs a second, and so many that wait. docs/decisions/0037 says why it is done like this.

-- How many kinds there may be. Asked by REST; SQL would pay for the question with each job.
ALTER TABLE waybill.limits ADD COLUMN kinds_max integer NOT NULL DEFAULT 1000 CHECK (kinds_max >= 1);

-- One row for each tenant that has a limit; written by waybill.limit_tenant and waybill.unlimit_tenant only.
CREATE TABLE waybill.tenant_limits (
  tenant          text PRIMARY KEY CHECK (length(tenant) <= 128),
  version         bigint NOT NULL DEFAULT 1,
  rate_per_second double precision CHECK (rate_per_second BETWEEN 0.001 AND 1000000),
  burst           bigint CHECK (burst BETWEEN 1 AND 1000000),
  backlog_max     bigint CHECK (backlog_max BETWEEN 1 AND 10000000),
  -- Times in the sequences count from here.
  since           timestamptz NOT NULL DEFAULT now(),
  rate_seq        regclass,
  backlog_seq     regclass,
  updated_at      timestamptz NOT NULL DEFAULT now(),
  CHECK (rate_per_second IS NOT NULL OR backlog_max IS NOT NULL),
  CHECK ((rate_per_second IS NULL) = (rate_seq IS NULL) AND (rate_per_second IS NULL) = (burst IS NULL)),
  CHECK ((backlog_max IS NULL) = (backlog_seq IS NULL))
);
CREATE SEQUENCE waybill.tenant_limit_ids;

-- Sequences that nobody uses any more. Dropping one waits for every transaction that ever took from it, so it is done later.
CREATE TABLE waybill.spent_sequences (
  sequence regclass PRIMARY KEY,
  at       timestamptz NOT NULL DEFAULT now()
);

-- The backlog of a tenant is counted; what waits in a lane is found by jobs_due, what waits for its time by this.
CREATE INDEX jobs_scheduled_tenant ON waybill.jobs (tenant) WHERE NOT due;

-- Whether any tenant has a limit. It is a constant in a function and not a row, since enqueue() asks it for every job: the planner puts the
-- constant in place of the call, and makes the plan anew when waybill.limit_tenant replaces the function.
CREATE FUNCTION waybill.tenants_limited() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE RETURN false;

-- How many jobs of a tenant wait: ready ones and scheduled ones, up to so many. It goes from one (kind, version) to the next by an index
-- descent each, however many jobs of others lie between.
CREATE FUNCTION waybill.count_backlog(tenant text, at_most bigint) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off SET jit = off AS $$
  WITH RECURSIVE part AS (
    (SELECT j.kind, j.payload_version FROM waybill.jobs j WHERE j.due AND j.state = 'ready'
      ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1)
    UNION ALL
    SELECT next.* FROM part CROSS JOIN LATERAL (
      SELECT j.kind, j.payload_version FROM waybill.jobs j
      WHERE j.due AND j.state = 'ready' AND waybill.place(j.kind, j.payload_version) > waybill.place(part.kind, part.payload_version)
      ORDER BY waybill.place(j.kind, j.payload_version), waybill.place(j.tenant, j.priority), j.run_at, j.id LIMIT 1
    ) next
  )
  SELECT count(*) FROM (
    SELECT FROM part CROSS JOIN LATERAL (
      SELECT FROM waybill.jobs j WHERE j.due AND j.state = 'ready' AND waybill.place(j.kind, j.payload_version) = waybill.place(part.kind, part.payload_version)
        AND waybill.place(j.tenant, j.priority) BETWEEN waybill.place(count_backlog.tenant, '-32768') AND waybill.place(count_backlog.tenant, '32767')
        AND j.tenant = count_backlog.tenant LIMIT at_most) waits
    UNION ALL
    SELECT FROM (SELECT FROM waybill.jobs j WHERE NOT j.due AND j.tenant = count_backlog.tenant LIMIT at_most) waits
    LIMIT at_most
  ) backlog
$$;

-- Takes room for so many new jobs of a tenant, or raises WB001 (rate) or WB002 (backlog). With owe nothing is refused and all is counted: for
-- the rest of a batch of which the first part was let in.
--
-- What was taken is kept in unlogged sequences, and in no row: a row would stay locked until the producer commits, so one long transaction
-- would hold up all others of its tenant, and two that enqueue for two tenants could lock each other out. A sequence moves at once, for
-- everybody, and waits for nobody. So what a transaction that rolls back has taken stays taken. After a crash of the server the sequences
-- begin anew: the bucket is full, and the backlog is counted.
--
-- Rate: the sequence is the time (in jobs, from since) up to which the tenant has used its rate. Taking moves it on; time that was not used is
-- lost but for the burst.
-- Backlog: the sequence is an upper bound of how many wait, moved up by what comes. Only when it reaches the limit the jobs are counted and it
-- is set to the truth. Above the limit it is a time instead: full until then, do not count again before (limit + 1 + milliseconds since).
-- Called with the caller's fixed search_path.
CREATE FUNCTION waybill.take_room(tenant text, jobs bigint, owe boolean DEFAULT false) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  l waybill.tenant_limits%ROWTYPE;
  since_ms bigint;
  used bigint;
  elapsed bigint;
  mark bigint;
  waits bigint;
  count_ms bigint;
  over bigint;
BEGIN
  SELECT * INTO l FROM waybill.tenant_limits t WHERE t.tenant = take_room.tenant;
  IF NOT FOUND OR jobs < 1 THEN
    RETURN true;
  END IF;
  since_ms := extract(epoch FROM clock_timestamp() - l.since) * 1000;

  IF l.backlog_max IS NOT NULL AND NOT owe THEN
    mark := pg_sequence_last_value(l.backlog_seq);
    used := coalesce(mark, l.backlog_max + 1);
    IF used + jobs > l.backlog_max THEN
      over := used - l.backlog_max - 1 - since_ms;
      IF used <= l.backlog_max OR over <= 0 THEN
        -- Where it was full before, or counting may take long, one counts and the others are sent away meanwhile; and when the count is cut
        -- short by a time limit, this stays for a while. Where it is cheap nobody is sent away who may have room.
        IF mark > l.backlog_max OR l.backlog_max > 10000 THEN
          used := l.backlog_max + 1 + since_ms + 2000;
          PERFORM setval(l.backlog_seq, used);
        END IF;
        waits := waybill.count_backlog(tenant, l.backlog_max);
        count_ms := extract(epoch FROM clock_timestamp() - l.since) * 1000 - since_ms;
        -- When counting takes long, a little room is none: it would be counted again for each few jobs.
        IF waits + greatest(1, CASE WHEN count_ms > 5 THEN l.backlog_max / 100 ELSE 0 END) > l.backlog_max
            OR waits + jobs > l.backlog_max AND count_ms > 5 THEN
          over := greatest(100, 20 * count_ms);
          PERFORM setval(l.backlog_seq, l.backlog_max + 1 + since_ms + over);
        ELSE
          -- Unless somebody else has counted meanwhile: our count is the older one, and would give away again what was taken since. What
          -- came on top of our mark are jobs of those who had asked before it, or the later mark of another who counts: it is added, which
          -- is too much at worst, and leads to a count earlier.
          mark := coalesce(pg_sequence_last_value(l.backlog_seq), l.backlog_max + 1);
          IF mark = used OR mark > used AND used > l.backlog_max THEN
            PERFORM setval(l.backlog_seq, least(waits + mark - used, l.backlog_max));
          END IF;
          over := CASE WHEN waits + jobs > l.backlog_max THEN 1000 ELSE 0 END;
        END IF;
      END IF;
      IF over > 0 THEN
        RAISE EXCEPTION 'this tenant has no room for % more waiting', CASE WHEN jobs = 1 THEN 'a job' ELSE jobs || ' jobs' END
          USING ERRCODE = 'WB002', COLUMN = 'tenant', DETAIL = format('retry after %s ms', over),
          HINT = format('At most %s of its jobs may wait. Try again when some have run, or let an operator set another limit.', l.backlog_max);
      END IF;
    END IF;
  END IF;

  IF l.rate_per_second IS NOT NULL THEN
    elapsed := 1 + floor(l.rate_per_second * since_ms / 1000);
    used := coalesce(pg_sequence_last_value(l.rate_seq), 0);
    IF used < elapsed THEN
      used := elapsed;
      PERFORM setval(l.rate_seq, elapsed);
    END IF;
    -- More than a burst needs a full bucket, and leaves it in debt.
    over := used + least(jobs, l.burst) - elapsed - l.burst;
    IF over > 0 AND NOT owe THEN
      RAISE EXCEPTION 'this tenant has used up its rate'
        USING ERRCODE = 'WB001', COLUMN = 'tenant',
        DETAIL = format('retry after %s ms', greatest(1, ceil((elapsed - 1 + over) * 1000 / l.rate_per_second - since_ms)::bigint)),
        HINT = format('At most %s jobs a second, %s at once. Try again later, or let an operator set another limit.', l.rate_per_second, l.burst);
    END IF;
    IF jobs = 1 THEN
      PERFORM nextval(l.rate_seq);
    ELSE
      PERFORM nextval(l.rate_seq) FROM generate_series(1, jobs);
    END IF;
  END IF;
  IF l.backlog_max IS NOT NULL THEN
    IF jobs = 1 THEN
      PERFORM nextval(l.backlog_seq);
    ELSE
      PERFORM nextval(l.backlog_seq) FROM generate_series(1, jobs);
    END IF;
  END IF;
  RETURN true;
END $$;

-- The same for the jobs of a batch, of whatever tenants.
CREATE FUNCTION waybill.take_rooms(tenants text[], jobs integer[], owe boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF waybill.tenants_limited() THEN
    PERFORM waybill.take_room(coalesce(t.tenant, ''), sum(t.jobs), take_rooms.owe) FROM unnest(take_rooms.tenants, take_rooms.jobs) AS t(tenant, jobs)
    GROUP BY coalesce(t.tenant, '');
  END IF;
END $$;

-- One change at a time; those who enqueue read on meanwhile, and heed the change from their next statement on.
CREATE FUNCTION waybill.limit_tenant(tenant text, rate_per_second double precision DEFAULT NULL, burst bigint DEFAULT NULL,
  backlog_max bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  number bigint;
  rate_seq regclass;
  backlog_seq regclass;
  made bigint;
BEGIN
  IF limit_tenant.tenant IS NULL OR length(limit_tenant.tenant) > 128 OR limit_tenant.tenant ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION 'tenant is not valid' USING ERRCODE = '22023', COLUMN = 'tenant',
      HINT = 'A tenant is at most 128 characters, without control characters.';
  END IF;
  IF NOT limit_tenant.rate_per_second BETWEEN 0.001 AND 1000000 THEN
    RAISE EXCEPTION 'rate_per_second is out of range' USING ERRCODE = '22023', COLUMN = 'rate_per_second', HINT = 'Between 0.001 and 1000000.';
  END IF;
  IF NOT limit_tenant.burst BETWEEN 1 AND 1000000 OR limit_tenant.burst IS NOT NULL AND limit_tenant.rate_per_second IS NULL THEN
    RAISE EXCEPTION 'burst is not valid' USING ERRCODE = '22023', COLUMN = 'burst', HINT = 'Between 1 and 1000000, beside a rate_per_second.';
  END IF;
  IF NOT limit_tenant.backlog_max BETWEEN 1 AND 10000000 THEN
    RAISE EXCEPTION 'backlog_max is out of range' USING ERRCODE = '22023', COLUMN = 'backlog_max', HINT = 'Between 1 and 10000000.';
  END IF;
  IF limit_tenant.rate_per_second IS NULL AND limit_tenant.backlog_max IS NULL THEN
    RAISE EXCEPTION 'neither rate_per_second nor backlog_max is given' USING ERRCODE = '22023', COLUMN = 'rate_per_second',
      HINT = 'Give one of them; waybill.unlimit_tenant takes limits away.';
  END IF;
  LOCK TABLE waybill.tenant_limits IN SHARE ROW EXCLUSIVE MODE;
  IF NOT EXISTS (SELECT FROM waybill.tenant_limits t WHERE t.tenant = limit_tenant.tenant)
      AND (SELECT count(*) FROM waybill.tenant_limits) >= 10000 THEN
    RAISE EXCEPTION '10000 tenants have limits' USING ERRCODE = '22023', COLUMN = 'tenant', HINT = 'Take limits of others away first.';
  END IF;
  INSERT INTO waybill.spent_sequences (sequence)
  SELECT s.sequence FROM waybill.tenant_limits t CROSS JOIN LATERAL (VALUES (t.rate_seq), (t.backlog_seq)) AS s(sequence)
  WHERE t.tenant = limit_tenant.tenant AND s.sequence IS NOT NULL;
  -- New ones for each change: whoever still goes by the old limit counts in the old ones.
  number := nextval('waybill.tenant_limit_ids');
  IF limit_tenant.rate_per_second IS NOT NULL THEN
    EXECUTE format('CREATE UNLOGGED SEQUENCE waybill.%I MINVALUE 0 START 1', 'tenant_rate_' || number);
    rate_seq := format('waybill.%I', 'tenant_rate_' || number);
  END IF;
  IF limit_tenant.backlog_max IS NOT NULL THEN
    -- Not begun: counted at the first job.
    EXECUTE format('CREATE UNLOGGED SEQUENCE waybill.%I MINVALUE 0 START 0', 'tenant_backlog_' || number);
    backlog_seq := format('waybill.%I', 'tenant_backlog_' || number);
  END IF;
  INSERT INTO waybill.tenant_limits AS t (tenant, rate_per_second, burst, backlog_max, rate_seq, backlog_seq)
  VALUES (limit_tenant.tenant, limit_tenant.rate_per_second,
    CASE WHEN limit_tenant.rate_per_second IS NOT NULL THEN coalesce(limit_tenant.burst, ceil(limit_tenant.rate_per_second)::bigint) END,
    limit_tenant.backlog_max, rate_seq, backlog_seq)
  ON CONFLICT (tenant) DO UPDATE SET version = t.version + 1, rate_per_second = excluded.rate_per_second, burst = excluded.burst,
    backlog_max = excluded.backlog_max, since = now(), rate_seq = excluded.rate_seq, backlog_seq = excluded.backlog_seq, updated_at = now()
  RETURNING t.version INTO made;
  IF NOT waybill.tenants_limited() THEN
    CREATE OR REPLACE FUNCTION waybill.tenants_limited() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE RETURN true;
  END IF;
  RETURN made;
END $$;

-- True when it had limits.
CREATE FUNCTION waybill.unlimit_tenant(tenant text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  old waybill.tenant_limits%ROWTYPE;
BEGIN
  LOCK TABLE waybill.tenant_limits IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM waybill.tenant_limits t WHERE t.tenant = unlimit_tenant.tenant RETURNING t.* INTO old;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO waybill.spent_sequences (sequence)
  SELECT s.sequence FROM (VALUES (old.rate_seq), (old.backlog_seq)) AS s(sequence) WHERE s.sequence IS NOT NULL;
  IF NOT EXISTS (SELECT FROM waybill.tenant_limits) THEN
    CREATE OR REPLACE FUNCTION waybill.tenants_limited() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE RETURN false;
  END IF;
  RETURN true;
END $$;

-- Drops one sequence that was given up an hour ago; by then nobody reads the row that named it. One a call, since it may wait; one that
-- somebody holds comes again an hour later. False: there is none. What is named here and is no sequence of old limits is left alone.
CREATE FUNCTION waybill.drop_spent_sequence() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
  spent oid;
  name text;
BEGIN
  SELECT s.sequence INTO spent FROM waybill.spent_sequences s WHERE s.at < now() - interval '1 hour' ORDER BY s.at LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  SELECT c.relname INTO name FROM pg_class c
  WHERE c.oid = spent AND c.relnamespace = 'waybill'::regnamespace AND c.relkind = 'S' AND c.relname ~ '^tenant_(rate|backlog)_[0-9]+$'
    AND NOT EXISTS (SELECT FROM waybill.tenant_limits t WHERE spent IN (t.rate_seq, t.backlog_seq));
  BEGIN
    IF name IS NOT NULL THEN
      EXECUTE format('DROP SEQUENCE IF EXISTS waybill.%I', name);
    END IF;
    DELETE FROM waybill.spent_sequences s WHERE s.sequence = spent;
  EXCEPTION WHEN OTHERS THEN
    UPDATE waybill.spent_sequences s SET at = now() WHERE s.sequence = spent;
  END;
  RETURN true;
END $$;

-- --------------------------------------------------------------------------------------------------- what is kept of acts

-- Changes of policies, limits and tokens are logged by the tables themselves: whoever makes them, by REST, by a setting or by SQL. A
-- transaction says in waybill.who for whom it acts; without that it is the database's user.
CREATE FUNCTION waybill.who() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN left(coalesce(nullif(current_setting('waybill.who', true), ''), 'sql:' || session_user), 256);

-- The columns in which two rows differ: {"max_attempts": [3, 5]}. Those that every change moves are left out.
CREATE FUNCTION waybill.changed(before jsonb, after jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT jsonb_object_agg(a.key, jsonb_build_array(before -> a.key, a.value))
  FROM jsonb_each(after) a
  WHERE a.value IS DISTINCT FROM coalesce(before -> a.key, 'null') AND a.key NOT IN ('version', 'updated_at', 'since', 'rate_seq', 'backlog_seq')
$$;

CREATE FUNCTION waybill.kinds_log() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  diff jsonb;
BEGIN
  IF TG_OP = 'DELETE' THEN
    INSERT INTO waybill.audit_log (who, what, target, filter, jobs)
    VALUES (waybill.who(), 'policy-delete', OLD.kind, jsonb_build_object('version', OLD.version), 0);
    RETURN NULL;
  END IF;
  -- Of a new row what differs from one that says nothing: a kind that is merely known is nobody's act.
  diff := waybill.changed(CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD) ELSE jsonb_build_object('kind', NEW.kind, 'paused', false) END,
    to_jsonb(NEW));
  IF diff IS NOT NULL THEN
    INSERT INTO waybill.audit_log (who, what, target, filter, jobs)
    VALUES (waybill.who(), CASE WHEN diff - 'paused' <> '{}' THEN 'policy' WHEN NEW.paused THEN 'pause' ELSE 'resume' END, NEW.kind,
      jsonb_build_object('version', NEW.version, 'changed', diff), 0);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER kinds_log AFTER INSERT OR UPDATE OR DELETE ON waybill.kinds FOR EACH ROW EXECUTE FUNCTION waybill.kinds_log();

CREATE FUNCTION waybill.tenant_limits_log() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    INSERT INTO waybill.audit_log (who, what, target, tenant, filter, jobs)
    VALUES (waybill.who(), 'unlimit', OLD.tenant, OLD.tenant, jsonb_build_object('version', OLD.version), 0);
  ELSE
    INSERT INTO waybill.audit_log (who, what, target, tenant, filter, jobs)
    VALUES (waybill.who(), 'limit', NEW.tenant, NEW.tenant, jsonb_build_object('version', NEW.version, 'changed',
      coalesce(waybill.changed(CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD) ELSE jsonb_build_object('tenant', NEW.tenant) END, to_jsonb(NEW)), '{}')), 0);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER tenant_limits_log AFTER INSERT OR UPDATE OR DELETE ON waybill.tenant_limits
FOR EACH ROW EXECUTE FUNCTION waybill.tenant_limits_log();

CREATE FUNCTION waybill.tokens_log() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO waybill.audit_log (who, what, target, tenant, filter, jobs)
    VALUES (waybill.who(), 'token-mint', NEW.id || ' ' || NEW.name, NEW.tenant,
      jsonb_strip_nulls(jsonb_build_object('role', NEW.role, 'kinds', NEW.kinds, 'payloads', NEW.payloads, 'expiresAt', NEW.expires_at)), 0);
  ELSIF TG_OP = 'DELETE' OR OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL THEN
    INSERT INTO waybill.audit_log (who, what, target, tenant, jobs)
    VALUES (waybill.who(), 'token-revoke', OLD.id || ' ' || OLD.name, OLD.tenant, 0);
  ELSIF waybill.changed(to_jsonb(OLD) - 'hash', to_jsonb(NEW) - '{hash,last_used_at}'::text[]) IS NOT NULL OR OLD.hash <> NEW.hash THEN
    INSERT INTO waybill.audit_log (who, what, target, tenant, filter, jobs)
    VALUES (waybill.who(), 'token-change', NEW.id || ' ' || NEW.name, NEW.tenant,
      jsonb_build_object('changed', waybill.changed(to_jsonb(OLD) - 'hash', to_jsonb(NEW) - '{hash,last_used_at}'::text[])), 0);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER tokens_log AFTER INSERT OR UPDATE OR DELETE ON waybill.tokens FOR EACH ROW EXECUTE FUNCTION waybill.tokens_log();

-- How long a line of the audit log stays. Nothing younger can be deleted by anybody, so it may be made longer, and shorter down to a month.
ALTER TABLE waybill.limits ADD COLUMN audit_retention interval NOT NULL DEFAULT '365 days' CHECK (audit_retention >= interval '30 days');

DROP TRIGGER audit_log_stays ON waybill.audit_log;
CREATE TRIGGER audit_log_stays BEFORE UPDATE OR TRUNCATE ON waybill.audit_log
FOR EACH STATEMENT EXECUTE FUNCTION waybill.audit_log_stays();
ALTER TABLE waybill.audit_log ENABLE ALWAYS TRIGGER audit_log_stays;

CREATE FUNCTION waybill.audit_log_ages() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.at > now() - (SELECT l.audit_retention FROM waybill.limits l) THEN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = '42501', HINT = 'A line stays until it is older than limits.audit_retention.';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER audit_log_ages BEFORE DELETE ON waybill.audit_log FOR EACH ROW EXECUTE FUNCTION waybill.audit_log_ages();
ALTER TABLE waybill.audit_log ENABLE ALWAYS TRIGGER audit_log_ages;

-- Deletes what is past its time, a bounded number of lines, and says so in the log itself. How many.
CREATE FUNCTION waybill.forget_audit(lines_max integer DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  gone bigint;
  last_at timestamptz;
BEGIN
  IF NOT pg_try_advisory_xact_lock(7733810, 6) THEN
    RETURN 0;
  END IF;
  -- Lines come in the order of their ids, but for transactions that were under way together: the head is where the old ones are, and mostly
  -- there are none.
  IF NOT EXISTS (SELECT FROM (SELECT b.at FROM waybill.audit_log b ORDER BY b.id LIMIT 100) head
      WHERE head.at < now() - (SELECT l.audit_retention FROM waybill.limits l)) THEN
    RETURN 0;
  END IF;
  WITH old AS (
    SELECT a.id FROM (SELECT b.id, b.at FROM waybill.audit_log b ORDER BY b.id LIMIT lines_max) a
    WHERE a.at < now() - (SELECT l.audit_retention FROM waybill.limits l)
  ), deleted AS (
    DELETE FROM waybill.audit_log a USING old WHERE a.id = old.id RETURNING a.at
  )
  SELECT count(*), max(at) INTO gone, last_at FROM deleted;
  IF gone > 0 THEN
    INSERT INTO waybill.audit_log (who, what, filter, jobs)
    VALUES ('retention', 'audit-forget', jsonb_build_object('lines', gone, 'until', last_at), 0);
  END IF;
  RETURN gone;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA waybill FROM PUBLIC;
