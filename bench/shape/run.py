#!/usr/bin/env python3
"""Measures the shape of waybill.jobs. See README.md. Everything lives in schema waybill_shape, which is dropped at the end."""
import hashlib, json, os, re, statistics, subprocess, sys, tempfile, time, uuid
from collections import deque
from pgwire import Pg, PgError

OUT = os.environ.get("SHAPE_OUT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "results.json"))
SCALE = float(os.environ.get("SHAPE_SCALE", "1"))
ROUNDS = int(os.environ.get("SHAPE_ROUNDS", "2"))
PARTS = (sys.argv[1:] or ["shape", "head", "fair", "held", "plans", "flip", "race", "insert"])
PAYLOAD = '{"to":"someone.%s@example.com","subject":"Your order has shipped","template":"order-shipped","locale":"en","order":%s,"lines":[{"sku":"AB-1001","qty":2},{"sku":"CD-2002","qty":1}],"note":"leave at the door"}'
R = {}


def conn():
    c = Pg()
    c.q("SET search_path = waybill_shape; SET synchronous_commit = on; SET jit = off")
    return c


def us(x, n):
    return None if x is None else round(x * 1e6 / n, 2)


def arr(xs):
    return "{" + ",".join(str(x) for x in xs) + "}"


COLS = """id bigint GENERATED ALWAYS AS IDENTITY, run_at timestamptz NOT NULL DEFAULT now(), created_at timestamptz NOT NULL DEFAULT now(),
 started_at timestamptz, lease_until timestamptz, token uuid, priority smallint NOT NULL DEFAULT 0, attempt smallint NOT NULL DEFAULT 0,
 max_attempts smallint, state text NOT NULL DEFAULT 'ready', kind text NOT NULL, tenant text NOT NULL DEFAULT '', worker text,
 dedupe_key text, tags text[]%s, last_error text, history jsonb"""
CLAIM_IDX = "(kind, tenant, priority, run_at, id)"


def make(c, v):
    """v: ff, hot (claim index without state), running (index), narrow (payload in bodies)"""
    payload = "" if v.get("narrow") else ", payload jsonb NOT NULL"
    c.q("DROP SCHEMA IF EXISTS waybill_shape CASCADE; CREATE SCHEMA waybill_shape")
    c.q(f"CREATE TABLE jobs ({COLS % payload}) WITH (fillfactor={v.get('ff', 100)}, autovacuum_enabled=off)")
    c.q("ALTER TABLE jobs ADD CONSTRAINT jobs_pk PRIMARY KEY (id)")
    c.q("CREATE UNIQUE INDEX jobs_dedupe ON jobs (kind, dedupe_key) WHERE dedupe_key IS NOT NULL")
    c.q(f"CREATE INDEX jobs_claim ON jobs {CLAIM_IDX}" + ("" if v.get("hot") else " WHERE state = 'ready'"))
    if v.get("running"):
        c.q(f"CREATE INDEX jobs_running ON jobs {'(id)' if v['running'] == 'id' else '(kind, tenant)'} WHERE state = 'running'")
    done = COLS.replace("GENERATED ALWAYS AS IDENTITY", "NOT NULL") % payload
    c.q(f"CREATE TABLE jobs_done ({done}, finished_at timestamptz NOT NULL, result jsonb) PARTITION BY RANGE (finished_at)")
    for d in (-1, 0, 1):
        c.q(f"""DO $$ BEGIN EXECUTE format('CREATE TABLE jobs_done_p{d + 1} PARTITION OF jobs_done FOR VALUES FROM (%L) TO (%L) WITH (autovacuum_enabled=off)',
          current_date + ({d}), current_date + ({d + 1})); END $$""")
    c.q("CREATE INDEX ON jobs_done (id)")
    if v.get("narrow"):
        c.q("CREATE TABLE bodies (id bigint PRIMARY KEY, payload jsonb NOT NULL) WITH (autovacuum_enabled=off)")
        c.q("CREATE VIEW jobs_v AS SELECT j.*, b.payload FROM jobs j JOIN bodies b USING (id)")
        c.q("""CREATE FUNCTION jobs_v_ins() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO waybill_shape.jobs (kind, tenant, priority, run_at, dedupe_key)
          VALUES (NEW.kind, coalesce(NEW.tenant, ''), coalesce(NEW.priority, 0), coalesce(NEW.run_at, now()), NEW.dedupe_key) RETURNING id INTO NEW.id;
          INSERT INTO waybill_shape.bodies VALUES (NEW.id, NEW.payload); RETURN NEW; END $$""")
        c.q("CREATE TRIGGER t INSTEAD OF INSERT ON jobs_v FOR EACH ROW EXECUTE FUNCTION jobs_v_ins()")


def single_sql(v):
    return f"INSERT INTO {'jobs_v' if v.get('narrow') else 'jobs'} (kind, tenant, payload) VALUES ('email', $1, $2)"


def bulk_sql(v, tenants="10"):
    pad = v.get("pad", "")
    src = f"""SELECT 't' || g % {tenants} AS tenant, format('{PAYLOAD.replace("door", "door" + pad)}', g, g)::jsonb AS payload,
      CASE WHEN g % 10 = 0 THEN 'order-' || g END AS dk FROM generate_series($1::bigint, $2::bigint) g"""
    if v.get("narrow"):
        return f"""WITH s AS MATERIALIZED (SELECT nextval('jobs_id_seq') AS id, s.* FROM ({src}) s),
          i AS (INSERT INTO jobs (id, kind, tenant, dedupe_key) OVERRIDING SYSTEM VALUE SELECT id, 'email', tenant, dk FROM s)
          INSERT INTO bodies SELECT id, payload FROM s"""
    return f"INSERT INTO jobs (kind, tenant, payload, dedupe_key) SELECT 'email', s.tenant, s.payload, s.dk FROM ({src}) s"


HEADS = """SELECT h.* FROM unnest($1::text[], $2::text[], $3::smallint[], $4::timestamptz[], $5::bigint[])
      WITH ORDINALITY AS lane(kind, tenant, priority, low_run_at, low_id, ord)
    CROSS JOIN LATERAL (
      SELECT j.id, j.ctid AS tid FROM jobs j
       WHERE j.state = 'ready' AND j.kind = lane.kind AND j.tenant = lane.tenant AND j.priority = lane.priority
         AND (j.run_at, j.id) >= (lane.low_run_at, lane.low_id) AND j.run_at <= now()
       ORDER BY j.run_at, j.id LIMIT $6 FOR NO KEY UPDATE SKIP LOCKED) h
    LIMIT $7"""
SETS = """SET state = 'running', attempt = j.attempt + 1, started_at = now(), lease_until = now() + $8::interval,
       token = gen_random_uuid(), worker = $9"""
RET = "RETURNING j.id, j.token, j.kind, j.tenant, j.priority, j.attempt, j.max_attempts, j.lease_until, j.created_at, j.run_at, j.tags"


def claim_sql(v, form="ctid_any", heads=HEADS):
    cte = f"WITH due AS MATERIALIZED (\n    {heads})\n"
    ret = RET + (", b.payload" if v.get("narrow") else ", j.payload")
    if v.get("narrow"):
        return cte + f"UPDATE jobs j {SETS} FROM due, bodies b WHERE j.ctid = due.tid AND b.id = due.id {ret}"
    if form == "batch_token":   # one token for the whole batch
        return cte + f"UPDATE jobs j {SETS.replace('gen_random_uuid()', '(SELECT gen_random_uuid())')} WHERE j.ctid = ANY (ARRAY(SELECT tid FROM due)) {ret}"
    if form == "ctid_any":
        return cte + f"UPDATE jobs j {SETS} WHERE j.ctid = ANY (ARRAY(SELECT tid FROM due)) {ret}"
    if form == "ctid_join":
        return cte + f"UPDATE jobs j {SETS} FROM due WHERE j.ctid = due.tid {ret}"
    if form == "id_any":
        return cte + f"UPDATE jobs j {SETS} WHERE j.id = ANY (ARRAY(SELECT id FROM due)) {ret}"
    if form == "id_in":
        return f"UPDATE jobs j {SETS} WHERE j.id IN (SELECT id FROM ({heads}) x) {ret}"
    return cte + f"UPDATE jobs j {SETS} FROM due WHERE j.id = due.id {ret}"


DCOLS = "id, run_at, created_at, started_at, lease_until, token, priority, attempt, max_attempts, kind, tenant, worker, dedupe_key, tags, last_error, history"


def settle_sql(v, form="unnest_tok"):
    cols = DCOLS + ("" if v.get("narrow") else ", payload")
    q = ", ".join("j." + x.strip() for x in cols.split(","))
    # 0 + 1 parameters: $1 ids, $2 tokens. The answer names the ids that were settled; the others lost their lease.
    if form == "unnest":
        d = f"""DELETE FROM jobs j USING unnest($1::bigint[], $2::uuid[]) AS s(id, token)
     WHERE j.id = s.id AND j.token = s.token AND j.state = 'running' RETURNING {q}"""
    elif form == "unnest_tok":   # no state predicate: the token is NULL unless running, so the token alone is the fence
        d = f"""DELETE FROM jobs j USING unnest($1::bigint[], $2::uuid[]) AS s(id, token)
     WHERE j.id = s.id AND j.token = s.token RETURNING {q}"""
    elif form == "unnest_any":   # the ANY bounds the scan of jobs whatever the join turns into; the join pairs id with token
        d = f"""DELETE FROM jobs j USING unnest($1::bigint[], $2::uuid[]) AS s(id, token)
     WHERE j.id = ANY ($1::bigint[]) AND j.id = s.id AND j.token = s.token RETURNING {q}"""
    elif form == "any_tok":
        d = f"""DELETE FROM jobs j WHERE j.id = ANY ($1::bigint[]) AND j.token = ANY ($2::uuid[]) RETURNING {q}"""
    elif form == "any":
        d = f"""DELETE FROM jobs j WHERE j.id = ANY ($1::bigint[]) AND j.token = ANY ($2::uuid[]) AND j.state = 'running' RETURNING {q}"""
    elif form == "any_pair":   # index scan by array, pair checked by position; result taken by position too
        d = f"""DELETE FROM jobs j WHERE j.id = ANY ($1::bigint[]) AND j.state = 'running'
      AND j.token = ($2::uuid[])[array_position($1::bigint[], j.id)] RETURNING {q}"""
    return f"""WITH gone AS (
    {d})
  INSERT INTO jobs_done ({cols}, state, finished_at)
  SELECT {cols}, 'done', now() FROM gone RETURNING id"""


SWEEP = """WITH RECURSIVE lane AS (
   (SELECT kind, tenant, priority, run_at, id FROM jobs WHERE state = 'ready'
     ORDER BY kind, tenant, priority, run_at, id LIMIT 1)
  UNION ALL
   SELECT n.* FROM lane l CROSS JOIN LATERAL (
     SELECT j.kind, j.tenant, j.priority, j.run_at, j.id FROM jobs j
      WHERE j.state = 'ready' AND (j.kind, j.tenant, j.priority) > (l.kind, l.tenant, l.priority)
      ORDER BY j.kind, j.tenant, j.priority, j.run_at, j.id LIMIT 1) n)
 SELECT kind, tenant, priority, run_at, id FROM lane"""


class Lanes:
    """the client's rotation over the lanes that the sweep found"""

    def __init__(self, rows):
        self.rows, self.at = rows, 0

    def take(self, n, q, low=True):
        k = min(len(self.rows), max(1, -(-n // q)) * 2)
        rs = [self.rows[(self.at + i) % len(self.rows)] for i in range(k)]
        self.at = (self.at + max(1, -(-n // q))) % len(self.rows)
        return (arr('"%s"' % r[0] for r in rs), arr('"%s"' % r[1] for r in rs), arr(r[2] for r in rs),
                arr('"%s"' % (r[3] if low else "-infinity") for r in rs), arr((r[4] if low else 0) for r in rs))


def life(v, batch, claim_form="ctid_any", settle_form="unnest_tok"):
    admin = conn()
    make(admin, v)
    E1, E2, C, S, V, M = conn(), conn(), conn(), conn(), conn(), conn()
    admin.q("CHECKPOINT")
    preload, singles, churn = int(20000 * SCALE), int(1000 * SCALE), max(5000, int(40000 * SCALE))
    E1.prepare("e", single_sql(v))
    E2.prepare("e", bulk_sql(v))
    C.prepare("c", claim_sql(v, claim_form))
    S.prepare("s", settle_sql(v, settle_form))
    wal, cpu0 = {}, {}

    def op(name, f):
        a = M.lsn()
        r = f()
        wal[name] = wal.get(name, 0) + M.lsn() - a
        return r

    c0 = E2.cpu()
    op("bulk", lambda: E2.x("e", 1, preload))
    bulk_cpu = None if c0 is None else E2.cpu() - c0
    admin.q("VACUUM ANALYZE jobs")
    cE = E1.cpu()

    def singles_run():
        for i in range(singles):
            E1.x("e", f"t{i % 10}", PAYLOAD.replace("door", "door" + v.get("pad", "")) % (i, i))
    op("single", singles_run)
    single_cpu = None if cE is None else E1.cpu() - cE
    c0, s0, v0, e0 = C.cpu(), S.cpu(), V.cpu(), E2.cpu()
    held, n_claimed, n_settled, nxt, k = deque(), 0, 0, preload + 1, 0
    lanes, since_vac, claim_ms, dead, dead_of = None, 0, [], 0, 0
    h0 = admin.q("SELECT pg_stat_force_next_flush()")
    while n_claimed < churn:
        if k % 20 == 0:
            lanes = Lanes(M.q(SWEEP))
        k += 1
        args = lanes.take(batch, batch // 10)
        t = time.perf_counter()
        rows = op("claim", lambda: C.x("c", *args, batch // 10, batch, "30s", "pod-7f9c4d-abcde/fast"))
        claim_ms.append((time.perf_counter() - t) * 1e3)
        assert len(rows) <= batch
        n_claimed += len(rows)
        held.append(rows)
        op("bulk2", lambda: E2.x("e", nxt, nxt + batch - 1))
        nxt += batch
        since_vac += len(rows)
        if len(held) > 4:
            rows = held.popleft()
            ids = op("settle", lambda: S.x("s", arr(r[0] for r in rows), arr(r[1] for r in rows)))
            assert len(ids) == len(rows), (len(ids), len(rows))
            n_settled += len(ids)
        if since_vac >= 10000 * SCALE:
            for c in (C, S):
                c.q("SELECT pg_stat_force_next_flush()")
            dead += int(admin.q("SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE schemaname='waybill_shape' AND relname IN ('jobs', 'bodies')")[0][0])
            dead_of += since_vac
            op("vacuum", lambda: V.q("VACUUM jobs"))
            since_vac = 0
    c1, s1, v1, e1 = C.cpu(), S.cpu(), V.cpu(), E2.cpu()
    for c in (C, S):
        c.q("SELECT pg_stat_force_next_flush()")
    st = admin.q("SELECT n_tup_upd, n_tup_hot_upd, n_dead_tup FROM pg_stat_user_tables WHERE schemaname='waybill_shape' AND relname='jobs'")[0]
    # what a reaper pays without / with an index for it
    rp = C.cpu()
    for _ in range(10):
        C.q("SELECT id FROM jobs WHERE state = 'running' AND lease_until < now() LIMIT 100")
    reap = None if rp is None else (C.cpu() - rp) / 10 * 1e6
    sz = dict(admin.q("""SELECT relname, pg_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
      WHERE nspname = 'waybill_shape' AND relname IN ('jobs','jobs_pk','jobs_claim','jobs_running','jobs_dedupe','bodies')"""))
    d = lambda a, b, n: None if a is None else us(b - a, n)
    res = dict(bulk_cpu=us(bulk_cpu, preload), bulk_wal=round(wal["bulk"] / preload), single_cpu=us(single_cpu, singles),
               single_wal=round(wal["single"] / singles), claim_cpu=d(c0, c1, n_claimed), claim_wal=round(wal["claim"] / n_claimed),
               settle_cpu=d(s0, s1, n_settled), settle_wal=round(wal["settle"] / n_settled), vacuum_cpu=d(v0, v1, n_claimed),
               vacuum_wal=round(wal.get("vacuum", 0) / n_claimed), claim_ms_p50=round(statistics.median(claim_ms), 2),
               steady_insert_cpu=d(e0, e1, nxt - preload - 1), hot_pct=round(100 * int(st[1]) / max(1, int(st[0])), 1),
               dead_tuples=round(dead / max(1, dead_of), 2), reaper_us=round(reap or 0), kB={k: int(x) // 1024 for k, x in sz.items()})
    for c in (E1, E2, C, S, V, M, admin):
        c.close()
    return res


def med(rs):
    o = {}
    for k in rs[0]:
        xs = [r[k] for r in rs]
        o[k] = xs[0] if isinstance(xs[0], dict) or xs[0] is None else round(statistics.median(xs), 2)
    for a, ks in (("life_cpu", ("steady_insert_cpu", "claim_cpu", "settle_cpu", "vacuum_cpu")), ("life_wal", ("bulk_wal", "claim_wal", "settle_wal", "vacuum_wal"))):
        o[a] = round(sum(o[k] or 0 for k in ks), 2)
    return o


VARIANTS = {
    "A ff100": dict(ff=100, running=1), "A ff70": dict(ff=70, running=1), "A ff50": dict(ff=50, running=1),
    "A-id ff50": dict(ff=50, running="id"),   # the running index on (id) instead of (kind, tenant)
    "A2 ff100": dict(ff=100), "A2 ff70": dict(ff=70), "A2 ff50": dict(ff=50),
    "B ff70": dict(ff=70, hot=1), "B ff50": dict(ff=50, hot=1),
    "C ff70": dict(ff=70, running=1, narrow=1),
}


def part_shape():
    todo = [(f"{n} / {b}", v, b, "ctid_any", "unnest_tok") for n, v in VARIANTS.items() for b in (100, 500)]
    a = VARIANTS["A ff70"]
    for b in (100, 500):
        for f in ("ctid_join", "id_any", "id_join", "batch_token"):
            todo.append((f"A ff70 / {b} claim {f}", a, b, f, "unnest_tok"))
        for f in ("unnest", "any", "any_pair", "any_tok", "unnest_any"):
            todo.append((f"A ff70 / {b} settle {f}", a, b, "ctid_any", f))
    pad = "".join(hashlib.sha256(bytes([i])).hexdigest() for i in range(22))
    for nm in ("A ff70", "A ff50", "B ff50", "C ff70"):
        todo.append((f"{nm} / 100, 1.6 kB payload", dict(VARIANTS[nm], pad=pad), 100, "ctid_any", "unnest_tok"))
    only = os.environ.get("SHAPE_ONLY")     # measure some lines again, for example SHAPE_ONLY="settle,A ff70 / 100"
    if only:
        todo = [t for t in todo if any(o == t[0] or o in t[0].split() for o in only.split(","))]
    out = {t[0]: [] for t in todo}
    for r in range(ROUNDS):
        for name, v, b, cf, sf in (todo if r % 2 == 0 else todo[::-1]):
            out[name].append(life(v, b, cf, sf))
            x = out[name][-1]
            print(r, name, {k: x[k] for k in ("bulk_cpu", "single_cpu", "claim_cpu", "settle_cpu", "vacuum_cpu", "claim_wal", "settle_wal", "vacuum_wal", "hot_pct", "dead_tuples")}, flush=True)
    R["shape" if not only else "shape_again"] = {k: med(x) for k, x in out.items()}


BEST = "A-id ff50"
PLAIN = """SELECT j.id, j.ctid AS tid FROM jobs j WHERE j.state = 'ready' AND j.kind = $1 AND j.run_at <= now()
    ORDER BY j.priority, j.run_at, j.id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED"""


def load(admin, rows, tenants, plain=False, v=None):
    make(admin, v or VARIANTS[BEST])
    admin.q("CHECKPOINT")     # before the load: no full-page images while measuring
    admin.q("DROP INDEX jobs_claim")
    if plain:
        admin.q("CREATE INDEX jobs_claim ON jobs (kind, priority, run_at, id) WHERE state = 'ready'")
    else:
        admin.q(f"CREATE INDEX jobs_claim ON jobs {CLAIM_IDX} WHERE state = 'ready'")
    admin.prepare(f"l{tenants}", bulk_sql({}, tenants))
    admin.x(f"l{tenants}", 1, rows)
    admin.q("VACUUM ANALYZE jobs")


def part_fair():
    out, sweeps = {}, {}
    rows = int(240000 * SCALE)
    for tenants in (0, 1, 100, 1000, 10000, -1):     # 0 and -1: the plain claim, first and last
        admin = conn()
        again, tenants = (" (again)", 0) if tenants < 0 else ("", tenants)
        load(admin, rows, tenants or 1000, plain=tenants == 0)
        M = conn()
        if tenants:
            M.prepare("w", SWEEP)
            ts, c0 = [], M.cpu()
            for _ in range(5):
                t = time.perf_counter()
                ln = M.x("w")
                ts.append((time.perf_counter() - t) * 1e3)
            c1 = M.cpu()
            sweeps[str(tenants)] = dict(lanes=len(ln), p50_ms=round(statistics.median(ts), 2), cpu_ms=None if c0 is None else round((c1 - c0) / 5 * 1e3, 2),
                                        us_per_lane=round(statistics.median(ts) * 1e3 / len(ln), 2))
        for n in (100, 500):
            qs = [0] if tenants == 0 else sorted({n if tenants == 1 else max(1, n // min(k, tenants)) for k in (n, n // 2, n // 5, n // 10, 10, 4)})
            for q in qs:
                if tenants > 1 and q * tenants * 2 > rows:
                    continue      # lanes too short for this quantum
                C, S = conn(), conn()
                if tenants == 0:
                    C.prepare("c", claim_sql({}, "ctid_any", PLAIN).replace("$8", "$3").replace("$9", "$4"))
                else:
                    C.prepare("c", claim_sql({}, "ctid_any"))
                    lanes = Lanes(M.q(SWEEP))
                    if not lanes.rows:
                        continue
                S.prepare("s", settle_sql({}))
                got, sizes, ms, c0, s0 = 0, [], [], C.cpu(), S.cpu()
                a, wal = None, 0
                for it in range(40 if n == 100 else 12):
                    if tenants and it % 4 == 3:
                        lanes.rows = M.q(SWEEP)
                    args = ("email", n) if tenants == 0 else (*lanes.take(n, q), q, n)
                    a = M.lsn()
                    t = time.perf_counter()
                    rs = C.x("c", *args, "30s", "pod-7f9c4d-abcde/fast")
                    ms.append((time.perf_counter() - t) * 1e3)
                    wal += M.lsn() - a
                    assert len(rs) <= n
                    got += len(rs)
                    sizes.append(len(rs))
                    S.x("s", arr(r[0] for r in rs), arr(r[1] for r in rs))
                c1, s1 = C.cpu(), S.cpu()
                key = ("plain global order, no lanes" + again if tenants == 0 else f"{tenants} tenants") + f" / {n}" + (f" q={q}" if q else "")
                out[key] = dict(claim_cpu=None if c0 is None else us(c1 - c0, got), settle_cpu=None if s0 is None else us(s1 - s0, got), claim_wal=round(wal / got),
                                p50_ms=round(statistics.median(ms), 2), mean_batch=round(statistics.mean(sizes), 1))
                print(key, out[key], flush=True)
                C.close(); S.close()
        M.close(); admin.close()
    R["fair"], R["sweep"] = out, sweeps
    print(sweeps)


def part_held():
    """one lane has 200k dead entries at its head, kept by another session's snapshot"""
    out = {}
    for tenants in (1, 100, 1000):
        admin = conn()
        rows = int(260000 * SCALE)
        load(admin, rows, tenants)
        # a big first tenant: move 200k rows into lane t0 (ids below the rest), then rebuild so that nothing is dead yet
        dead = int(200000 * SCALE)
        admin.q(f"UPDATE jobs SET tenant = 't0' WHERE id <= {dead}")
        admin.q("VACUUM (FULL, ANALYZE) jobs")
        H, C, M, S = conn(), conn(), conn(), conn()
        C.prepare("c", claim_sql({}, "ctid_any"))
        S.prepare("s", settle_sql({}))
        M.prepare("w", SWEEP)

        def sweep():
            c0, t = M.cpu(), time.perf_counter()
            r = M.x("w")
            return r, round((time.perf_counter() - t) * 1e3, 2)
        before = sweep()[1]
        H.q("BEGIN ISOLATION LEVEL REPEATABLE READ")
        H.q("SELECT count(*) FROM pg_class")
        admin.q(f"DELETE FROM jobs WHERE id <= {dead}")
        admin.q("VACUUM ANALYZE jobs")
        lanes, after = sweep()
        after = statistics.median([sweep()[1] for _ in range(5)])
        n, res = 100, {}
        for name, low in (("with low", True), ("without low", False)):
            q = n if tenants == 1 else 10
            ms, got, c0 = [], 0, C.cpu()
            rest = lanes[1:]
            for it in range(20):
                at = (it * 10 + (200 if low else 0)) % max(1, len(rest))
                L = Lanes(lanes[:1] + rest[at:] + rest[:at])          # always meet the bad lane
                t = time.perf_counter()
                rs = C.x("c", *L.take(n, q, low), q, n, "30s", "pod-7f9c4d-abcde/fast")
                ms.append((time.perf_counter() - t) * 1e3)
                got += len(rs)
                if rs:
                    S.x("s", arr(r[0] for r in rs), arr(r[1] for r in rs))
            c1 = C.cpu()
            res[name] = dict(p50_ms=round(statistics.median(ms), 2), max_ms=round(max(ms), 2), cpu_us_job=None if c0 is None else us(c1 - c0, got), jobs=got)
        # a sweep that starts each known lane from its previous low, plus the skip to unknown lanes
        H.q("COMMIT")
        t = time.perf_counter()
        admin.q("VACUUM jobs")
        res.update(sweep_ms_before=before, sweep_ms_dead=after, sweep_ms_after_release=sweep()[1], lanes=len(lanes))
        out[f"{tenants} tenants"] = res
        print("held", tenants, res, flush=True)
        for c in (H, C, M, S, admin):
            c.close()
    R["held"] = out


def part_head():
    """long-running jobs at the head of a lane: what claim and sweep pay when the claim index holds running rows too"""
    out = {}
    for nm in ("A-id ff50", "A2 ff50", "B ff50"):
        for running in (0, 1000, 10000):
            v = VARIANTS[nm]
            admin = conn()
            make(admin, v)
            admin.prepare("l", bulk_sql({}, 1))
            admin.x("l", 1, 60000)
            if running:
                admin.q(f"UPDATE jobs SET state='running', token=gen_random_uuid(), lease_until=now()+interval '1 hour' WHERE id <= {running}")
            admin.q("VACUUM ANALYZE jobs")
            C, M = conn(), conn()
            C.prepare("c", claim_sql({}))
            M.prepare("w", SWEEP)
            res = {}
            for name, low in (("no low", False), ("low", True)):
                ms, sw = [], []
                for _ in range(15):
                    t = time.perf_counter()
                    rows = M.x("w")
                    sw.append((time.perf_counter() - t) * 1e3)
                    a = Lanes(rows).take(100, 100, low)
                    t = time.perf_counter()
                    C.x("c", *a, 100, 100, "30s", "w")
                    ms.append((time.perf_counter() - t) * 1e3)
                res[name] = dict(claim_ms_p50=round(statistics.median(ms), 2), sweep_ms_p50=round(statistics.median(sw), 2))
            ts = []
            for _ in range(5):
                t = time.perf_counter()
                M.q("SELECT id FROM jobs WHERE state = 'running' AND lease_until < now() LIMIT 100")
                ts.append((time.perf_counter() - t) * 1e3)
            res["reaper_ms"] = round(statistics.median(ts), 2)
            out[f"{nm}, {running} running"] = res
            print("head", nm, running, res, flush=True)
            for c in (C, M, admin):
                c.close()
    R["head"] = out


def shape_of(plan):
    keep = re.findall(r"(?:->\s+)?((?:Parallel )?(?:Seq Scan|Index Scan|Index Only Scan|Bitmap Heap Scan|Tid Scan|Tid Range Scan|Hash Join|Hash Semi Join|Hash|Merge Join|Nested Loop|Sort|Incremental Sort|LockRows|Limit|Function Scan|HashAggregate|CTE Scan|Materialize|Memoize)(?: using \w+)?(?: on \w+)?)", plan)
    return " > ".join(k for k in keep)


def part_plans():
    out = {}
    c = conn()
    P9 = lambda n, q: "'{email}','{t0}','{0}','{-infinity}','{0}',%d,%d,'30s','w'" % (q, n)
    GUARDS = {"none": "", "guard": "SET LOCAL enable_seqscan=off; SET LOCAL enable_hashjoin=off; SET LOCAL enable_mergejoin=off; SET LOCAL enable_bitmapscan=off; SET LOCAL enable_sort=off; SET LOCAL enable_memoize=off;"}
    for state in ("never analyzed, 50k rows", "analyzed when empty, 50k rows", "analyzed when all running, 50k ready", "analyzed when full, 50k rows", "analyzed when full, now 50 rows",
                  "50 rows, analyzed", "empty, vacuumed and analyzed"):
        make(c, VARIANTS[BEST])
        c.prepare("lp" + str(len(out)), bulk_sql({}))
        ld = lambda n: c.x("lp" + str(len(out)), 1, n)
        if state.startswith("analyzed when empty"):
            c.q("ANALYZE jobs")
        if state.startswith("analyzed when all running"):
            ld(20000)
            c.q("UPDATE jobs SET state='running', token=gen_random_uuid()")
            c.q("VACUUM ANALYZE jobs; "[:-2])
            c.q("UPDATE jobs SET state='ready', token=NULL")
            c.q("DELETE FROM jobs")
        ld(50 if state.startswith("50") else 0 if state.startswith("empty") else 50000)
        if state.startswith(("50", "empty")):
            c.q("VACUUM ANALYZE jobs")
        if "when full" in state:
            c.q("ANALYZE jobs")
        if "now 50" in state:
            c.q("DELETE FROM jobs WHERE id > 50")
        out[state] = {}
        for gname, guard in GUARDS.items():
            for form in ("ctid_any", "ctid_join", "id_any", "id_join", "id_in"):
                for mode in ("force_generic_plan", "force_custom_plan"):
                    c.q("BEGIN; SET LOCAL plan_cache_mode=%s; %s" % (mode, guard))
                    c.q("PREPARE pc AS " + claim_sql({}, form))
                    p = "\n".join(r[0] for r in c.q(f"EXPLAIN (COSTS OFF) EXECUTE pc({P9(100, 10)})"))
                    n = len(c.q(f"EXECUTE pc({P9(5, 5)})"))
                    c.q("DEALLOCATE pc; ROLLBACK")
                    out[state][f"claim {form}, {mode[6:13]}, {gname}"] = dict(plan=shape_of(p), limit_5_claimed=n)
            c.q("UPDATE jobs SET state='running', token=gen_random_uuid() WHERE id IN (SELECT id FROM jobs ORDER BY id LIMIT 20)")
            for form in ("unnest", "any", "any_pair", "unnest_tok", "any_tok", "unnest_any"):
                for mode in ("force_generic_plan", "force_custom_plan"):
                    c.q("BEGIN; SET LOCAL plan_cache_mode=%s; %s" % (mode, guard))
                    c.q("PREPARE ps AS " + settle_sql({}, form))
                    p = "\n".join(r[0] for r in c.q("EXPLAIN (COSTS OFF) EXECUTE ps('%s', '%s')" % (arr(range(1, 101)), arr(str(uuid.uuid4()) for _ in range(100)))))
                    c.q("DEALLOCATE ps; ROLLBACK")
                    out[state][f"settle {form}, {mode[6:13]}, {gname}"] = dict(plan=shape_of(p))
            p = "\n".join(r[0] for r in c.q(f"EXPLAIN (COSTS OFF) {SWEEP}")) if not guard else None
            if p:
                out[state]["sweep"] = dict(plan=shape_of(p))
    for s, d in out.items():
        for k, x in d.items():
            bad = "Seq Scan" in x["plan"] or "Sort" in x["plan"] or "jobs_running" in x["plan"] or x.get("limit_5_claimed", 5) > 5 or "Merge Join" in x["plan"] or "Hash Join" in x["plan"]
            x["hazard"] = bad
            if bad:
                pass
    c.close()
    R["plans"] = out


def part_flip():
    """a plan cached while the table was empty and analyzed, used when 50,000 rows have arrived and nothing was analyzed since"""
    out = {}
    G = {"none": "", "seqscan=off": "SET enable_seqscan=off", "seqscan,sort,bitmapscan=off": "SET enable_seqscan=off; SET enable_sort=off; SET enable_bitmapscan=off",
         "also hashjoin,mergejoin=off": "SET enable_seqscan=off; SET enable_sort=off; SET enable_bitmapscan=off; SET enable_hashjoin=off; SET enable_mergejoin=off"}
    for g, guard in G.items():
        for cf, sf in (("ctid_any", "unnest_tok"), ("ctid_any", "unnest_any"), ("ctid_any", "any_tok"), ("id_any", "unnest"), ("id_join", "any")):
            admin = conn()
            make(admin, VARIANTS[BEST])
            admin.prepare("l", bulk_sql({}))
            admin.x("l", 1, 1000)
            admin.q("DELETE FROM jobs")
            admin.q("VACUUM ANALYZE jobs")
            C, W = conn(), conn()
            W.prepare("w", SWEEP)
            for c in (C,):
                c.q("SET plan_cache_mode = force_generic_plan")
                if guard:
                    for st in guard.split(";"):
                        c.q(st)
            if guard:
                for st in guard.split(";"):
                    W.q(st)
            W.x("w")
            C.prepare("c", claim_sql({}, cf)); C.prepare("s", settle_sql({}, sf))
            one = ("{email}", "{t0}", "{0}", "{-infinity}", "{0}")
            C.x("c", *one, 10, 10, "30s", "w"); C.x("s", "{1}", "{00000000-0000-0000-0000-000000000000}")
            admin.x("l", 2001, 52000)
            cm, sm, wm = [], [], []
            for i in range(8):
                t0 = time.perf_counter()
                ln = W.x("w")
                t1 = time.perf_counter()
                rs = C.x("c", *Lanes(ln).take(100, 10), 10, 100, "30s", "w")
                t2 = time.perf_counter()
                n = len(C.x("s", arr(r[0] for r in rs), arr(r[1] for r in rs)))
                t3 = time.perf_counter()
                assert n == len(rs) == 100
                wm.append(t1 - t0); cm.append(t2 - t1); sm.append(t3 - t2)
            ms = lambda x: round(statistics.median(x) * 1e3, 2)
            out[f"claim {cf}, settle {sf}, {g}"] = r = dict(claim_ms=ms(cm), settle_ms=ms(sm), sweep_ms=ms(wm))
            print("flip", cf, sf, g, r, flush=True)
            for c in (admin, C, W):
                c.close()
    R["flip"] = out


def part_race():
    """4 claimers with overlapping lanes, one session that changes ready rows, a reaper that takes leases away: nothing twice, nothing lost"""
    import threading, random
    out = {}
    for cf in ("ctid_any", "id_any"):
        admin = conn()
        total = 40000
        make(admin, VARIANTS[BEST])
        admin.prepare("l", bulk_sql({}, 50))
        admin.x("l", 1, total)
        stop, claimed, settled, st = threading.Event(), [], [], dict(over=0, lost=0, dup=0, reaped=0, moved=0, empty=0, errors=[])
        lock = threading.Lock()

        def claimer(seed):
            try:
                rnd, c = random.Random(seed), conn()
                c.prepare("c", claim_sql({}, cf)); c.prepare("s", settle_sql({}, "unnest_any")); c.prepare("w", SWEEP)
                while True:
                    rows = c.x("w")
                    if not rows:
                        if int(c.q("SELECT count(*) FROM jobs")[0][0]) == 0:
                            return
                        time.sleep(0.005); continue
                    L = Lanes(rows); L.at = rnd.randrange(len(rows))
                    for _ in range(5):
                        rs = c.x("c", *L.take(50, 10), 10, 50, "30s", f"w{seed}")
                        st["over"] += len(rs) > 50
                        st["empty"] += not rs
                        if not rs:
                            break
                        if rnd.random() < 0.3:
                            time.sleep(0.02)
                        ids = c.x("s", arr(r[0] for r in rs), arr(r[1] for r in rs))
                        with lock:
                            st["lost"] += len(rs) - len(ids)
                            settled.extend(i[0] for i in ids)
            except Exception as e:
                st["errors"].append(str(e)[:200])

        def meddler():
            c = conn()
            while not stop.is_set():
                c.q("WITH d AS MATERIALIZED (SELECT id FROM jobs WHERE state='ready' ORDER BY kind, tenant, priority, run_at, id LIMIT 30 FOR NO KEY UPDATE SKIP LOCKED) UPDATE jobs SET run_at = run_at - interval '1 second' WHERE id IN (SELECT id FROM d)")
                st["moved"] += int(c.tag.split()[1])
                c.q("UPDATE jobs SET state='ready', token=NULL WHERE id IN (SELECT id FROM jobs WHERE state='running' LIMIT 3 FOR NO KEY UPDATE SKIP LOCKED) AND state='running'")
                st["reaped"] += int(c.tag.split()[1])
        th = [threading.Thread(target=claimer, args=(i,)) for i in range(4)]
        md = threading.Thread(target=meddler)
        for t in th + [md]:
            t.start()
        for t in th:
            t.join()
        stop.set(); md.join()
        st["settled"], st["dup"] = len(settled), len(settled) - len(set(settled))
        st["done_rows"], st["live_rows"] = int(admin.q("SELECT count(*) FROM jobs_done")[0][0]), int(admin.q("SELECT count(*) FROM jobs")[0][0])
        assert st["dup"] == 0 and st["over"] == 0 and st["settled"] == total == st["done_rows"], st
        # LIMIT n over LATERAL LIMIT q is lazy: no more than n rows are locked
        make(admin, VARIANTS[BEST])
        admin.prepare("l2", bulk_sql({}, 50)); admin.x("l2", 1, 1000)
        h = HEADS.replace("$1::text[]", "array['email','email','email']").replace("$2::text[]", "array['t1','t2','t3']").replace("$3::smallint[]", "array[0,0,0]::smallint[]") \
            .replace("$4::timestamptz[]", "array['-infinity','-infinity','-infinity']::timestamptz[]").replace("$5::bigint[]", "array[0,0,0]").replace("$6", "10").replace("$7", "5")
        admin.q("BEGIN")
        n = len(admin.q(h))
        st["limit_5_quantum_10_three_lanes"] = dict(returned=n, locked=int(admin.q("SELECT count(*) FROM jobs WHERE xmax::text <> '0'")[0][0]))
        admin.q("ROLLBACK")
        out[cf] = st
        print("race", cf, st, flush=True)
        admin.close()
    R["race"] = out


def part_insert():
    admin = conn()
    trig = """CREATE FUNCTION tg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF octet_length(NEW.payload::text) > 131072 THEN RAISE 'payload too large'; END IF;
        IF NEW.run_at > now() THEN NEW.state := 'scheduled'; END IF; RETURN NEW; END $$;"""
    checks = """ALTER TABLE jobs ADD CHECK (kind ~ '^[a-z][a-z0-9_.-]{0,63}$'), ADD CHECK (length(tenant) <= 128),
        ADD CHECK (octet_length(dedupe_key) <= 255), ADD CHECK (isfinite(run_at)), ADD CHECK (pg_column_size(payload) <= 131072)"""
    enq = """CREATE FUNCTION enqueue(kind text, payload jsonb, tenant text DEFAULT '', priority int DEFAULT 0, run_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
        RETURNS bigint LANGUAGE plpgsql %s AS $$ DECLARE v bigint; BEGIN
        IF enqueue.kind IS NULL OR octet_length(enqueue.payload::text) > 131072 THEN RAISE 'bad'; END IF;
        IF enqueue.dedupe_key IS NULL THEN
          INSERT INTO waybill_shape.jobs AS j (kind, tenant, priority, run_at, state, payload) VALUES (enqueue.kind, enqueue.tenant, enqueue.priority::smallint, coalesce(enqueue.run_at, now()),
            CASE WHEN enqueue.run_at > now() THEN 'scheduled' ELSE 'ready' END, enqueue.payload) RETURNING j.id INTO v;
        ELSE
          INSERT INTO waybill_shape.jobs AS j (kind, tenant, priority, run_at, payload, dedupe_key) VALUES (enqueue.kind, enqueue.tenant, enqueue.priority::smallint, coalesce(enqueue.run_at, now()),
            enqueue.payload, enqueue.dedupe_key) ON CONFLICT DO NOTHING RETURNING j.id INTO v;
        END IF; RETURN v; END $$;"""
    T = {
        "bare": "",
        "trigger WHEN false (payload::text)": trig + "CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW WHEN (octet_length(NEW.payload::text) > 131072 OR NEW.run_at > now()) EXECUTE FUNCTION tg()",
        "trigger WHEN false (pg_column_size)": trig + "CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW WHEN (pg_column_size(NEW.payload) > 131072 OR NEW.run_at > now()) EXECUTE FUNCTION tg()",
        "trigger WHEN false (run_at only)": trig + "CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW WHEN (NEW.run_at > now()) EXECUTE FUNCTION tg()",
        "trigger always fires": trig + "CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION tg()",
        "checks": checks,
        "checks + trigger WHEN (run_at)": checks + ";" + trig + "CREATE TRIGGER t BEFORE INSERT ON jobs FOR EACH ROW WHEN (NEW.run_at > now()) EXECUTE FUNCTION tg()",
        "enqueue()": enq % "",
        "enqueue() SECURITY DEFINER SET search_path": enq % "SECURITY DEFINER SET search_path = pg_catalog, pg_temp",
        "enqueue() SECURITY DEFINER, no SET": enq % "SECURITY DEFINER",
    }
    n = int(100000 * SCALE)
    pm = None
    try:
        pm = admin.q("SELECT pg_read_file('/proc/self/stat')")[0][0].rsplit(")", 1)[1].split()[1]
        admin.q(f"SELECT pg_read_file('/proc/{pm}/stat')")
    except PgError:
        pass

    def children():
        if not pm:
            return None
        p = admin.q(f"SELECT pg_read_file('/proc/{pm}/stat')")[0][0].rsplit(")", 1)[1].split()
        return (int(p[13]) + int(p[14])) / 100
    res = {k: dict(bulk=[], s8=[], wall=[]) for k in T}
    lit = (PAYLOAD % (7, 7)).replace("'", "''")
    here = os.path.dirname(os.path.abspath(__file__))
    tmp = os.path.join(tempfile.gettempdir(), f"shape_pgbench_{os.getpid()}.sql")
    for r in range(max(ROUNDS, 3)):
        for k, ddl in (list(T.items()) if r % 2 == 0 else list(T.items())[::-1]):
            make(admin, VARIANTS[BEST])
            for s in [ddl]:
                if s:
                    admin.q(s)
            admin.q("CHECKPOINT")
            if "enqueue" not in k:
                B = conn()
                c0 = B.cpu()
                B.q(bulk_sql({}).replace("$1", "1").replace("$2", str(n)))
                c1 = B.cpu()
                res[k]["bulk"].append(None if c0 is None else us(c1 - c0, n))
                B.close()
                admin.q("TRUNCATE jobs")
            with open(tmp, "w") as f:
                f.write("\\set t random(0, 9)\n")
                f.write(f"SELECT waybill_shape.enqueue('email', '{lit}', tenant => 't0');\n" if "enqueue" in k else
                        f"INSERT INTO waybill_shape.jobs (kind, payload, tenant) VALUES ('email', '{lit}', 't0') RETURNING id;\n")
            time.sleep(0.3)
            a = children()
            tx = int(2500 * SCALE)
            t = time.perf_counter()
            o = subprocess.run(["pgbench", "-n", "-M", "prepared", "-c", "8", "-j", "2", "-t", str(tx), "-f", tmp], capture_output=True, text=True)
            assert o.returncode == 0, o.stderr
            wall = time.perf_counter() - t
            time.sleep(0.3)
            b = children()
            res[k]["s8"].append(None if a is None else us(b - a, tx * 8))
            res[k]["wall"].append(float(re.search(r"tps = ([0-9.]+)", o.stdout).group(1)))
            print(r, k, res[k]["bulk"][-1:], res[k]["s8"][-1], res[k]["wall"][-1], flush=True)
    os.unlink(tmp)
    md = lambda xs: None if not xs or xs[0] is None else round(statistics.median(xs), 2)
    o = {k: dict(bulk_cpu=md(x["bulk"]), single8_cpu=md(x["s8"]), tps=md(x["wall"])) for k, x in res.items()}
    for k, x in o.items():
        for f in ("bulk_cpu", "single8_cpu"):
            if x[f] and o["bare"][f]:
                x[f + "_vs_bare"] = round(x[f] / o["bare"][f], 3)
        x["tps_vs_bare"] = round(statistics.median([a / b for a, b in zip(res[k]["wall"], res["bare"]["wall"])]), 3)
    R["insert"] = o
    admin.close()


def main():
    c = Pg()
    R["server"] = c.q("SHOW server_version")[0][0]
    R["settings"] = {k: c.q(f"SHOW {k}")[0][0] for k in ("shared_buffers", "synchronous_commit", "max_wal_size", "full_page_writes", "wal_compression")}
    c.q("DROP SCHEMA IF EXISTS waybill_shape CASCADE; CREATE SCHEMA waybill_shape")
    old = {}
    if os.path.exists(OUT):
        old = json.load(open(OUT))
    for p in PARTS:
        t = time.time()
        globals()["part_" + p]()
        print(f"== {p}: {time.time() - t:.0f} s", flush=True)
        old.update(R)
        json.dump(old, open(OUT, "w"), indent=1)
    c.q("DROP SCHEMA IF EXISTS waybill_shape CASCADE")


if __name__ == "__main__":
    main()
