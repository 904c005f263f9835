"""PostgreSQL: Onward beside hand-written psycopg loops and beside its peers, on one private server with durable commits.

The server, the producer and the workers share the machine.  Each contender has a database of its own.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import psycopg

from bench import measure, peers
from bench.measure import PYTHON, Contender, middle
from bench.rounds import Figure, Rounds, beside, say, sooner
from tests.servers.postgres import postgres_server

TITLE = "PostgreSQL"
PACKAGES = ("procrastinate", "pgqueuer", "oban", "chancy", "saq", "awa-pg")

VERSION = "15"
PROGRAM = "onward in a program"
WORKER = "onward worker, 2 processes"
FORGETFUL = "onward worker, 2 processes, retention 0"
RAW, RAW_DELETE, RAW_COPY, RAW_UNNEST = "raw PostgreSQL", "raw, delete only", "raw COPY", "raw unnest"
# How many jobs each of them processes in two seconds or more, so that how it starts does not count: the slow ones would take
# minutes with what the fast ones need.
JOBS = 150_000
PEERS = {
    "pgqueuer": 60_000,
    "chancy": 12_000,
    "awa": 8_000,
    "procrastinate": 1_200,
    "saq": 1_200,
    "oban": 4_000,
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    with postgres_server(VERSION, in_memory=False) as server:  # its commits are to cost what they cost
        os.environ["BENCH_POSTGRES"] = server.url()
        return _run(options)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    program = Contender(PROGRAM, "onward_postgres", PYTHON, ("in a program",))
    worker = Contender(WORKER, "onward_postgres", PYTHON, ("2 processes",))
    forgetful = Contender(FORGETFUL, "onward_postgres", PYTHON, ("2 processes, retention 0",))
    raw = Contender(RAW, "raw_postgres", PYTHON, _raw("claim + move"))
    delete = Contender(RAW_DELETE, "raw_postgres", PYTHON, _raw("claim + delete"))
    interpreters = dict.fromkeys(PEERS, options.peers) | {"oban": peers.later(options.peers)}
    rivals, missing = peers.installed([Contender(name, f"{name}_postgres", interpreters[name]) for name in PEERS])
    everybody = [program, worker, forgetful, raw, delete, *rivals]
    jobs = {each.name: PEERS.get(each.name, JOBS) for each in everybody}
    if options.quick:
        jobs = {name: count // 8 for name, count in jobs.items()}
    say("choosing the fastest configuration of each")
    chosen, everybody = peers.chosen(everybody, jobs, missing)
    rivals = [each for each in rivals if each in everybody]
    rounds = min(3, options.rounds)
    in_turns = Rounds(rounds)

    def processing(each: Contender) -> float:
        return measure.processing(each, chosen[each.name], jobs[each.name])

    def retrying(each: Contender) -> float:
        return measure.retrying(each, chosen[each.name], jobs[each.name] // 4)

    def bulk(each: Contender) -> float | None:
        return measure.rate(
            each, "bulk_unnest" if each.name == RAW_UNNEST else "bulk", min(60_000, jobs.get(each.name, JOBS))
        )

    say("measuring")
    in_turns("processing", everybody, processing)
    single = 300 if options.quick else 1_500
    in_turns("enqueue one by one", [program, raw, *rivals], lambda each: measure.rate(each, "enqueue", single))
    in_turns("enqueue, 16 threads", [program], lambda each: measure.rate(each, "crowd", single * 4, 16))
    raws = [Contender(name, "raw_postgres", PYTHON) for name in (RAW_COPY, RAW_UNNEST)]
    in_turns("bulk enqueue", [program, *raws, *rivals], bulk)
    in_turns("fail once, then succeed", [worker, *rivals], retrying)
    samples = 20 if options.quick else 80
    in_turns("pick-up", [worker, program, *rivals], lambda each: measure.pickup(each, chosen[each.name], samples))
    return {
        "engine": f"PostgreSQL {_version()}, fsync and synchronous_commit on",
        "rounds": rounds,
        "configurations": chosen,
        "jobs": {name: jobs[name] for name in chosen},
        "measures": in_turns.measures,
        "noise": in_turns.noise,
        "missing": missing,
    }


def figures(results: dict[str, Any]) -> list[Figure]:
    measures = results["measures"]
    rivals = [name for name in results["configurations"] if name in PEERS]
    done, single, bulk = measures["processing"], measures["enqueue one by one"], measures["bulk enqueue"]
    crowd = zip(measures["enqueue, 16 threads"], single, strict=True)
    return [
        ("No-op processing with retention 0, beside the fastest peer", beside(done, FORGETFUL, rivals), 2.5),
        ("No-op processing with history kept, beside the fastest peer", beside(done, WORKER, rivals), 2.5),
        ("No-op processing beside the raw loop that does the same writes", beside(done, WORKER, [RAW]), 0.75),
        ("Enqueue one by one beside a raw autocommit insert", beside(single, PROGRAM, [RAW]), 0.8),
        ("Enqueue one by one beside the fastest peer", beside(single, PROGRAM, rivals), 1.3),
        ("Enqueue from 16 threads beside one", middle([many[PROGRAM] / one[PROGRAM] for many, one in crowd]), 4.0),
        ("Bulk enqueue beside the faster of raw COPY and unnest", beside(bulk, PROGRAM, [RAW_COPY, RAW_UNNEST]), 0.6),
        ("Bulk enqueue beside the fastest peer", beside(bulk, PROGRAM, rivals), 2.0),
        (
            "Fail once, then succeed, beside the fastest peer",
            beside(measures["fail once, then succeed"], WORKER, rivals),
            10.0,
        ),
        ("Pick-up p50, the fastest peer's beside ours", sooner(measures["pick-up"], WORKER, rivals), 1 / 0.75),
    ]


def fairness(results: dict[str, Any]) -> str:
    missing = "".join(f" {name} was not measured: {why}." for name, why in results["missing"].items())
    return (
        "Onward runs at its defaults: `onward worker` with 2 processes, history kept; with retention 0 a success leaves a "
        "tombstone for ten minutes. The peers run with the settings that their manuals or trials show to be fastest, and "
        "results off. PgQueuer writes a line of a log for every job; procrastinate deletes finished jobs; chancy writes "
        "results once a second, and a crash repeats that second; oban runs on a later Python, which it asks for. The raw "
        "loop makes by hand the writes that a job costs, in Onward's own tables; the one that only deletes is there for "
        f"scale.{missing}"
    )


def _raw(kind: str) -> tuple[str, ...]:
    return tuple(f"{kind}, batch 500, {processes}" for processes in ("1 process", "2 processes"))


def _version() -> str:
    with psycopg.connect(os.environ["BENCH_POSTGRES"]) as connection:
        version = connection.info.server_version
    return f"{version // 10_000}.{version % 10_000}"
