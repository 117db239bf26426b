#!/usr/bin/env python3
"""Steady load on several systems at the same time, each with a PostgreSQL of its own.

What a job costs drifts by a quarter within minutes on a shared machine; systems measured at the same moment drift together, so a difference
of two per cent shows in three rounds. Their absolute figures are those of a machine that does twice the work: see run.py for them.

    bench/peers/pairs.py --rounds 3 before=/path/to/binary after=/path/to/other graphile-fastest
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def begin(name, seconds, directory):
    label, _, artifact = name.partition("=")
    which = ["--waybill", name, "--systems", "waybill"] if artifact else ["--systems", label]
    out = directory / f"{label}.json"
    command = [HERE / "run.py", *which, "--only", "steady", "--rounds", "1", "--seconds", str(seconds), "--out", out]
    with open(directory / f"{label}.log", "w") as log:
        return label, out, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--rounds", type=int, default=3)
    ask.add_argument("--seconds", type=int, default=30)
    ask.add_argument("systems", nargs="+", metavar="NAME=ARTIFACT|SYSTEM", help="a Waybill, or one of the others as run.py names them")
    given = ask.parse_args()
    all_of = {}
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as directory:
            begun = [begin(s, given.seconds, pathlib.Path(directory)) for s in given.systems]
            failed = [label for label, _, process in begun if process.wait() != 0]
            if failed:
                sys.exit(pathlib.Path(directory, f"{failed[0]}.log").read_text())
            for label, out, _ in begun:
                all_of.setdefault(label, []).append(json.loads(out.read_text())["measured"][0])
            print(*(f"{label}: {runs[-1]['server_cpu_us_per_job']} us" for label, runs in all_of.items()), sep=", ", flush=True)
    shown = ["server_cpu_us_per_job", "worker_cpu_us_per_job", "p50_ms", "p99_ms", "wal_bytes_per_job"]
    print("", "| medians | " + " | ".join(s.replace("_", " ") for s in shown) + " |", "|---" * (len(shown) + 1) + "|", sep="\n")
    for label, runs in all_of.items():
        print(f"| {label} | " + " | ".join(f"{statistics.median(run[s] for run in runs):.1f}" for s in shown) + " |")


if __name__ == "__main__":
    main()
