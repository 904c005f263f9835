"""Any cell of any table holds any value, and under `onward worker` nothing but its own job comes to harm.

Many cells are damaged at once, one row for each cell and each value.  The healthy jobs that are enqueued before and after
must complete with one attempt and no crash; no process may end; every row must be listed; and the worker must stop when it
is told to.  A broker lists nothing: there, as many messages must be left or have run as were put.

`make test` damages all tables of a store under one worker, and takes a few values for each cell, so that each cell and each
value is among them; `make proof` takes all values, one table after the other.
`DAMAGE="delivery:minus one"` damages one cell with one value, to find the culprit.
"""

import io
import itertools
import json
import math
import os
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout

import pytest

from onward import State
from onward.backend import DeadLettering, Inspection, Look
from onward.cli import main
from onward.job.lease import LAST_INSTANT
from tests.damage.broker_cells import EXPIRING
from tests.damage.cells import CELLS, Cell
from tests.damage.corpus import HOSTILE
from tests.damage.scenes import MORE_JOBS, OF_LIMITS, PACED_JOB, QUEUES, SCENES
from tests.waiting import eventually

HEALTHY = range(100_000, 100_005)
LATER = range(200_000, 200_005)
# Commands, and what a store must be able to do for them.
LISTS = {
    ("job", "list", "--all"): Inspection,
    ("dead", "list", "--all"): Inspection | DeadLettering,
    ("worker", "list"): Inspection,
    ("queue", "list"): Inspection,
    ("health",): object,
    ("audit",): Inspection,
}
SCALE = float(os.environ.get("ONWARD_PROOF_SCALE", "0"))


def cases():
    """Which tables of which store are damaged together."""
    for engine, cells in CELLS.items():
        tables = list(getattr(cells, "SCENES", SCENES))
        together = [[each] for each in tables] if SCALE >= 1 or os.environ.get("DAMAGE") else [tables]
        yield from (pytest.param(engine, each, id=f"{engine}-{'+'.join(each)}") for each in together)


def chosen(columns, scale):
    """Which cells get which values: some of them, all of them, or what DAMAGE names."""
    pairs = list(itertools.product(columns, HOSTILE))
    if os.environ.get("DAMAGE"):
        asked = os.environ["DAMAGE"].split(";")
        return [(column, name) for column, name in pairs if column in asked or f"{column}:{name}" in asked]
    return pairs if scale >= 1 else sampled(columns, list(HOSTILE))


def sampled(columns, values):
    """A few values for each column, the next ones for the next: every column and every value is among them."""
    each = max(2, math.ceil(len(values) / len(columns)))
    return [
        (column, values[(place * each + step) % len(values)])
        for place, column in enumerate(columns)
        for step in range(each)
    ]


def damaged(cells, table, pairs, rows):
    """Put values into cells, a row for each; what the store refused is left as it was."""
    return [
        (column, name)
        for (column, name), row in zip(pairs, rows, strict=True)
        if cells.write(Cell(table, column), row, HOSTILE[name])
    ]


@pytest.mark.parametrize(("store", "tables"), list(cases()), indirect=["store"])
def test_a_damaged_cell_stops_nothing_and_hides_nothing(store, tables, open_shop, start, report, request, scale):
    shop = open_shop(dead_letter_queue="dead", **getattr(store, "settings", {}))
    with (shop.folder / "shop.py").open("a") as file:
        file.write(MORE_JOBS if OF_LIMITS.isdisjoint(tables) else MORE_JOBS + PACED_JOB)
    engine = request.node.callspec.params["store"]
    healthy = shop.plain.enqueue_many([(n,) for n in HEALTHY])
    cells = CELLS[engine](store)
    scenes = getattr(cells, "SCENES", SCENES)
    pairs = {table: chosen(cells.columns(table), scale) for table in tables}
    rows = {table: scenes[table](shop, len(pairs[table])) for table in tables}  # before anything is damaged
    took = {table: damaged(cells, table, pairs[table], rows[table]) for table in tables}

    fleet = start(shop, "--queues", getattr(cells, "QUEUES", QUEUES), "--concurrency", 4)
    (worker,) = fleet.workers(1)
    later = shop.plain.enqueue_many([(n,) for n in LATER])

    have_completed(shop, fleet, [*healthy, *later])
    if "series" in tables:
        shop.jobs.series("1h")
        shop.jobs.backend.look(Look(series=(0, LAST_INSTANT)))
    if "gates" in tables:  # no value that a store accepts keeps a lane shut
        have_run(shop, fleet, "paced", range(len(pairs["gates"])))
    assert fleet.workers(1) == [worker], fleet.log[-4000:]
    for command, needs in LISTS.items():
        if isinstance(shop.jobs.backend, needs):
            listed(command, shop)
    fleet.stop()
    runs = Counter(line["n"] for line in shop.diary("plain"))
    assert {runs[n] for n in (*HEALTHY, *LATER)} == {1}
    if isinstance(shop.jobs.backend, Inspection):
        shown = Counter(row["id"] for row in listed(("job", "list", "--all"), shop))
        assert Counter(cells.ids()) - shown == {}, "a row is not listed"
    else:
        none_vanished(shop, list(itertools.chain.from_iterable(took.values())), runs)
    assert "Traceback" not in fleet.log, fleet.log[-4000:]
    for table in tables:
        put, refused = len(pairs[table]), len(pairs[table]) - len(took[table])
        report(f"{engine} {table}: {put} values, {refused} refused by the store, 0 processes ended")


def have_completed(shop, fleet, handles):
    """Wait until the healthy jobs have run; where the store keeps records, each with one attempt and no crash."""
    have_run(shop, fleet, "plain", {*HEALTHY, *LATER})
    if isinstance(shop.jobs.backend, Inspection):
        for handle in handles:
            eventually(lambda handle=handle: handle.record().is_finished, what=lambda handle=handle: handle.record())
            record = handle.record()
            assert (record.state, record.attempts, record.crashes) == (State.COMPLETED, 1, 0), record


def have_run(shop, fleet, job, numbers):
    """Wait until a job has noted these numbers."""

    def missing():
        return set(numbers) - {line["n"] for line in shop.diary(job)}

    eventually(lambda: not missing(), what=lambda: f"{missing()} did not run\n{fleet.log[-4000:]}")


def none_vanished(shop, took, runs):
    """Of the damaged messages that a broker took, as many have run, wait or are dead as may not expire."""
    ran = sum(n not in (*HEALTHY, *LATER) for n in runs)
    left = sum(shop.jobs.counts("default").values())
    lasting = sum(column not in EXPIRING for column, _ in took)
    assert ran + left >= lasting, f"{len(took)} were put, {ran} ran, {shop.jobs.counts('default')}"


def listed(command, shop):
    """What a command prints as JSON; it must not fail for one row."""
    settings = shop.jobs.settings
    beside = ["--store", settings.store] if settings.store else []
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*command, "--json", "--url", settings.url, *beside])
    assert code == 0 or command == ("health",), f"{command}: {code} {err.getvalue()[-2000:]}"
    return [json.loads(line) for line in out.getvalue().splitlines()]
