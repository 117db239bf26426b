#!/usr/bin/env python3
"""Measures the REST door against plain JDBC and COPY on the same machine, in the same run. See README.md."""
import argparse, glob, json, os, pathlib, shutil, signal, subprocess, sys, tempfile, time, urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--artifact", default=str(ROOT / "target/quarkus-app/quarkus-run.jar"), help="the jar, or the native binary (which brings no PostgreSQL: the jar keeps one beside it)")
ap.add_argument("--port", type=int, default=18742)
ap.add_argument("--seconds", type=float, default=8)
ap.add_argument("--rounds", type=int, default=3)
ap.add_argument("--connections", type=int, default=16)
ap.add_argument("--heap", default="256m", help="-Xmx of the service")
ap.add_argument("--out", default=str(HERE / "results.json"))
ap.add_argument("--parts", default="single,batch,memory,lists", help="of single, batch, memory, lists")
ap.add_argument("--finished", type=int, default=3_000_000, help="finished jobs for the lists")
a = ap.parse_args()
a.artifact = os.path.abspath(a.artifact)

java = subprocess.run([str(ROOT / "mvnw"), "--print-java-home"], capture_output=True, text=True, check=True).stdout.strip() + "/bin/java"
jdbc_jar = glob.glob(str(ROOT / "target/quarkus-app/lib/main/org.postgresql.postgresql-*.jar"))[0]
started = []
work = pathlib.Path(tempfile.mkdtemp(prefix="waybill-doors-"))
R = {"machine": {"cores": os.cpu_count(), "load": os.getloadavg()}, "settings": vars(a) | {n: os.path.basename(vars(a)[n]) for n in ("artifact", "out")}}


