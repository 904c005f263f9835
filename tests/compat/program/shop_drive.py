"""Enqueue the tasks of the shop, wait for their ends, and print what became of them."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import shop_app  # noqa: F401
from celery import chain, chord, group, signature
from celery.result import AsyncResult
from shop_tasks import (
    add,
    automatic,
    backing_off,
    broken,
    confined,
    flaky,
    refusing,
    routed,
    slow,
    tireless,
    total,
    unpacked,
)

PATIENCE = 120


def end_of(result):
    """Return the state and the result, or the exception, of a task."""
    result.get(timeout=PATIENCE, propagate=False)
    found = AsyncResult(result.id)
    if found.successful():
        return [found.state, found.result]
    return [found.state, type(found.result).__name__, str(found.result)]


def raised_by(result):
    try:
        result.get(timeout=PATIENCE)
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return None


def main():
    tasks = {
        "positional": add.delay(1, 2),
        "by name": add.apply_async(kwargs={"x": 4}, priority=5, retry=True),
        "later": add.apply_async((1,), countdown=1),
        "expired": add.apply_async((1,), countdown=1.5, expires=0.5),
        "flaky": flaky.delay(2),
        "too flaky": flaky.delay(9),
        "tireless": tireless.delay(),
        "automatic": automatic.delay(),
        "refusing": refusing.delay(),
        "backing off": backing_off.delay(),
        "broken": broken.delay(),
        "confined": confined.delay({"there": 1}),
        "routed": routed.delay(),
        "slow": slow.delay(),
        "unpacked": unpacked.delay((1, 2), "x", key={"deep": [1.5, None, True]}),
        "by signature": signature("shop_tasks.add", args=(2,)).delay(3),
        "chain": (add.s(1) | add.s(10) | add.si(100)).apply_async(),
        "chord": chord([add.s(i, i) for i in range(3)] + [add.s(1) | add.s(5)])(unpacked.s("body")),
    }
    ends = {name: end_of(result) for name, result in tasks.items()}
    for name in ("expired", "tireless"):  # their messages hold ids, and words of either system
        del ends[name][2:]
    ends["expired"] = ends["expired"][0]
    ends["group"] = group(add.s(i) for i in range(4))().get(timeout=PATIENCE)
    ends["nested"] = group(group(add.s(1), add.s(2)), add.s(9))().get(timeout=PATIENCE)
    body = chord(group(group(add.s(1), add.s(2)), add.s(9)))(unpacked.s())
    ends["chord of groups"] = sorted(body.get(timeout=PATIENCE)[0])  # Celery has them in any order
    ends["broken chain"] = raised_by(chain(add.s(1), broken.si(), add.s(2))())
    ends["ignored"] = chain(add.s(1), total.si([1, 2]), add.s(4))().get(timeout=PATIENCE)
    ends["called"] = [add(1, 2), flaky(0)]
    runs = Counter(Path(os.environ["SHOP_RUNS"]).read_text().split())
    sys.stdout.write(json.dumps({"ends": ends, "runs": runs}, sort_keys=True))


main()
