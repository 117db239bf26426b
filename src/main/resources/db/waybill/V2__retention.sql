-- Retention and archive. docs/retention.md says what is kept how long; docs/decisions/0020-leaving-partitions.md why it goes like this.

-- Whose turn it is to do what one process should do at a time. A lease by the database's clock and not an advisory lock of a session:
-- behind PgBouncer in transaction mode such a lock would stay with a server connection that nobody owns. Two holders at once (one was
-- frozen past its lease) cost work, not correctness: each step below is safe beside itself.
CREATE TABLE waybill.turns (
  name   text PRIMARY KEY,
  holder text NOT NULL,
  until  timestamptz NOT NULL
) WITH (fillfactor = 20);

-- Partitions of jobs_done on their way out, with the jobs in them by kind. They let nobody change them any more, so the figures stay true.
CREATE TABLE waybill.leaving (
  partition  regclass PRIMARY KEY,
  name       text NOT NULL,
  jobs       jsonb, -- {"kind": n}; NULL: not counted yet
  counted_by xid8   -- the transaction that wrote the figures: a snapshot older than that does not know of them
);

-- What was written to cold storage, and where. Stays when the partition is gone.
CREATE TABLE waybill.archives (
  partition   oid NOT NULL,
  name        text NOT NULL,
  kind        text NOT NULL,
  jobs        bigint NOT NULL,
  object      text, -- NULL: there was nothing to write
  archived_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (partition, kind)
);

-- Kinds of which a past day holds no expired job any more, so that the day is not read again and again.
CREATE TABLE waybill.swept (
  partition oid NOT NULL,
  kind      text NOT NULL,
  PRIMARY KEY (partition, kind)
);

CREATE FUNCTION waybill.done_partitions() RETURNS TABLE (
  partition regclass, name text, begins timestamptz, ends timestamptz, detaching boolean
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT i.inhrelid::regclass, c.relname::text, substring(b.bounds, 'FROM \(''([^'']+)''\)')::timestamptz,
    substring(b.bounds, 'TO \(''([^'']+)''\)')::timestamptz, i.inhdetachpending
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN LATERAL pg_get_expr(c.relpartbound, c.oid) AS b(bounds)
  WHERE i.inhparent = 'waybill.jobs_done'::regclass
$$;

-- Looks to the one who settles like a day without a partition (no constraint is named): he tries again, in a new transaction, which
-- belongs to another day.
CREATE FUNCTION waybill.refuse_late() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% is closed', TG_TABLE_NAME USING ERRCODE = '23514', HINT = 'This transaction began on a day that is past.';
END $$;

-- A past day takes no more jobs: what is read of it from now on is all there will be. The lock waits for, and keeps out, those only who
-- write into this very partition; readers do not notice it, and nobody writes into a past day.
-- By the owner's right, like the two below, and so for days of jobs_done alone: the service need not own what it does this to.
CREATE FUNCTION waybill.close_partition(partition regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = partition AND i.inhparent = 'waybill.jobs_done'::regclass)
      AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = partition AND t.tgname = 'closed') THEN
    EXECUTE format('CREATE OR REPLACE TRIGGER closed BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION waybill.refuse_late()', partition);
  END IF;
END $$;

-- On its way out: nothing is deleted from it one by one any more either, so that it can be counted without a snapshot held all the while.
-- (No row of pg_inherits: it is detached, or an administrator has dropped it.)
CREATE FUNCTION waybill.freeze_partition(partition regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.close_partition(partition);
  IF EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = partition AND i.inhparent = 'waybill.jobs_done'::regclass)
      AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = partition AND t.tgname = 'frozen') THEN
    EXECUTE format('CREATE OR REPLACE TRIGGER frozen BEFORE DELETE ON %s FOR EACH ROW EXECUTE FUNCTION waybill.refuse_late()', partition);
  END IF;
  INSERT INTO waybill.leaving (partition, name) SELECT c.oid::regclass, c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhrelid = partition AND i.inhparent = 'waybill.jobs_done'::regclass
  ON CONFLICT DO NOTHING;
END $$;

