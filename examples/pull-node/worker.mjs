// A worker for the kind "greet" over HTTP pull. Node 18 or newer, nothing else.
//
//     WAYBILL_URL=http://127.0.0.1:8080 node worker.mjs
//
// Environment: WAYBILL_URL, WAYBILL_TOKEN (when the service asks for one), WORKER_SLOTS (default 4).
// SIGTERM and Ctrl-C: takes no more jobs, ends those it has, and goes.
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

const url = (process.env.WAYBILL_URL ?? 'http://127.0.0.1:8080').replace(/\/+$/, '');
const token = process.env.WAYBILL_TOKEN;
const slots = Number(process.env.WORKER_SLOTS ?? 4);
const name = `${hostname()}/${process.pid}`;
const waitSeconds = 20; // How long a poll waits for a job.

const held = new Map(); // id -> { job, lost: AbortController }: what this process holds.
const stop = new AbortController();

// ------------------------------------------------------------------------------------------- your part

/** Trying again is of no use. */
class Dead extends Error {}

/** May run more than once for one job (delivery is at least once): job.id is always the same. */
async function greet(payload, job, lost) {
  if (payload.name === undefined) throw new Error('the payload has no name'); // Any error is a retry.
  await sleep((payload.seconds ?? 0) * 1000, undefined, { signal: lost }); // Ends when somebody else has the job.
  return { greeting: `Hello, ${payload.name}!` };
}

const handlers = { greet };

// ---------------------------------------------------------------------------------------- the machinery

class Refused extends Error {
  constructor(status, text, retryAfter) {
    super(`${status} ${text.slice(0, 300)}`);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function call(path, body, seconds, signal) {
  const limit = AbortSignal.timeout(seconds * 1000);
  const answer = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) },
    body: JSON.stringify(body),
    signal: signal ? AbortSignal.any([limit, signal]) : limit,
  });
  if (!answer.ok) throw new Refused(answer.status, await answer.text(), Number(answer.headers.get('retry-after') ?? 5));
  return answer.json();
}

const rest = (seconds) => sleep(seconds * 1000, undefined, { signal: stop.signal }).catch(() => {});

/** As many jobs as slots are free, or none. Never throws: a service that is away comes back. */
async function lease(max) {
  const began = performance.now();
  try {
    // To hang up is safe: what was claimed for this poll goes back, with its attempt.
    const { jobs } = await call(
      '/v1/leases',
      { kinds: Object.keys(handlers), worker: name, max, wait: waitSeconds },
      waitSeconds + 10,
      stop.signal,
    );
    // When an empty answer comes at once, that process is about to end.
    if (jobs.length === 0 && performance.now() - began < waitSeconds * 500) await rest(1);
    return jobs;
  } catch (failure) {
    if (stop.signal.aborted) return [];
    console.log(`lease failed: ${failure.message}`);
    await rest((failure.retryAfter ?? 1) + Math.random());
    return [];
  }
}

/** Tries for as long as the job is ours. A stale token changes nothing, so trying again is safe. */
async function settle(job, lost, outcome) {
  while (!lost.aborted) {
    try {
      const { results } = await call('/v1/leases/settle', { outcomes: [{ id: job.id, token: job.token, ...outcome }] }, 10);
      if (results[0].status !== 'busy') {
        console.log(`job=${job.id} attempt=${job.attempt} ${outcome.outcome}: ${results[0].status}`);
        return;
      }
    } catch (failure) {
      console.log(`settle failed: ${failure.message}`);
      if (failure.status < 500 && failure.status !== 429) return; // The lease runs out, and the job is tried again.
    }
    await sleep(500 + 1000 * Math.random());
  }
}

async function work(job) {
  const mine = { job, lost: new AbortController() };
  held.set(job.id, mine);
  try {
    let outcome;
    try {
      outcome = { outcome: 'done', result: (await handlers[job.kind](job.payload, job, mine.lost.signal)) ?? null };
    } catch (failure) {
      outcome = { outcome: failure instanceof Dead ? 'dead' : 'retry', error: String(failure) };
    }
    await settle(job, mine.lost.signal, outcome);
  } finally {
    held.delete(job.id);
  }
}

/** Keeps what is held. The kind's policy says how long a lease is; a third of it would do as well. */
async function heartbeat() {
  for (;;) {
    await sleep(700, undefined, { ref: false });
    const leases = [...held.values()].filter((h) => !h.lost.signal.aborted).map((h) => ({ id: h.job.id, token: h.job.token }));
    if (leases.length === 0) continue;
    try {
      const { results } = await call('/v1/leases/extend', { leases }, 5);
      for (const one of results) if (one.status === 'lost') held.get(one.id)?.lost.abort();
    } catch (failure) {
      console.log(`extend failed: ${failure.message}`);
    }
  }
}

for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => stop.abort());
heartbeat();
const running = new Set();
while (!stop.signal.aborted) {
  if (running.size >= slots) {
    await Promise.race(running);
    continue;
  }
  for (const job of await lease(slots - running.size)) {
    const one = work(job).finally(() => running.delete(one));
    running.add(one);
  }
}
console.log('stopping');
await Promise.all(running);
console.log('stopped');
