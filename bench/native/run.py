"""Measures the native binary and the JVM side by side, on one PostgreSQL, in one run: see README.md."""
import argparse, datetime, json, os, pathlib, platform, re, signal, socket, statistics, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "shape"))
from pgwire import Pg  # noqa: E402

DATABASE = "waybill_bench_native"
PORT = 18199
MB = 1_000_000
BARS = {
    "start_ms": ("at most", 150),
    "idle_rss_mb": ("at most", 90),
    "peak_rss_mb": ("at most", 200),
    "binary_mb": ("at most", 110),
    "native_of_jvm_percent": ("at least", 80),
}


def http(path, port=PORT):
    """One GET without a library, which would take longer than the start that is measured."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while chunk := s.recv(1 << 16):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


class Service:
    """A started service: native or JVM."""

    def __init__(self, command, port=PORT, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("WAYBILL_", "QUARKUS_"))}
        self.port = port
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            env=clean | {"WAYBILL_HTTP_PORT": str(port)} | environment)
        while not self.ready():
            if self.process.poll() is not None or time.perf_counter() - begin > 120:
                self.stop()
                sys.exit(f"did not become ready: {command}\n{pathlib.Path(self.log.name).read_text()}")
            time.sleep(0.001)
        self.start_ms = (time.perf_counter() - begin) * 1000

    def ready(self):
        try:
            return http("/q/health/ready", self.port)[0] == 200
        except (OSError, IndexError):
            return False

    def status(self, field):
        """A size from /proc, in MB of 1,000,000 bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M)[1]) * 1024 / MB

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settled(self):
        while True:
            try:
                text = http("/q/metrics", self.port)[1]
                break
            except (OSError, IndexError):  # an answer that was cut off is asked for again
                assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{pathlib.Path(self.log.name).read_text()}"
        return sum(float(n) for n in re.findall(r"^waybill_settled_total\{.*?\} (\S+)$", text, re.M))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def enqueue(pg, jobs):
    """All at once: nobody sees the first before the last is there."""
    pg.q(f"INSERT INTO waybill.jobs (kind, payload) SELECT 'echo', jsonb_build_object('n', n, 'text', repeat('x', 175)) FROM generate_series(1, {jobs}) n")


def drain(service, before, jobs):
    """Jobs a second, from the first that was seen settled to the last."""
    first = None
    cpu = service.cpu_seconds()
    while True:
        now, n = time.perf_counter(), service.settled() - before
        if first is None and n > 0:
            first = (now, n)
        if n >= jobs:
            break
        time.sleep(0.05)
    rate = (n - first[1]) / (now - first[0]) if now > first[0] else float("inf")
    return rate, (service.cpu_seconds() - cpu) * 1e6 / jobs


def one_drain_round(pg, command, database, jobs):
    """The first drain is of a process that just started, the second of one that is warm."""
    pg.q("TRUNCATE waybill.jobs, waybill.jobs_done, waybill.tally, waybill.arrivals")
    pg.q("CHECKPOINT")
    enqueue(pg, jobs)
    pg.q("VACUUM (ANALYZE) waybill.jobs")
    service = Service(command, WAYBILL_POOLS="default=*:1000", **database)
    try:
        cold, cold_cpu = drain(service, 0, jobs)
        peak = service.status("VmHWM")
        # What the first left behind is PostgreSQL's to tidy up, not to be charged to whoever comes second.
        pg.q("VACUUM (ANALYZE) waybill.jobs")
        pg.q("CHECKPOINT")
        enqueue(pg, jobs)
        warm, warm_cpu = drain(service, jobs, jobs)
        left = pg.q("SELECT count(*) FROM waybill.jobs")
        assert int(left[0][0]) == 0, left
        return {
            "cold_jobs_per_second": round(cold), "warm_jobs_per_second": round(warm),
            "cold_cpu_us_per_job": round(cold_cpu, 1), "warm_cpu_us_per_job": round(warm_cpu, 1),
            "peak_rss_mb": round(peak, 1), "peak_rss_after_both_mb": round(service.status("VmHWM"), 1),
            "rss_after_mb": round(service.status("VmRSS"), 1),
        }
    finally:
        service.stop()


def starts(command, database, n):
    times = []
    for _ in range(n):
        service = Service(command, **database)
        times.append(round(service.start_ms, 1))
        service.stop()
    return times


def idle(command, database, seconds):
    service = Service(command, **database)
    time.sleep(seconds)
    figures = {"rss_mb": round(service.status("VmRSS"), 1), "anonymous_mb": round(service.status("RssAnon"), 1)}
    service.stop()
    return figures


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.M)
    return {"cpu": model[1] if model else platform.machine(), "cores": os.cpu_count(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)}


def own_postgresql(jar_command):
    """Where none is named: the one that Waybill embeds, started by a JVM that does nothing else."""
    data = tempfile.TemporaryDirectory()
    keeper = Service(jar_command, port=PORT + 1, WAYBILL_DATA=data.name + "/data", WAYBILL_ROLES="api,worker", WAYBILL_POOLS="none=nothing:1")
    port, password = (pathlib.Path(data.name, "data", name).read_text().strip() for name in ("port", "password"))
    os.environ.update(PGHOST="127.0.0.1", PGPORT=port, PGUSER="waybill", PGPASSWORD=password, PGDATABASE="waybill")
    return keeper, data


