#!/usr/bin/env python3
"""A worker for the kind "greet" over HTTP pull. Python 3.8 or newer, nothing else.

    WAYBILL_URL=http://127.0.0.1:8080 python3 worker.py

Environment: WAYBILL_URL, WAYBILL_TOKEN (when the service asks for one), WORKER_SLOTS (default 4).
SIGTERM and Ctrl-C: takes no more jobs, ends those it has, and goes.
"""
import json
import os
import random
import signal
import socket
import threading
import time
import traceback
import urllib.error
import urllib.request

URL = os.environ.get("WAYBILL_URL", "http://127.0.0.1:8080").rstrip("/")
TOKEN = os.environ.get("WAYBILL_TOKEN")
SLOTS = int(os.environ.get("WORKER_SLOTS", "4"))
NAME = f"{socket.gethostname()}/{os.getpid()}"
WAIT = 20  # Seconds that a poll waits for a job.

stopping = threading.Event()
held = {}  # id -> token: what this process holds.
lost = set()  # ids of jobs that are not ours any more while their handler still runs.
lock = threading.Lock()
free = threading.Semaphore(SLOTS)


# ------------------------------------------------------------------------------------------- your part


class Dead(Exception):
    """Trying again is of no use."""


def greet(payload, job):
    """May run more than once for one job (delivery is at least once): job["id"] is always the same."""
    if "name" not in payload:
        raise ValueError("the payload has no name")  # Any exception is a retry.
    for _ in range(int(payload.get("seconds", 0) * 10)):
        if job["id"] in lost:
            return None  # Somebody else has the job: stop, nobody listens any more.
        time.sleep(0.1)
    return {"greeting": f"Hello, {payload['name']}!"}


HANDLERS = {"greet": greet}


# ---------------------------------------------------------------------------------------- the machinery


def call(path, body, timeout):
    headers = {"Content-Type": "application/json"}
    if TOKEN:
        headers["Authorization"] = "Bearer " + TOKEN
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def lease(most):
    """As many jobs as slots are free, or none. Never raises: a service that is away comes back."""
    try:
        body = {"kinds": list(HANDLERS), "worker": NAME, "max": most, "wait": WAIT}
        began = time.monotonic()
        jobs = call("/v1/leases", body, WAIT + 10)["jobs"]
        if not jobs and time.monotonic() - began < WAIT / 2:
            stopping.wait(1)  # That process is about to end, and answered at once.
        return jobs
    except urllib.error.HTTPError as refused:
        wait = float(refused.headers.get("Retry-After") or 5)
        print(f"lease refused: {refused.code} {refused.read()[:300]!r}", flush=True)
    except (OSError, ValueError) as failure:
        wait = 1
        print(f"lease failed: {failure}", flush=True)
    stopping.wait(wait + random.random())
    return []


def settle(job, outcome):
    """Tries for as long as the job is ours. A stale token changes nothing, so trying again is safe."""
    body = {"outcomes": [{"id": job["id"], "token": job["token"], **outcome}]}
    while job["id"] not in lost:
        try:
            status = call("/v1/leases/settle", body, 10)["results"][0]["status"]
            if status != "busy":
                print(f"job={job['id']} attempt={job['attempt']} {outcome['outcome']}: {status}", flush=True)
                return
        except urllib.error.HTTPError as refused:
            print(f"settle refused: {refused.code} {refused.read()[:300]!r}", flush=True)
            if refused.code < 500 and refused.code != 429:
                return  # The lease runs out, and the job is tried again.
        except (OSError, ValueError) as failure:
            print(f"settle failed: {failure}", flush=True)
        time.sleep(0.5 + random.random())


def work(job):
    try:
        try:
            outcome = {"outcome": "done", "result": HANDLERS[job["kind"]](job["payload"], job)}
        except Dead as reason:
            outcome = {"outcome": "dead", "error": str(reason)}
        except Exception as failure:  # The last line: it groups dead letters, and is what one looks for.
            outcome = {"outcome": "retry", "error": traceback.format_exception_only(type(failure), failure)[-1].strip()}
        settle(job, outcome)
    finally:
        with lock:
            held.pop(job["id"], None)
            lost.discard(job["id"])
        free.release()


def heartbeat():
    """Keeps what is held. The kind's policy says how long a lease is; a third of it would do as well."""
    while True:
        time.sleep(0.7)
        with lock:
            leases = [{"id": id, "token": token} for id, token in held.items() if id not in lost]
        if not leases:
            continue
        try:
            for one in call("/v1/leases/extend", {"leases": leases}, 5)["results"]:
                if one["status"] == "lost":
                    with lock:
                        if one["id"] in held:
                            lost.add(one["id"])
        except (OSError, ValueError) as failure:
            print(f"extend failed: {failure}", flush=True)


def main():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=heartbeat, daemon=True).start()
    threading.Thread(target=poll, daemon=True).start()
    while not stopping.wait(0.2):
        pass
    print("stopping", flush=True)
    while held:
        time.sleep(0.05)
    # The poll under way hangs up when this process ends: what is claimed for it then goes back, with its attempt.
    print("stopped", flush=True)


def poll():
    while not stopping.is_set():
        free.acquire()
        most = 1
        while most < SLOTS and free.acquire(blocking=False):
            most += 1
        jobs = [] if stopping.is_set() else lease(most)
        with lock:
            held.update((job["id"], job["token"]) for job in jobs)
        for _ in range(most - len(jobs)):
            free.release()
        for job in jobs:
            if stopping.is_set():
                threading.Thread(target=release, args=(job,)).start()
            else:
                threading.Thread(target=work, args=(job,), daemon=True).start()


def release(job):
    """It came too late: another worker shall have it, with its attempt given back."""
    settle(job, {"outcome": "release"})
    with lock:
        held.pop(job["id"], None)
    free.release()


if __name__ == "__main__":
    main()
