"""Any cell of a flow or a node holds any value: its members end all the same, and so do other flows and plain jobs.

`make test` takes a few values for each cell, `make proof` all of them, as in test_cells.
"""

from contextlib import closing, suppress

import pytest

from onward.backends.mysql import MySQLBackend
from onward.backends.postgres import PostgresBackend
from onward.backends.sqlite import SqliteBackend
from onward.errors import BackendRefused
from onward.job.states import FINISHED
from onward.testing.contract.builders import a_lease
from onward.testing.contract.flow_stage import FlowStage, Part, ack
from tests.damage.cells import Cell, MariaDBCells, PostgresCells, SqliteCells
from tests.damage.corpus import HOSTILE
from tests.damage.test_cells import chosen

STORES = {
    "sqlite": (SqliteBackend, SqliteCells),
    "postgresql": (PostgresBackend, PostgresCells),
    "mysql": (MySQLBackend, MariaDBCells),
}
TABLES = {
    "sqlite": ("flows", "nodes"),
    "postgres": ("flows", "nodes", "additions"),
    "mariadb": ("flows", "nodes", "additions", "members"),
}


@pytest.mark.parametrize(
    ("store", "table"),
    [(store, table) for store, tables in TABLES.items() for table in tables],
    indirect=["store"],
)
def test_a_damaged_flow_keeps_no_other_job_from_ending(store, table, report, scale):
    kind, open_cells = STORES[store.url().partition(":")[0]]
    with closing(kind.from_url(store.url())) as backend:
        backend.connect()
    cells = open_cells(store)
    taken = []
    for column, name in chosen(cells.columns(table), scale):
        with closing(kind.from_url(store.url())) as backend:  # one that has not just looked for damage
            taken.append(_damage(backend, cells, Cell(table, column), HOSTILE[name]))
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
