"""SQLite: Onward beside hand-written loops and beside its peers, all on one disk."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Sequence
from typing import Any

from bench import body, claim_cost, measure
from bench.measure import PYTHON, Contender, middle
from bench.rounds import Figure, Rounds, beside, say, sooner

TITLE = "SQLite"
PACKAGES = ("huey", "litequeue", "flexiq", "quebec")

IN_PROCESS, WORKER, RAW = "onward", "onward worker, 2 processes", "raw SQLite"
ONE_PROCESS = "onward worker, 1 process"
SIGNED, SIGNED_TOO = "onward, signed", "processing, signed and not"
PEERS = PACKAGES
RETRYING = ("huey", "flexiq", "quebec")  # litequeue has no retries
RAW_MOVE = ("claim + move, batch 500", "claim + move, a statement per batch of 500")
RAW_DELETE = "claim + delete, batch 500"


def run(options: argparse.Namespace) -> dict[str, Any]:
    onward = Contender(IN_PROCESS, "onward_sqlite", PYTHON)
    signed = Contender(SIGNED, "onward_signed", PYTHON)
    raw = Contender(RAW, "raw_sqlite", PYTHON, RAW_MOVE)
    peers = [Contender(name, f"{name}_sqlite", options.peers) for name in PEERS]
    workers = [
        Contender(ONE_PROCESS, "onward_worker", PYTHON, ("1 process",)),
        Contender(WORKER, "onward_worker", PYTHON, ("2 processes",)),
    ]
    everybody = [onward, *workers, raw, *peers]
    jobs = {each.name: 4_000 for each in peers} | {each.name: 80_000 for each in (onward, signed, *workers, raw)}
    if options.quick:
        jobs = {name: count // 8 for name, count in jobs.items()}
    say("choosing the fastest configuration of each")
    chosen = {each.name: measure.fastest(each, jobs[each.name] // 2, say) for each in everybody}
    chosen[SIGNED] = chosen[IN_PROCESS]
    in_turns = Rounds(options.rounds)

    def processing(each: Contender) -> float:
        return measure.processing(each, chosen[each.name], jobs[each.name])

    def retrying(each: Contender) -> float:
        return measure.retrying(each, chosen[each.name], jobs[each.name] // 2)

    say("measuring")
    in_turns("processing", everybody, processing)
    in_turns(SIGNED_TOO, [onward, signed], processing)
    delete = Contender(RAW, "raw_sqlite", PYTHON, (RAW_DELETE,))
    in_turns("processing, delete only", [delete], lambda each: measure.processing(each, RAW_DELETE, jobs[each.name]))
    single = 500 if options.quick else 3_000
    in_turns("enqueue one by one", [onward, raw, *peers], lambda each: measure.rate(each, "enqueue", single))
    in_turns("enqueue, 16 threads", [onward], lambda each: measure.rate(each, "crowd", single * 4, 16))
    in_turns("bulk enqueue", [onward, raw], lambda each: measure.rate(each, "bulk", jobs[each.name]))
    in_turns("bulk enqueue, signed and not", [onward, signed], lambda each: measure.rate(each, "bulk", jobs[each.name]))
    in_turns("fail once, then succeed", [workers[-1], *(each for each in peers if each.name in RETRYING)], retrying)
    samples = 40 if options.quick else 150
    in_turns("pick-up", [onward, workers[-1], *peers], lambda each: measure.pickup(each, chosen[each.name], samples))
    return {
        "engine": f"SQLite {sqlite3.sqlite_version}",
        "rounds": options.rounds,
        "configurations": chosen,
        "jobs": jobs,
        "measures": in_turns.measures,
        "noise": in_turns.noise,
        "footprint": _footprints([workers[-1], *peers], options),
        "turn_ms": _turn_costs(options),
    }


def figures(results: dict[str, Any]) -> list[Figure]:
    measures, feet, turns = results["measures"], results["footprint"], results["turn_ms"]
    loop = "the raw loop that does the same writes"
    done, single = measures["processing"], measures["enqueue one by one"]
    crowd = zip(measures["enqueue, 16 threads"], single, strict=True)
    costs = [empty / full for empty, full in zip(turns["empty"], turns["full"], strict=True)]
    lightest = min(feet[peer]["memory_mb"] for peer in PEERS)
    pickup = measures["pick-up"]
    return [
        (
            "In a program: no-op processing beside the faster of huey and litequeue",
            beside(done, IN_PROCESS, PEERS[:2]),
            12.0,
        ),
        (f"In a program: no-op processing beside {loop}", beside(done, IN_PROCESS, [RAW]), 0.5),
        ("Two processes: no-op processing beside the fastest peer", beside(done, WORKER, PEERS), 12.0),
        (f"Two processes: no-op processing beside {loop}", beside(done, WORKER, [RAW]), 0.5),
        ("Two processes: no-op processing beside one process", beside(done, WORKER, [ONE_PROCESS]), 1.0),
        (
            "Two processes: fail once, then succeed, beside the fastest peer",
            beside(measures["fail once, then succeed"], WORKER, RETRYING),
            15.0,
        ),
        ("Enqueue one by one beside a raw durable insert", beside(single, IN_PROCESS, [RAW]), 0.85),
        ("Bulk enqueue beside raw bulk inserts", beside(measures["bulk enqueue"], IN_PROCESS, [RAW]), 0.5),
        (
            "Enqueue from 16 threads beside one",
            middle([many[IN_PROCESS] / one[IN_PROCESS] for many, one in crowd]),
            5.0,
        ),
        ("In a program: pick-up p50, the fastest peer's beside ours", sooner(pickup, IN_PROCESS, PEERS[:2]), 1.0),
        ("Two processes: pick-up p50, the fastest peer's beside ours", sooner(pickup, WORKER, PEERS), 1.0),
        ("Two processes: memory of the lightest peer beside ours", lightest / feet[WORKER]["memory_mb"], 1.0),
        ("An idle worker: 1 % of a core beside what it takes", 1 / max(feet[WORKER]["idle_percent"], 0.01), 1.0),
        ("A turn in an empty file beside one with 1 M finished and 1 M future jobs", middle(costs), 1 / 1.5),
        *_signed(measures),
    ]


def _signed(measures: dict[str, Any]) -> list[Figure]:
    """What signatures leave of the throughput; not in results that are older than they are."""
    if SIGNED_TOO not in measures:
        return []
    ratio = beside(measures[SIGNED_TOO], SIGNED, [IN_PROCESS])
    return [("In a program: no-op processing, signed beside not signed", ratio, 0.9)]


def fairness(_: dict[str, Any]) -> str:
    return (
        "Onward runs at its default: every commit durable (`synchronous=FULL`), history kept. Huey runs at FULL too and "
        "takes a job off the queue before running it; litequeue and FlexiQ run at NORMAL, which a power cut can undo; "
        "litequeue has no worker and no retries. honker could not be installed."
        " The raw loop makes by hand the writes that a job costs, with nothing around them. Signed: the worker requires a "
        "signature of every job."
    )


def _footprints(contenders: Sequence[Contender], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Each with two processes, which is what its `SMALL` configuration has."""
    found = {}
    for each in contenders:
        config = str(each.ask("small"))
        found[each.name] = measure.footprint(each, config, jobs=1_000, seconds=5 if options.quick else 20)
        say(f"  footprint of {each.name} ({config}): {found[each.name]}")
    return found


def _turn_costs(options: argparse.Namespace) -> dict[str, list[float]]:
    """Medians of turns in an empty file and in a full one, in turns."""
    count = 100_000 if options.quick else 1_000_000
    empty, full = body.FOLDER / "empty.db", body.FOLDER / "full.db"
    claim_cost.fill(full, count)
    costs: dict[str, list[float]] = {"empty": [], "full": []}
    for _ in range(options.rounds):
        for name, file in (("empty", empty), ("full", full)):
            costs[name].append(middle(claim_cost.turns(file, 50)))
    say(f"  a turn of {claim_cost.BATCH} jobs, ms: {costs}")
    return costs
