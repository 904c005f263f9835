"""Redis: Onward beside a hand-written Lua loop and beside its peers, on one private server that keeps a file.

The server, the producer and the workers share the machine.  All have the same server, empty, and reach it by the same port.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from bench import measure, peers
from bench.contenders import on_redis
from bench.measure import PYTHON, Contender
from bench.rounds import Figure, Rounds, beside, say, sooner
from tests.servers.redis import free_port, redis_server

TITLE = "Redis"
PACKAGES = ("rq", "dramatiq", "huey", "arq", "saq", "taskiq", "taskiq-redis", "streaq", "celery", "redis", "hiredis")

PROGRAM = "onward in a program"
WORKER = "onward worker, 2 processes"
FORGETFUL = "onward worker, 2 processes, retention 0"
RAW, RAW_DELETE = "raw Lua", "raw Lua, delete only"
# How many jobs each of them processes in a second or three: the slow ones would take minutes with what the fast ones need.
PEERS = {
    "huey": 10_000,
    "taskiq": 8_000,
    "dramatiq": 8_000,
    "saq": 5_000,
    "streaq": 4_000,
    "celery": 3_000,
    "arq": 3_000,
    "rq": 800,
}
BULKY = ("saq", "taskiq", "arq", "streaq", "rq")  # who can be given many at a time
# Redis's own default where it keeps a file: what was answered survives the server, and a power cut takes a second.
SETTINGS = {"appendonly": "yes", "appendfsync": "everysec", "auto_aof_rewrite_percentage": 0}


def run(options: argparse.Namespace) -> dict[str, Any]:
    port = free_port()
    with redis_server("redis", in_memory=False, port=port, **SETTINGS):  # its file is to cost what it costs
        os.environ["BENCH_REDIS"] = f"redis://127.0.0.1:{port}/0"
        return _run(options)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    program = Contender(PROGRAM, "onward_redis", PYTHON, ("in a program",))
    worker = Contender(WORKER, "onward_redis", PYTHON, ("2 processes",))
    forgetful = Contender(FORGETFUL, "onward_redis", PYTHON, ("2 processes, retention 0",))
    raw = Contender(RAW, "raw_redis", PYTHON, _raw("claim + keep"))
    delete = Contender(RAW_DELETE, "raw_redis", PYTHON, _raw("claim + delete"))
    rivals, missing = peers.installed([Contender(name, f"{name}_redis", options.peers) for name in PEERS])
    everybody = [program, worker, forgetful, raw, delete, *rivals]
    jobs = {each.name: PEERS.get(each.name, 100_000) for each in everybody}
    if options.quick:
        jobs = {name: count // 4 for name, count in jobs.items()}
    say("choosing the fastest configuration of each")
    chosen, everybody = peers.chosen(everybody, jobs, missing)
    rivals = [each for each in rivals if each in everybody]
    rounds = min(3, options.rounds)
    in_turns = Rounds(rounds)

    def processing(each: Contender) -> float:
        return measure.processing(each, chosen[each.name], jobs[each.name])

    def retrying(each: Contender) -> float:
        return measure.retrying(each, chosen[each.name], jobs[each.name] // 4)

    say("measuring")
    in_turns("processing", everybody, processing)
    single = 500 if options.quick else 3_000
    in_turns("enqueue one by one", [program, raw, *rivals], lambda each: measure.rate(each, "enqueue", single))
    bulky = [program, raw, *(each for each in rivals if each.name in BULKY)]
    in_turns("bulk enqueue", bulky, lambda each: measure.rate(each, "bulk", max(jobs[each.name], 5_000)))
    in_turns("fail once, then succeed", [worker, *rivals], retrying)
    samples = 40 if options.quick else 150
    in_turns("pick-up", [worker, program, *rivals], lambda each: measure.pickup(each, chosen[each.name], samples))
    return {
        "engine": f"Redis {_version()}, appendonly yes, appendfsync {SETTINGS['appendfsync']}",
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
    return [
        ("No-op processing beside the fastest peer", beside(done, WORKER, rivals), 10.0),
        ("No-op processing beside the raw Lua loop that does the same writes", beside(done, WORKER, [RAW]), 0.3),
        ("Enqueue one by one beside the fastest peer", beside(single, PROGRAM, rivals), 1.0),
        (
            "Bulk enqueue beside the fastest peer",
            beside(bulk, PROGRAM, [name for name in rivals if name in BULKY]),
            4.0,
        ),
        (
            "Fail once, then succeed, beside the fastest peer",
            beside(measures["fail once, then succeed"], WORKER, rivals),
            12.0,
        ),
        ("Pick-up p50, the fastest peer's beside ours", sooner(measures["pick-up"], WORKER, rivals), 1 / 1.2),
    ]


def fairness(results: dict[str, Any]) -> str:
    missing = "".join(f" {name} was not measured: {why}." for name, why in results["missing"].items())
    return (
        "All have one server that writes every command to its file and flushes it once a second. Onward runs at its "
        "defaults: `onward worker` with 2 processes, history kept. The peers run with the settings that their manuals or "
        "trials show to be fastest, results off. huey and celery take a job off the queue before they run it: a crash loses "
        "it. saq, taskiq and arq have no bulk interface: some fifty enqueues at a time stand for it; huey, dramatiq and "
        "celery have none of either. The raw loop makes by hand the writes that a job costs, in Onward's own keys, by one "
        f"script; the one that only deletes is there for scale.{missing}"
    )


def _raw(kind: str) -> tuple[str, ...]:
    return tuple(f"{kind}, batch 500, {processes}" for processes in ("1 process", "2 processes"))


def _version() -> str:
    with on_redis.client() as client:
        return str(client.info("server")["redis_version"])
