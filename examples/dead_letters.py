"""Dead letters: what died, whether the fix works, other arguments, and the rest put back.

    python examples/dead_letters.py

Everything that is told is also asserted.
"""

import logging

from onward import Onward

logging.getLogger("onward").setLevel(logging.CRITICAL + 1)  # what fails here fails on purpose

jobs = Onward("memory://")
STOCK = {"is away": True}
shipped: list[int] = []


@jobs.job(queue="shop")
def ship(order: int) -> None:
    if STOCK["is away"] or order > 100:
        raise LookupError(f"order {order}")
    shipped.append(order)


def died() -> int:
    return jobs.counts()["discarded"]


def canary(text: str) -> str:
    """Replay what matches, step by step; return how it ended."""
    last = ""
    with jobs.worker(queues=["shop"]):
        for step in jobs.dead_letters.canary(text, steps=(1, 3, "all")):
            last = step.happened
    return last


ship.enqueue_many([(order,) for order in (*range(1, 12), 101)])
jobs.drain("shop")
assert died() == 12
print("12 orders died.")

assert canary("queue:shop") == "failed"
assert died() == 12
print("The stock is still away: one was tried, and 11 were left alone.")

STOCK["is away"] = False
assert canary("queue:shop until:0s error:order") == "failed"
(wrong,) = jobs.find("state:dead arg.order:101").jobs
assert died() == 1
print(f"The stock is back, and order {wrong.payload['order']} does not exist.")

edited = jobs.dead_letters.edit(wrong.id, set={"order": 12})
again = jobs.dead_letters.edit(wrong.id, set={"order": 12})
assert edited.id == again.id
jobs.drain("shop")
assert sorted(shipped) == list(range(1, 13))
print("Edited twice, shipped once.")

preview = jobs.preview("purge", "queue:shop")
assert (preview.count, preview.samples[0].id) == (1, wrong.id)
for progress in jobs.bulk("purge", "queue:shop", until=preview.until):
    assert progress.done == 1
assert died() == 0
print("12 orders shipped, none lost, none twice.")
jobs.close()
