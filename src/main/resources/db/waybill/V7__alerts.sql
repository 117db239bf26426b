-- Alerts on dead letters: what was told of which growth, and what is still to be sent. docs/decisions/0042 says why.

-- How many dead letters each group had, so that growth can be told from what was there before. Two marks half a window apart: growth is
-- measured against the older one, so a sudden one is seen wherever it lies. A group that rests has one row that nobody writes.
CREATE TABLE waybill.dead_watch (
  kind        text NOT NULL,
  fingerprint text NOT NULL,
  base        bigint NOT NULL, -- half a window ago to a whole one; or when they were told of
  next        bigint NOT NULL, -- the base to come
  turned_at   timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, fingerprint)
) WITH (fillfactor = 70);
-- Those that are there by now are nobody's news.
INSERT INTO waybill.dead_watch (kind, fingerprint, base, next)
SELECT c.kind, c.fingerprint, sum(c.n), sum(c.n)
FROM (SELECT kind, fingerprint, n FROM waybill.dead_counts UNION ALL SELECT kind, fingerprint, n FROM waybill.dead_moves) c
GROUP BY c.kind, c.fingerprint HAVING sum(c.n) > 0;

-- What was, is or will be told. A row is written in the transaction that moves the marks, so the same growth makes one row. It is claimed
-- before it is sent.
CREATE TABLE waybill.dead_alerts (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  what       text NOT NULL CHECK (what IN ('growth', 'daily')),
  day        date,
  created_at timestamptz NOT NULL DEFAULT now(),
  told       jsonb NOT NULL,
  -- none: there is nothing to send. open: to be sent. sending: by a process, since claimed_at. unknown: nobody knows whether it arrived.
  state      text NOT NULL CHECK (state IN ('none', 'open', 'sending', 'sent', 'failed', 'unknown')),
  attempts   smallint NOT NULL DEFAULT 0,
  next_at    timestamptz NOT NULL DEFAULT now(),
  claimed_at timestamptz
);
CREATE UNIQUE INDEX dead_alerts_day ON waybill.dead_alerts (day) WHERE what = 'daily';
CREATE INDEX dead_alerts_open ON waybill.dead_alerts (state, next_at) WHERE state IN ('open', 'sending');
-- The first daily one is tomorrow's.
INSERT INTO waybill.dead_alerts (what, day, told, state) VALUES ('daily', (now() AT TIME ZONE 'UTC')::date, '{}', 'none');

-- The groups of some kinds, those that grew most first, five a kind; with the youngest letter of each as an example. No error text: it comes
-- from handlers, and may hold what a payload held.
CREATE FUNCTION waybill.told_groups(of_kind text, fingerprints text[], deads bigint[], growns bigint[]) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_agg(jsonb_build_object('fingerprint', g.fingerprint, 'dead', g.dead, 'grown', g.grown, 'sampleId',
    (SELECT d.id FROM waybill.jobs_dead d WHERE d.kind = of_kind AND d.fingerprint = g.fingerprint
      ORDER BY d.finished_at DESC, d.id DESC LIMIT 1)) ORDER BY g.n)
  FROM (
    SELECT u.fingerprint, u.dead, u.grown, row_number() OVER (ORDER BY u.grown DESC, u.dead DESC, u.fingerprint) AS n
    FROM unnest(fingerprints, deads, growns) AS u(fingerprint, dead, grown)
  ) g WHERE g.n <= 5
$$;

