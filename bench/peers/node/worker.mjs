// One worker process of graphile-worker or pg-boss with a no-op handler, or pg-boss' producer (it has no SQL function).
//   node worker.mjs graphile fastest|default <file for pickups>
//   node worker.mjs pgboss worker <file>
//   node worker.mjs pgboss rate <jobs a second> <seconds> | sessions <n> <seconds> | bulk <jobs> | flood ...
// Says "ready" on stdout when it works. On SIGTERM it writes "inserted started" of each job (milliseconds) and ends.
import { writeFileSync } from "node:fs";
const connectionString = process.env.BENCH_URL;
const [, , system, mode, ...rest] = process.argv;
const text = "x".repeat(150);
const now = () => performance.timeOrigin + performance.now();
const seen = [];
let first = 0;
const start = (payload) => {
  const t = now();
  if (!first) first = t;
  if (payload.t) seen.push(payload.t, t);
};
const finish = (file) => {
  const lines = [`first ${first}`];
  for (let i = 0; i < seen.length; i += 2) lines.push(`${seen[i]} ${seen[i + 1]}`);
  writeFileSync(file, lines.join("\n") + "\n");
  process.exit(0);
};

if (system === "graphile") {
  const { run, Logger } = await import("graphile-worker");
  const logger = new Logger(() => () => {});
  const fastest = mode === "fastest"
    ? { localQueue: { size: 500, refetchDelay: { durationMs: 10 } }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {};
  await run({
    logger, noHandleSignals: true, taskList: { bench: async (payload) => start(payload) },
    preset: { worker: { connectionString, concurrentJobs: 24, maxPoolSize: 25, logger, ...fastest } },
  });
  process.on("SIGTERM", () => finish(rest[0]));
  console.log("ready");
} else {
  const { PgBoss } = await import("pg-boss");
  const boss = new PgBoss({ connectionString, useListenNotify: true, max: 12 });
  boss.on("error", (e) => console.error(String(e)));
  await boss.start();
  await boss.createQueue("bench", { notify: true }).catch(() => {});
  await boss.createQueue("nobody", { notify: true }).catch(() => {});
  const job = (t) => ({ t, text });
  if (mode === "worker") {
    await boss.work("bench", { batchSize: 1000, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5 },
      async (jobs) => { for (const j of jobs) start(j.data); });
    process.on("SIGTERM", () => finish(rest[0]));
    console.log("ready");
  } else if (mode === "setup") {
    process.exit(0);
  } else if (mode === "rate") {
    const [rate, seconds] = rest.map(Number);
    const begin = now();
    let sent = 0, failed = 0;
    const waiting = new Set();
    while (sent < rate * seconds) {
      const due = Math.min(rate * seconds, Math.floor(((now() - begin) / 1000) * rate));
      for (; sent < due; sent++) {
        const p = boss.send("bench", job(now())).catch(() => failed++);
        waiting.add(p);
        p.finally(() => waiting.delete(p));
      }
      await new Promise((r) => setTimeout(r, 1));
    }
    await Promise.all(waiting);
    console.log(JSON.stringify({ sent, failed, seconds: (now() - begin) / 1000 }));
    process.exit(0);
  } else if (mode === "sessions") {
    const [n, seconds] = rest.map(Number);
    const begin = now(), end = begin + seconds * 1000;
    let sent = 0;
    await Promise.all(Array.from({ length: n }, async () => {
      while (now() < end) { await boss.send("nobody", job(undefined)); sent++; }
    }));
    console.log(JSON.stringify({ sent, seconds: (now() - begin) / 1000 }));
    process.exit(0);
  } else if (mode === "bulk") {
    const [n, page] = rest.map(Number);
    const begin = now();
    for (let i = 0; i < n; i += page) await boss.insert("nobody", Array.from({ length: page }, () => ({ data: job(undefined) })));
    console.log(JSON.stringify({ sent: n, seconds: (now() - begin) / 1000 }));
    process.exit(0);
  }
}