-- The jobs of some blocks of a partition, by kind.
CREATE FUNCTION waybill.count_page(partition regclass, first bigint, last bigint) RETURNS TABLE (kind text, n bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY EXECUTE format('SELECT d.kind, count(*) FROM %s d WHERE d.ctid >= $1 AND d.ctid < $2 GROUP BY d.kind', partition)
    USING format('(%s,0)', first)::tid, format('(%s,0)', last)::tid;
END $$;

-- The jobs of one kind in some blocks of a partition, one JSON object each.
CREATE FUNCTION waybill.archive_page(partition regclass, first bigint, last bigint, kind text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
  RETURN QUERY EXECUTE format('SELECT row_to_json(d)::text FROM %s d WHERE d.ctid >= $1 AND d.ctid < $2 AND d.kind = $3', partition)
    USING format('(%s,0)', first)::tid, format('(%s,0)', last)::tid, kind;
END $$;

-- Deletes what expired in some blocks of a partition, and counts it in the same transaction.
CREATE FUNCTION waybill.purge_page(
  partition regclass, first bigint, last bigint, kinds text[], before timestamptz[]
) RETURNS TABLE (kind text, n bigint) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY EXECUTE format($sql$
    WITH gone AS (
      DELETE FROM %s d USING unnest($3, $4) AS e(kind, before)
      WHERE d.ctid >= $1 AND d.ctid < $2 AND d.kind = e.kind AND d.finished_at < e.before
      RETURNING d.kind
    ), sums AS MATERIALIZED (
      SELECT g.kind, count(*) AS n FROM gone g GROUP BY g.kind
    ), counted AS (
      INSERT INTO waybill.tally (kind, what, n) SELECT s.kind, 'purged', s.n FROM sums s
    )
    SELECT s.kind, s.n FROM sums s
    $sql$, partition)
    USING format('(%s,0)', first)::tid, format('(%s,0)', last)::tid, kinds, before;
END $$;

-- The end of a detached partition. Its figures go from leaving to the tally in the transaction that drops it, so that each of its jobs is
-- counted once in every snapshot: as present before, as purged after. Answers what was purged.
CREATE FUNCTION waybill.drop_left(left_partition regclass) RETURNS TABLE (kind text, n bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  gone waybill.leaving%ROWTYPE;
BEGIN
  DELETE FROM waybill.leaving l WHERE l.partition = left_partition AND l.jobs IS NOT NULL RETURNING l.* INTO gone;
  IF NOT FOUND THEN
    RETURN; -- Another process was here.
  END IF;
  IF EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = left_partition) THEN
    RAISE EXCEPTION '% is still attached', gone.name USING ERRCODE = '55000';
  END IF;
  -- By name only while it still is the same table, and only a day: whoever may write into leaving may not have any table dropped by it.
  IF gone.name ~ '^jobs_done_[0-9]{8}$' AND to_regclass(format('waybill.%I', gone.name)) = left_partition THEN
    EXECUTE format('DROP TABLE waybill.%I', gone.name);
  END IF;
  DELETE FROM waybill.swept s WHERE s.partition = left_partition;
  INSERT INTO waybill.tally (kind, what, n) SELECT j.key, 'purged', j.value::bigint FROM jsonb_each_text(gone.jobs) j;
  RETURN QUERY SELECT j.key, j.value::bigint FROM jsonb_each_text(gone.jobs) j;
END $$;

-- Guarantees 2 and 6 in one snapshot, on any primary at any time: no row says "broken", or something is.
-- After a crash of the server, until Recount was there, enqueued may be too few, never too many.
-- A leaving partition counts by its figures, whether this snapshot still reaches it through jobs_done or not.
CREATE FUNCTION waybill.audit() RETURNS TABLE (guarantee text, ok boolean, detail text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH place AS MATERIALIZED (
    SELECT id, kind, state, 'jobs' AS place, 0::oid AS part FROM waybill.jobs
    UNION ALL SELECT id, kind, state, tableoid::regclass::text, tableoid FROM waybill.jobs_done
    UNION ALL SELECT id, kind, 'dead', 'jobs_dead', 0 FROM waybill.jobs_dead
  ), counted AS (
    SELECT kind, sum(present) AS present, sum(live) AS live, sum(scheduled) AS scheduled, sum(dead) AS dead
    FROM (
      SELECT kind, count(*) AS present, count(*) FILTER (WHERE place = 'jobs') AS live,
        count(*) FILTER (WHERE place = 'jobs' AND state = 'scheduled') AS scheduled, count(*) FILTER (WHERE place = 'jobs_dead') AS dead
      FROM place WHERE part NOT IN (SELECT l.partition::oid FROM waybill.leaving l WHERE l.jobs IS NOT NULL) GROUP BY kind
      UNION ALL SELECT j.key, j.value::bigint, 0, 0, 0 FROM waybill.leaving l CROSS JOIN LATERAL jsonb_each_text(l.jobs) j
    ) AS part_of
    GROUP BY kind
  ), tallied AS (
    SELECT kind, coalesce(sum(n) FILTER (WHERE what IN ('enqueued', 'recounted')), 0) AS enqueued,
      coalesce(sum(n) FILTER (WHERE what = 'recounted'), 0) AS recounted,
      coalesce(sum(n) FILTER (WHERE what = 'purged'), 0) AS purged,
      sum(live) AS live,
      coalesce(sum(n) FILTER (WHERE what IN ('scheduled', 'retried')), 0) AS scheduled,
      coalesce(sum(CASE WHEN what = 'died' THEN n WHEN what IN ('revived', 'dropped') THEN -n END), 0) AS dead
    FROM waybill.counts GROUP BY kind
  ), whole AS (
    SELECT EXISTS (SELECT FROM waybill.arrivals_whole) AS arrivals
  )
  SELECT '2: enqueued = present + purged, kind ' || coalesce(t.kind, c.kind),
    CASE WHEN (SELECT arrivals FROM whole) THEN coalesce(t.enqueued, 0) = coalesce(c.present, 0) + coalesce(t.purged, 0)
      ELSE coalesce(t.enqueued, 0) <= coalesce(c.present, 0) + coalesce(t.purged, 0) END,
    format('enqueued %s%s, present %s, purged %s', coalesce(t.enqueued, 0),
      CASE WHEN t.recounted > 0 THEN format(' (%s of them counted again after a crash)', t.recounted) END, coalesce(c.present, 0),
      coalesce(t.purged, 0))
  FROM tallied t FULL JOIN counted c ON c.kind = t.kind
  UNION ALL
  SELECT '2: figures as counted, kind ' || kind, false, format('%s is no word of the tally', what)
  FROM waybill.tally
  WHERE what NOT IN ('enqueued', 'recounted', 'purged', 'scheduled', 'done', 'died', 'cancelled', 'retried', 'returned', 'crashed', 'interrupted',
    'revived', 'dropped')
  UNION ALL
  SELECT '2: figures as counted, kind ' || coalesce(t.kind, c.kind), false,
    format('live %s, counted %s; scheduled %s, counted %s; dead %s, counted %s', t.live, c.live, t.scheduled, c.scheduled, t.dead, c.dead)
  FROM tallied t FULL JOIN counted c ON c.kind = t.kind
  WHERE (coalesce(t.live, 0), coalesce(t.scheduled, 0), coalesce(t.dead, 0))
      <> (coalesce(c.live, 0), coalesce(c.scheduled, 0), coalesce(c.dead, 0))
    AND ((SELECT arrivals FROM whole) OR coalesce(t.live, 0) > coalesce(c.live, 0)
      OR (coalesce(t.scheduled, 0), coalesce(t.dead, 0)) <> (coalesce(c.scheduled, 0), coalesce(c.dead, 0)))
  UNION ALL
  SELECT '6: each job in one place', false, format('job %s is in %s', id, string_agg(place, ', '))
  FROM place GROUP BY id HAVING count(*) > 1
  UNION ALL
  SELECT '4: attempts within their limit', false, format('job %s: attempt %s of %s', id, attempt, max_attempts)
  FROM waybill.jobs WHERE attempt > max_attempts
  UNION ALL
  SELECT '5: a running job has token, worker and lease, no other has a token', false, format('job %s is %s', id, state)
  FROM waybill.jobs WHERE (state = 'running') <> (token IS NOT NULL AND worker IS NOT NULL AND lease_until IS NOT NULL)
  UNION ALL
  SELECT '5: a running job is in waybill.claims with its kind, once', false, format('job %s is in %s', j.id, coalesce(r.times, 0))
  FROM waybill.jobs j LEFT JOIN (SELECT id, count(*) AS times FROM waybill.running WHERE kind = ANY (kinds_of_claim) GROUP BY id) r ON r.id = j.id
  WHERE j.state = 'running' AND r.times IS DISTINCT FROM 1
  UNION ALL
  SELECT '2: due says what state says', false, format('job %s is %s, due is %s', id, state, due)
  FROM waybill.jobs WHERE due <> (state <> 'scheduled')
$$;

REVOKE ALL ON FUNCTION waybill.done_partitions(), waybill.refuse_late(), waybill.close_partition(regclass), waybill.freeze_partition(regclass),
  waybill.count_page(regclass, bigint, bigint), waybill.archive_page(regclass, bigint, bigint, text),
  waybill.purge_page(regclass, bigint, bigint, text[], timestamptz[]), waybill.drop_left(regclass), waybill.audit() FROM PUBLIC;