-- One look at all groups, by one process at a time; answers the alerts to be logged: new ones, those of which nobody knows any more
-- whether they arrived, and those that are too old to be sent. Costs a row a group, however many dead letters there are.
CREATE FUNCTION waybill.watch_dead(threshold bigint, half_window interval, daily_at time, webhook boolean)
RETURNS SETOF waybill.dead_alerts LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  IF NOT pg_try_advisory_xact_lock(7733810, 42) THEN
    RETURN;
  END IF;

  RETURN QUERY
  WITH counted AS MATERIALIZED (
    SELECT c.kind, c.fingerprint, sum(c.n)::bigint AS n
    FROM (SELECT kind, fingerprint, n FROM waybill.dead_counts UNION ALL SELECT kind, fingerprint, n FROM waybill.dead_moves) c
    GROUP BY c.kind, c.fingerprint HAVING sum(c.n) > 0
  ), seen AS MATERIALIZED (
    -- Letters that left lower the marks: if they come again, that is growth again.
    SELECT kind, fingerprint, coalesce(c.n, 0) AS n, least(coalesce(w.base, 0), coalesce(c.n, 0)) AS base,
      least(coalesce(w.next, 0), coalesce(c.n, 0)) AS next, coalesce(w.turned_at, now()) AS turned_at,
      coalesce(w.turned_at < now() - half_window, false) AS turns
    FROM counted c FULL JOIN waybill.dead_watch w USING (kind, fingerprint)
    WHERE c.n IS DISTINCT FROM w.base OR c.n IS DISTINCT FROM w.next
  ), grown AS MATERIALIZED (
    SELECT s.kind, sum(s.n - s.base)::bigint AS grown, array_agg(s.fingerprint) FILTER (WHERE s.n > s.base) AS fingerprints,
      array_agg(s.n) FILTER (WHERE s.n > s.base) AS deads, array_agg(s.n - s.base) FILTER (WHERE s.n > s.base) AS growns
    FROM seen s GROUP BY s.kind HAVING threshold > 0 AND sum(s.n - s.base) >= threshold
  ), gone AS (
    DELETE FROM waybill.dead_watch w USING seen s WHERE w.kind = s.kind AND w.fingerprint = s.fingerprint AND s.n = 0
  ), marked AS (
    INSERT INTO waybill.dead_watch AS w (kind, fingerprint, base, next, turned_at)
    SELECT s.kind, s.fingerprint, CASE WHEN g.kind IS NOT NULL THEN s.n WHEN s.turns THEN s.next ELSE s.base END,
      CASE WHEN g.kind IS NOT NULL OR s.turns THEN s.n ELSE s.next END,
      CASE WHEN g.kind IS NOT NULL OR s.turns THEN now() ELSE s.turned_at END
    FROM seen s LEFT JOIN grown g ON g.kind = s.kind WHERE s.n > 0
    ON CONFLICT (kind, fingerprint) DO UPDATE SET base = excluded.base, next = excluded.next, turned_at = excluded.turned_at
    WHERE (w.base, w.next, w.turned_at) IS DISTINCT FROM (excluded.base, excluded.next, excluded.turned_at)
  ), told AS (
    SELECT jsonb_build_object('kind', g.kind, 'grown', g.grown, 'dead', (SELECT sum(c.n) FROM counted c WHERE c.kind = g.kind),
      'groups', waybill.told_groups(g.kind, g.fingerprints, g.deads, g.growns)) AS kind, g.grown
    FROM grown g
  )
  INSERT INTO waybill.dead_alerts (what, told, state)
  SELECT 'growth', jsonb_build_object('windowSeconds', extract(epoch FROM 2 * half_window)::bigint, 'kinds', jsonb_agg(t.kind ORDER BY t.grown DESC)),
    CASE WHEN webhook THEN 'open' ELSE 'none' END
  FROM told t HAVING count(*) > 0
  RETURNING *;

  IF daily_at <= (now() AT TIME ZONE 'UTC')::time
      AND NOT EXISTS (SELECT FROM waybill.dead_alerts a WHERE a.what = 'daily' AND a.day = today) THEN
    RETURN QUERY
    WITH counted AS MATERIALIZED (
      SELECT c.kind, c.fingerprint, sum(c.n)::bigint AS n
      FROM (SELECT kind, fingerprint, n FROM waybill.dead_counts UNION ALL SELECT kind, fingerprint, n FROM waybill.dead_moves) c
      GROUP BY c.kind, c.fingerprint HAVING sum(c.n) > 0
    ), died AS (
      SELECT t.kind, sum(t.n)::bigint AS n FROM waybill.tally t
      WHERE t.what = 'died' AND t.slot > now() - interval '24 hours' GROUP BY t.kind
    ), kinds AS (
      SELECT kind, coalesce(c.dead, 0) AS dead, coalesce(d.n, 0) AS grown, c.fingerprints, c.deads
      FROM (SELECT kind, sum(n)::bigint AS dead, array_agg(fingerprint) AS fingerprints, array_agg(n) AS deads FROM counted GROUP BY kind) c
        FULL JOIN died d USING (kind)
    ), told AS (
      SELECT jsonb_agg(jsonb_build_object('kind', k.kind, 'grown', k.grown, 'dead', k.dead, 'groups',
        coalesce(waybill.told_groups(k.kind, k.fingerprints, k.deads, array_fill(0::bigint, ARRAY[cardinality(k.deads)])), '[]'))
        ORDER BY k.grown DESC, k.dead DESC, k.kind) AS kinds
      FROM kinds k
    )
    INSERT INTO waybill.dead_alerts (what, day, told, state)
    SELECT 'daily', today, jsonb_build_object('kinds', coalesce(t.kinds, '[]')), CASE WHEN webhook AND t.kinds IS NOT NULL THEN 'open' ELSE 'none' END
    FROM told t
    ON CONFLICT (day) WHERE what = 'daily' DO NOTHING
    RETURNING *;
    DELETE FROM waybill.dead_alerts a WHERE a.created_at < now() - interval '90 days' AND a.state NOT IN ('open', 'sending');
  END IF;

  -- Left open by somebody who had a webhook, or by a service that was down: after a day it is no news any more. Who has none any more is not
  -- told of it.
  IF webhook THEN
    RETURN QUERY
    UPDATE waybill.dead_alerts a SET state = 'failed' WHERE a.state = 'open' AND a.created_at < now() - interval '1 day' RETURNING a.*;
  ELSE
    UPDATE waybill.dead_alerts a SET state = 'none' WHERE a.state = 'open' AND a.created_at < now() - interval '1 day';
  END IF;

  -- Whoever claimed it did not come back. Perhaps it had arrived, so it is not sent again.
  RETURN QUERY
  UPDATE waybill.dead_alerts a SET state = 'unknown' WHERE a.state = 'sending' AND a.claimed_at < now() - interval '5 minutes' RETURNING a.*;
END $$;

REVOKE ALL ON FUNCTION waybill.told_groups(text, text[], bigint[], bigint[]), waybill.watch_dead(bigint, interval, time, boolean) FROM PUBLIC;
