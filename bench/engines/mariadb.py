"""MariaDB: Onward beside hand-written PyMySQL loops, on one private server with durable commits.  No peer runs on it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from bench import measure
from bench.contenders import on_mysql
from bench.measure import PYTHON, Contender, middle
from bench.rounds import Figure, Rounds, beside, say
from tests.servers.mariadb import mariadb_server

TITLE = "MariaDB"
PACKAGES = ()

PROGRAM = "onward in a program"
WORKER = "onward worker, 2 processes"
FORGETFUL = "onward worker, 2 processes, retention 0"
RAW, RAW_DELETE = "raw MariaDB", "raw, delete only"


def run(options: argparse.Namespace) -> dict[str, Any]:
    with mariadb_server(in_memory=False) as server:  # its commits are to cost what they cost
        os.environ["BENCH_MYSQL"] = server.url()
        return _run(options)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    program = Contender(PROGRAM, "onward_mysql", PYTHON, ("in a program",))
    worker = Contender(WORKER, "onward_mysql", PYTHON, ("2 processes",))
    forgetful = Contender(FORGETFUL, "onward_mysql", PYTHON, ("2 processes, retention 0",))
    raw = Contender(RAW, "raw_mysql", PYTHON, _raw("claim + move"))
    delete = Contender(RAW_DELETE, "raw_mysql", PYTHON, _raw("claim + delete"))
    everybody = [program, worker, forgetful, raw, delete]
    jobs = 4_000 if options.quick else 30_000
    say("choosing the fastest configuration of each")
    chosen = {each.name: measure.fastest(each, jobs // 2, say) for each in everybody}
    rounds = min(3, options.rounds)
    in_turns = Rounds(rounds)
    single = 300 if options.quick else 1_500
    samples = 20 if options.quick else 80

    say("measuring")
    in_turns("processing", everybody, lambda each: measure.processing(each, chosen[each.name], jobs))
    in_turns("enqueue one by one", [program, raw], lambda each: measure.rate(each, "enqueue", single))
    in_turns("enqueue, 16 threads", [program], lambda each: measure.rate(each, "crowd", single * 4, 16))
    in_turns("bulk enqueue", [program, raw], lambda each: measure.rate(each, "bulk", jobs))
    in_turns("fail once, then succeed", [worker], lambda each: measure.retrying(each, chosen[each.name], jobs // 4))
    in_turns("pick-up", [worker, program], lambda each: measure.pickup(each, chosen[each.name], samples))
    return {
        "engine": f"MariaDB {_version()}, innodb_flush_log_at_trx_commit=1",
        "rounds": rounds,
        "configurations": chosen,
        "jobs": dict.fromkeys(chosen, jobs),
        "measures": in_turns.measures,
        "noise": in_turns.noise,
    }


def figures(results: dict[str, Any]) -> list[Figure]:
    measures = results["measures"]
    done, single = measures["processing"], measures["enqueue one by one"]
    crowd = zip(measures["enqueue, 16 threads"], single, strict=True)
    return [
        ("No-op processing beside the raw loop that does the same writes", beside(done, WORKER, [RAW]), 0.6),
        ("Enqueue one by one beside a raw autocommit insert", beside(single, PROGRAM, [RAW]), 0.85),
        ("Enqueue from 16 threads beside one", middle([many[PROGRAM] / one[PROGRAM] for many, one in crowd]), 4.0),
        ("Bulk enqueue beside raw inserts of many rows", beside(measures["bulk enqueue"], PROGRAM, [RAW]), 0.6),
        ("Pick-up: 5 ms beside our p50", _within(5.0, measures["pick-up"]), 1.0),
    ]


def _within(milliseconds: float, rows: Sequence[dict[str, list[float]]]) -> float:
    """How many times our median fits into what was asked."""
    return middle([milliseconds / middle(row[WORKER]) for row in rows])


def fairness(_: dict[str, Any]) -> str:
    return (
        "Onward runs at its defaults. None of the peers runs on MySQL or MariaDB. The raw loop makes by hand the writes "
        "that a job costs, in Onward's own tables; the one that only deletes is there for scale."
    )


def _raw(kind: str) -> tuple[str, ...]:
    return tuple(f"{kind}, batch 500, {processes}" for processes in ("1 process", "2 processes"))


def _version() -> str:
    with on_mysql.connect() as connection:
        # MariaDB 10 calls itself 5.5.5 first, for clients of another age.
        return str(connection.get_server_info()).removeprefix("5.5.5-").split("-", maxsplit=1)[0]
