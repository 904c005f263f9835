"""Beanstalkd: Onward beside greenstalk by hand, on one private server that flushes its log at every write."""

from __future__ import annotations

import argparse
import os
from typing import Any

from bench import measure
from bench.contenders import on_beanstalkd
from bench.measure import PYTHON, Contender
from bench.rounds import Figure, Rounds, beside, say
from tests.servers.beanstalkd import beanstalkd_server

TITLE = "Beanstalkd"
PACKAGES = ()

PROGRAM = "onward in a program"
WORKER = "onward worker, 2 processes"
RAW = "raw greenstalk"


def run(options: argparse.Namespace) -> dict[str, Any]:
    with beanstalkd_server(in_memory=False) as server:  # its log is to cost what it costs
        os.environ["BENCH_BEANSTALKD"] = server.url()
        return _run(options)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    program = Contender(PROGRAM, "onward_beanstalkd", PYTHON, ("in a program",))
    worker = Contender(WORKER, "onward_beanstalkd", PYTHON, ("2 processes",))
    raw = Contender(RAW, "raw_beanstalkd", PYTHON)
    everybody = [program, worker, raw]
    jobs = 3_000 if options.quick else 12_000
    say("choosing the fastest configuration of each")
    chosen = {each.name: measure.fastest(each, jobs // 2, say) for each in everybody}
    rounds = min(3, options.rounds)
    in_turns = Rounds(rounds)
    single = 500 if options.quick else 2_000
    samples = 20 if options.quick else 80

    say("measuring")
    in_turns("processing", everybody, lambda each: measure.processing(each, chosen[each.name], jobs))
    in_turns("enqueue one by one", [program, raw], lambda each: measure.rate(each, "enqueue", single))
    in_turns("bulk enqueue", [program, raw], lambda each: measure.rate(each, "bulk", jobs))
    in_turns("fail once, then succeed", [worker], lambda each: measure.retrying(each, chosen[each.name], jobs // 4))
    in_turns("pick-up", [worker, program], lambda each: measure.pickup(each, chosen[each.name], samples))
    return {
        "engine": f"beanstalkd {_version()}, started with -b and -f 0",
        "rounds": rounds,
        "configurations": chosen,
        "jobs": dict.fromkeys(chosen, jobs),
        "measures": in_turns.measures,
        "noise": in_turns.noise,
    }


def figures(results: dict[str, Any]) -> list[Figure]:
    measures = results["measures"]
    return [
        ("No-op processing beside greenstalk by hand", beside(measures["processing"], WORKER, [RAW]), 0.7),
        ("Enqueue one by one beside greenstalk by hand", beside(measures["enqueue one by one"], PROGRAM, [RAW]), 0.7),
        ("Bulk enqueue beside greenstalk by hand", beside(measures["bulk enqueue"], PROGRAM, [RAW]), 0.7),
    ]


def fairness(_: dict[str, Any]) -> str:
    return (
        "Onward runs at its defaults and asks the server for the counters of every job that it reserves. The loop by hand "
        "reserves and deletes, and puts one job after the other: the server knows no batches. Bodies are of the same length."
    )


def _version() -> str:
    with on_beanstalkd.connect() as client:
        return str(client.stats()["version"])