def table(result):
    n, j = result["native"], result["jvm"]
    rows = [
        ("start to ready, ms (median)", n["start_ms"], j["start_ms"], "start_ms"),
        ("resident when idle, MB", n["idle"]["rss_mb"], j["idle"]["rss_mb"], "idle_rss_mb"),
        (f"resident peak while draining 2 x {result['jobs']:,}, MB", n["peak_rss_after_both_mb"], j["peak_rss_after_both_mb"], "peak_rss_mb"),
        ("drain, jobs/s, just started", n["cold_jobs_per_second"], j["cold_jobs_per_second"], None),
        ("drain, jobs/s, warm", n["warm_jobs_per_second"], j["warm_jobs_per_second"], "native_of_jvm_percent"),
        ("service's CPU, us a job, warm", n["warm_cpu_us_per_job"], j["warm_cpu_us_per_job"], None),
        ("size, MB", n["binary_mb"], "", "binary_mb"),
    ]
    print(f"| {'':50} | {'native':>9} | {'JVM':>9} | bar, for native |\n|{'-' * 52}|{'-' * 10}:|{'-' * 10}:|{'-' * 17}|")
    for name, native, jvm, bar in rows:
        said = ""
        if bar:
            how, limit = BARS[bar]
            value = result["bars"][bar]["value"]
            said = f"{how} {limit}{' % of the JVM: ' + str(value) + ' %' if 'percent' in bar else ''}, {'met' if result['bars'][bar]['met'] else 'MISSED'}"
        print(f"| {name:50} | {native!s:>9} | {jvm!s:>9} | {said} |")


def main():
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--jar", default=str(ROOT / "target/quarkus-app/quarkus-run.jar"))
    ask.add_argument("--binary", default=next((str(p) for p in (ROOT / "target").glob("waybill-*-runner")), "target/waybill-runner"))
    ask.add_argument("--jobs", type=int, default=200_000)
    ask.add_argument("--rounds", type=int, default=5)
    ask.add_argument("--starts", type=int, default=10)
    ask.add_argument("--native-options", default="", help="more options for the binary, such as -Xmn16m")
    ask.add_argument("--out", default=str(HERE / "results.json"))
    given = ask.parse_args()
    for file in (given.jar, given.binary):
        if not os.path.exists(file):
            sys.exit(f"there is no {file}: ./mvnw package -DskipTests and ./mvnw package -Dnative -DskipTests make them")
    java_home = subprocess.run([ROOT / "mvnw", "--print-java-home"], capture_output=True, text=True, check=True).stdout.strip()
    commands = {
        "native": [given.binary, *given.native_options.split()],
        # As ./waybill starts it.
        "jvm": [f"{java_home}/bin/java", "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-jar", given.jar],
    }

    keeper = None
    if "PGHOST" not in os.environ:
        keeper = own_postgresql(commands["jvm"])
    admin = Pg()
    admin.q(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
    admin.q(f"CREATE DATABASE {DATABASE}")
    host, port = os.environ["PGHOST"], os.environ.get("PGPORT", "5432")
    database = {"WAYBILL_DB_URL": f"jdbc:postgresql://{host}:{port}/{DATABASE}", "WAYBILL_DB_USER": os.environ.get("PGUSER", "postgres"),
                "WAYBILL_DB_PASSWORD": os.environ.get("PGPASSWORD", "")}
    os.environ["PGDATABASE"] = DATABASE
    pg = Pg()
    try:
        subprocess.run(commands["native"], env=os.environ | database | {"WAYBILL_MIGRATE": "only", "WAYBILL_HTTP_PORT": str(PORT)}, check=True, stdout=subprocess.DEVNULL)
        result = {"when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                  "commit": subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip(),
                  "machine": machine(), "postgresql": pg.q("SHOW server_version")[0][0], "jobs": given.jobs, "payload_bytes": 200,
                  "native_options": given.native_options, "native": {}, "jvm": {}}
        for kind, command in commands.items():
            times = starts(command, database, given.starts)
            result[kind] |= {"start_ms": statistics.median(times), "starts_ms": times, "idle": idle(command, database, 15), "rounds": []}
        for _ in range(given.rounds):
            for kind, command in commands.items():
                figures = one_drain_round(pg, command, database, given.jobs)
                print(kind, figures, file=sys.stderr, flush=True)
                result[kind]["rounds"].append(figures)
        for kind in commands:
            for figure in result[kind]["rounds"][0]:
                values = [r[figure] for r in result[kind]["rounds"]]
                result[kind][figure] = max(values) if "peak" in figure else statistics.median(values)
        n, j = result["native"], result["jvm"]
        n["binary_mb"] = round(os.path.getsize(given.binary) / MB, 1)
        values = {"start_ms": n["start_ms"], "idle_rss_mb": n["idle"]["rss_mb"], "peak_rss_mb": n["peak_rss_after_both_mb"], "binary_mb": n["binary_mb"],
                  "native_of_jvm_percent": round(100 * n["warm_jobs_per_second"] / j["warm_jobs_per_second"])}
        result["bars"] = {name: {"value": v, BARS[name][0]: BARS[name][1],
                                 "met": v <= BARS[name][1] if BARS[name][0] == "at most" else v >= BARS[name][1]} for name, v in values.items()}
        pathlib.Path(given.out).write_text(json.dumps(result, indent=1) + "\n")
        table(result)
    finally:
        pg.close()
        admin.q(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        admin.close()
        if keeper:
            keeper[0].stop()
            keeper[1].cleanup()


if __name__ == "__main__":
    main()
