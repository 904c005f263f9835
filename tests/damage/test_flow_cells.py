"""Any cell of a flow or a node holds any value: its members end all the same, and so do other flows and plain jobs."""

import itertools
from contextlib import closing, suppress

import pytest

from onward.backends.mysql import MySQLBackend
from onward.backends.sqlite import SqliteBackend
from onward.errors import BackendRefused
from onward.job.states import FINISHED
from onward.testing.contract.builders import a_lease
from onward.testing.contract.flow_stage import FlowStage, Part, ack
from tests.damage.cells import Cell, MariaDBCells, SqliteCells
from tests.damage.corpus import HOSTILE

ENGINES = {
    "sqlite": (SqliteBackend, SqliteCells),
    "mariadb": (MySQLBackend, MariaDBCells),
}
TABLES = [(engine, table) for engine in ENGINES for table in ("flows", "nodes")]


@pytest.mark.parametrize(
    ("store", "table"), [*TABLES, ("mariadb", "additions"), ("mariadb", "members")], indirect=["store"]
)
def test_a_damaged_flow_keeps_no_other_job_from_ending(store, table, report, request):
    opened, cells = ENGINES[request.node.callspec.params["store"]]
    cells = cells(store)
    with closing(opened.from_url(store.url())) as backend:
        backend.connect()
    taken = []
    for column, value in itertools.product(cells.columns(table), HOSTILE.values()):
        with closing(opened.from_url(store.url())) as backend:  # one that has not just looked for damage
            taken.append(_damage(backend, cells, Cell(table, column), value))
            backend.empty()
    refused = taken.count(False)
    report(f"{table}: {len(taken)} values, {refused} refused by the store, no other job kept from ending")


def _damage(backend, cells, cell, value):
    """Damage a flow, and let everything beside it go on; return whether the store took the value."""
    damaged = FlowStage(backend, None, a=Part(2), b=Part(after="a"))
    healthy = FlowStage(backend, None, a=Part(), b=Part(after="a"))
    leases = healthy.claim("a")
    assert len(leases) == 3
    plain = a_lease(backend, owner="worker")
    took = cells.write(cell, damaged.id, value)

    answers = backend.settle([ack(lease) for lease in (*leases, plain)])

    assert all(answer.applied for answer in answers), cell
    assert healthy.states() == {"a": "completed", "b": "open"}
    backend.reap()
    assert healthy.id in {row.id for row in backend.flows()}
    _look_at(backend, damaged.id)
    backend.settle([ack(lease) for lease in healthy.claim("b")])
    assert healthy.state() == "completed"
    assert backend.get(plain.envelope.id).state in FINISHED
    return took


def _look_at(backend, flow_id):
    """It may be shown as it is, or refused with a word."""
    with suppress(BackendRefused):
        backend.flow(flow_id)