def start(command, port, **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WAYBILL_")} | settings | {"WAYBILL_HTTP_PORT": str(port)}
    log = work / f"service-{port}.log"
    p = subprocess.Popen(command, env=env, cwd=work, stdout=open(log, "w"), stderr=subprocess.STDOUT)
    started.append(p)
    for _ in range(240):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/q/health/ready", timeout=2)
            return p
        except OSError:
            if p.poll() is not None:
                sys.exit("the service ended: " + log.read_text()[-2000:])
            time.sleep(0.5)
    sys.exit("the service does not get ready")


def service():
    jar = [java, "-Xmx" + a.heap, "--enable-native-access=ALL-UNNAMED", "-jar"]
    data = str(work / "data")
    # No worker: jobs stay where they are, and only the door is measured.
    if a.artifact.endswith(".jar"):
        return start([*jar, a.artifact], a.port, WAYBILL_DATA=data, WAYBILL_ROLES="api,maintenance")
    start([*jar, str(ROOT / "target/quarkus-app/quarkus-run.jar")], a.port + 1, WAYBILL_DATA=data, WAYBILL_ROLES="maintenance")
    return start([a.artifact], a.port, WAYBILL_DB_URL=jdbc(), WAYBILL_ROLES="api")


def jdbc():
    port, password = (work / "data/port").read_text().strip(), (work / "data/password").read_text().strip()
    return f"jdbc:postgresql://127.0.0.1:{port}/waybill?user=waybill&password={password}&sslmode=disable"


def load(mode, connections, seconds, rows=10_000, limit=2**31 - 1):
    out = subprocess.run([java, "-Xmx512m", "-cp", jdbc_jar, str(HERE / "Load.java"), mode, str(connections), str(seconds), jdbc(), str(a.port),
                          str(rows), str(limit)], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{mode}: {out.stderr[-3000:]}")
    n, s, p50, p99 = out.stdout.split()
    return {"rate": round(int(n) / float(s), 1), "n": int(n), "seconds": float(s), "p50_ms": float(p50), "p99_ms": float(p99)}


def sql(text):
    psql = glob.glob(str(work / "data/**/bin/psql"), recursive=True)
    return run_sql(text)


def run_sql(text):
    (work / "q.sql").write_text(text)
    code = work / "Sql.java"
    code.write_text('import java.nio.file.*; import java.sql.*; class Sql { public static void main(String[] a) throws Exception { try (var c = '
                    'DriverManager.getConnection(a[0]); var s = c.createStatement()) { boolean r = s.execute(Files.readString(Path.of(a[1]))); '
                    'while (true) { if (r) { var x = s.getResultSet(); while (x.next()) System.out.println(x.getString(1)); } '
                    'else if (s.getUpdateCount() < 0) break; r = s.getMoreResults(); } } } }')
    out = subprocess.run([java, "-cp", jdbc_jar, str(code), jdbc(), str(work / "q.sql")], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr[-3000:])
    return out.stdout.split("\n")[:-1]


def median(runs):
    return sorted(runs, key=lambda r: r["rate"])[len(runs) // 2]


def rss(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024


def heap():
    text = urllib.request.urlopen(f"http://127.0.0.1:{a.port}/q/metrics", timeout=10).read().decode()
    return round(sum(float(l.rsplit(" ", 1)[1]) for l in text.splitlines() if l.startswith("jvm_memory_used_bytes{") and 'area="heap"' in l) / 2**20)


def get(path):
    t = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{a.port}{path}", timeout=60) as r:
        body = r.read()
    return (time.perf_counter() - t) * 1000, json.loads(body)


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


BARE = "DROP TABLE IF EXISTS doors_bare; CREATE TABLE doors_bare (LIKE waybill.jobs INCLUDING ALL);"
try:
    p = service()
    run_sql(BARE)
    for mode in ("insert", "post"):
        load(mode, a.connections, 20 if mode == "post" else 4)  # the compiler of the JVM first of all
    if "single" in a.parts:
        R["single"] = {m: [] for m in ("insert", "plain", "function", "post", "keyed")}
        for _ in range(a.rounds):
            for mode in R["single"]:
                R["single"][mode].append(load(mode, a.connections, a.seconds))
        base = median(R["single"]["insert"])["rate"]
        row("one job a request, %d connections" % a.connections, "jobs/s", "of bare insert", "p50 ms", "p99 ms")
        row("---", "---", "---", "---", "---")
        for mode, runs in R["single"].items():
            m = median(runs)
            row(mode, m["rate"], "%.0f %%" % (100 * m["rate"] / base), m["p50_ms"], m["p99_ms"])
    if "batch" in a.parts:
        R["batch"] = {m: [] for m in ("copy 1", "copy 2", "batch 1", "batch 2", "array 2")}
        load("batch", 2, 5)
        for _ in range(a.rounds):
            for name in R["batch"]:
                run_sql("TRUNCATE doors_bare, waybill.jobs")
                mode, c = name.split()
                R["batch"][name].append(load(mode, int(c), a.seconds))
        base = median(R["batch"]["copy 2"])["rate"]
        row("10,000 jobs a request", "jobs/s", "of COPY, 2 connections", "p50 ms", "p99 ms")
        row("---", "---", "---", "---", "---")
        for name, runs in R["batch"].items():
            m = median(runs)
            row(name, m["rate"], "%.0f %%" % (100 * m["rate"] / base), m["p50_ms"], m["p99_ms"])
    if "memory" in a.parts:
        run_sql("TRUNCATE waybill.jobs")
        load("batch", 1, 60, limit=20)
        R["memory"] = []
        for _ in range(5):
            load("batch", 1, 120, limit=20)
            R["memory"].append({"rss_mb": rss(p.pid), "heap_used_mb": heap()})
            run_sql("TRUNCATE waybill.jobs")
        row("batches of 10,000 posted", "rss MB", "heap used MB")
        row("---", "---", "---")
        for i, m in enumerate(R["memory"]):
            row(20 * (i + 1), m["rss_mb"], m["heap_used_mb"])
    if "lists" in a.parts:
        run_sql(f"""TRUNCATE waybill.jobs, waybill.tally, waybill.arrivals;
          INSERT INTO waybill.jobs_done (id, run_at, created_at, started_at, finished_at, priority, attempt, crashes, payload_version, state, kind, tenant, payload, tags)
          SELECT g, now(), now(), now(), now() - (g % 2) * interval '1 day', 0, 1, 0, 1, CASE WHEN g % 1000 = 0 THEN 'cancelled' ELSE 'done' END,
            CASE WHEN g % 100000 = 7 THEN 'rare' ELSE 'k' || g % 5 END, 't' || g % 100, '{{"n": 1}}', CASE WHEN g % 10 = 0 THEN ARRAY['x'] END
          FROM generate_series(1, {a.finished}) g;
          INSERT INTO waybill.tally SELECT kind, what, count(*) FROM waybill.jobs_done, unnest(ARRAY['enqueued', 'done']) what GROUP BY kind, what;
          INSERT INTO waybill.jobs_dead (id, run_at, created_at, finished_at, priority, attempt, crashes, payload_version, kind, tenant, payload, last_error, fingerprint)
          SELECT g, now(), now(), now(), 0, 1, 0, 1, 'k1', 't1', '{{}}', 'x', 'y' FROM generate_series({a.finished} + 1, {a.finished} + 50000) g;
          SELECT setval(pg_get_serial_sequence('waybill.jobs', 'id'), {a.finished} + 100000);
          ANALYZE waybill.jobs_done; ANALYZE waybill.jobs_dead; ANALYZE waybill.jobs""")
        subprocess.run([java, "-version"], capture_output=True)
        R["lists"] = []
        row("list", "first page ms", "tenth page ms", "jobs on it")
        row("---", "---", "---", "---")
        for q in ("", "?state=done", "?state=dead", "?state=running", "?kind=k1", "?tenant=t7", "?kind=k2&tenant=t7&state=done", "?tag=x", "?state=cancelled",
                  "?kind=rare", "?kind=nothere", "?limit=1000"):
            times = []
            for _ in range(3):
                after, page, got = None, 0, 0
                while page < 10:
                    ms, body = get("/v1/jobs" + q + (("&" if q else "?") + "after=" + after if after else ""))
                    if page in (0, 9):
                        times.append((page, ms, len(body["jobs"])))
                    page, after = page + 1, body.get("next")
                    if not after:
                        break
            first = sorted(t[1] for t in times if t[0] == 0)[1 if sum(t[0] == 0 for t in times) > 1 else 0]
            tenth = sorted(t[1] for t in times if t[0] == 9)
            R["lists"].append({"query": q, "first_ms": round(first, 1), "tenth_ms": round(tenth[len(tenth) // 2], 1) if tenth else None, "jobs": times[0][2]})
            row(q or "(all)", round(first, 1), R["lists"][-1]["tenth_ms"] or "-", times[0][2])
        ms = sorted(get("/v1/stats")[0] for _ in range(20))
        R["stats_ms"] = {"p50": round(ms[10], 1), "max": round(ms[-1], 1)}
        row("/v1/stats", R["stats_ms"]["p50"], "-", "-")
finally:
    for p in reversed(started):
        p.send_signal(signal.SIGTERM)
        try:
            p.wait(40)
        except subprocess.TimeoutExpired:
            p.kill()
    json.dump(R, open(a.out, "w"), indent=1)
    shutil.rmtree(work, ignore_errors=True)
