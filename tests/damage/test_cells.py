"""Any cell of any table holds any value, and under `onward worker` nothing but its own job comes to harm.

For each table all its cells are damaged at once, one row for each cell and each value.  The healthy jobs that are enqueued
before and after must complete with one attempt and no crash; no process may end; every row must be listed; and the worker
must stop when it is told to.  `DAMAGE="delivery:minus one"` damages one cell with one value, to find the culprit.
"""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from onward import State
from tests.damage.cells import CELLS, Cell
from tests.damage.corpus import HOSTILE
from tests.damage.scenes import MORE_JOBS, SCENES
from tests.waiting import eventually

HEALTHY = range(100_000, 100_005)
LATER = range(200_000, 200_005)
LISTS = (["job", "list", "--all"], ["dead", "list", "--all"], ["worker", "list"], ["queue", "list"], ["health"])


def chosen(columns):
    """Which cells get which values: all of them, or what DAMAGE names."""
    asked = os.environ.get("DAMAGE", "").split(";") if os.environ.get("DAMAGE") else None
    pairs = [(column, name) for column, name in itertools.product(columns, HOSTILE)]
    if asked is None:
        return pairs
    return [(column, name) for column, name in pairs if column in asked or f"{column}:{name}" in asked]


def damaged(cells, table, scene, shop):
    """Put every value into every cell, a row for each; what the store refused is left as it was."""
    pairs = chosen(cells.columns(table))
    rows = scene(shop, len(pairs))
    took = [
        (column, name)
        for (column, name), row in zip(pairs, rows, strict=True)
        if cells.write(Cell(table, column), row, HOSTILE[name])
    ]
    return pairs, took


@pytest.mark.parametrize("store", list(CELLS), indirect=True)
@pytest.mark.parametrize("table", list(SCENES))
def test_a_damaged_cell_stops_nothing_and_hides_nothing(store, table, open_shop, start, report, request):
    shop = open_shop(dead_letter_queue="dead")
    with (shop.folder / "shop.py").open("a") as file:
        file.write(MORE_JOBS)
    engine = request.node.callspec.params["store"]
    healthy = shop.plain.enqueue_many([(n,) for n in HEALTHY])
    cells = CELLS[engine](store)
    pairs, took = damaged(cells, table, SCENES[table], shop)

    fleet = start(shop, "--queues", "default,abandoned", "--concurrency", 4)
    (worker,) = fleet.workers(1)
    later = shop.plain.enqueue_many([(n,) for n in LATER])

    for handle in [*healthy, *later]:
        record = eventually(
            lambda handle=handle: (record := handle.record()).is_finished and record,
            what=lambda handle=handle: f"{handle.record()}\n{fleet.log[-4000:]}",
        )
        assert (record.state, record.attempts, record.crashes) == (State.COMPLETED, 1, 0), record
    assert fleet.workers(1) == [worker], fleet.log[-4000:]
    for command in LISTS:
        listed(command, shop)
    fleet.stop()
    shown = Counter(row["id"] for row in listed(["job", "list", "--all"], shop))
    assert Counter(cells.ids()) - shown == {}, "a row is not listed"
    assert "Traceback" not in fleet.log, fleet.log[-4000:]
    report(f"{engine} {table}: {len(pairs)} values, {len(pairs) - len(took)} refused by the store, 0 processes ended")


def listed(command, shop):
    """What a command prints as JSON; it must not fail for one row."""
    ran = subprocess.run(
        [sys.executable, "-m", "onward", *command, "--json", "--url", shop.jobs.settings.url],
        capture_output=True,
        text=True,
        check=False,
        cwd=shop.folder,
    )
    assert ran.returncode == 0 or command == ["health"], f"{command}: {ran.returncode} {ran.stderr[-2000:]}"
    return [json.loads(line) for line in ran.stdout.splitlines()]
