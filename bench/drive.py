"""Runs one step of one contender: ``python -m bench.drive NAME STEP [ARGUMENTS]``.  Prints what it measured as JSON."""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from typing import Any

from bench import body


def main(name: str, step: str, *arguments: str) -> None:
    contender = importlib.import_module(f"bench.contenders.{name}")
    if step == "serve":
        contender.serve(arguments[0])
    elif step == "fill":
        contender.reset()
        with contender.opened() as store:
            getattr(contender, "bulk", contender.enqueue)(store, int(arguments[0]))
        _filled(contender)
    elif step == "fill_flaky":
        contender.reset()
        with getattr(contender, "opened_flaky", contender.opened)() as store:
            contender.bulk_flaky(store, int(arguments[0]))
        _filled(contender)
    elif step == "configs":
        print(json.dumps(list(contender.CONFIGS)))
    elif step == "small":
        print(json.dumps(contender.SMALL))
    elif step == "processes":
        print(json.dumps(contender.processes(arguments[0])))
    elif step == "pickup":
        with contender.sender() as send:
            print(json.dumps(_pickup(send, int(arguments[0]))))
    else:
        print(json.dumps(_rate(contender, step, int(arguments[0]), [int(each) for each in arguments[1:]])))


def _filled(contender: Any) -> None:
    if hasattr(contender, "filled"):
        contender.filled()


def _rate(contender: Any, step: str, n: int, rest: list[int]) -> float | None:
    if not hasattr(contender, step):
        return None
    contender.reset()
    with contender.opened() as store:
        getattr(contender, step)(store, 100, *rest)  # the first ones pay for what is set up once
        started = time.perf_counter()
        getattr(contender, step)(store, n, *rest)
        return n / (time.perf_counter() - started)


def _pickup(send: Any, samples: int) -> list[float]:
    """One job at a time to an idle worker; the first few warm up."""
    for number in range(samples + 5):
        seen = body.count("waits", 8)
        send(time.monotonic_ns())
        patience = time.monotonic() + 30
        while body.count("waits", 8) == seen:
            if time.monotonic() > patience:
                raise SystemExit(f"job {number} was not picked up")
            time.sleep(0.0005)
        time.sleep(random.uniform(0.02, 0.06))
    return body.waits()[5:]


if __name__ == "__main__":
    main(*sys.argv[1:])
