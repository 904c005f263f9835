"""Any cell of a schedule holds any value: every schedule is listed, the others as they were, and each can be deleted."""

import itertools
import struct
from contextlib import closing

import msgspec
import pytest

from onward.backend import ScheduleChange
from onward.backends.mysql import MySQLBackend
from onward.backends.postgres import PostgresBackend
from onward.backends.redis import RedisBackend
from onward.backends.sqlite import SqliteBackend
from onward.testing.contract.schedules import a_change, a_schedule
from tests.damage.cells import Cell, MariaDBCells, PostgresCells, SqliteCells
from tests.damage.corpus import HOSTILE
from tests.damage.redis_cells import P, as_bytes, packed

HEALTHY = ["a", "healthy one", "zz"]


class RedisRows:
    """Rows of the hash of schedules: the two numbers, the packed rest field by field, and the name."""

    REST = ("origin", "fingerprint", "declared_at", "booked_until", "paused_at", "missed", "sealed")

    def __init__(self, store):
        self._client = store._server.client()

    def columns(self, _):
        return ["row", "cut", "version", "seen_at", "name", *self.REST]

    def write(self, cell, name, value):
        raw = self._client.hget(f"{P}schedules", name)
        match cell.column:
            case "name":
                self._client.hdel(f"{P}schedules", name)
                self._client.hset(f"{P}schedules", as_bytes(value) or name, raw)
                return True
            case "row":
                raw = as_bytes(value)
            case "cut":
                raw = raw[: len(raw) * list(HOSTILE.values()).index(value) // len(HOSTILE)]
            case "version" | "seen_at" if not isinstance(value, int):
                return False
            case "version":
                raw = struct.pack(">Q", value % 2**64) + raw[8:]
            case "seen_at":
                raw = raw[:8] + struct.pack(">Q", value % 2**64) + raw[16:]
            case column:
                rest = msgspec.msgpack.decode(raw[16:])
                rest[self.REST.index(column)] = value
                raw = raw[:16] + packed(rest)
        self._client.hset(f"{P}schedules", name, raw)
        return True


ENGINES = {
    "sqlite": (SqliteBackend, SqliteCells),
    "postgres": (PostgresBackend, PostgresCells),
    "mariadb": (MySQLBackend, MariaDBCells),
    "redis": (RedisBackend, RedisRows),
}


@pytest.mark.parametrize("store", ENGINES, indirect=True)
def test_a_damaged_cell_of_a_schedule_hides_no_schedule_and_can_be_removed(store, request, report):
    opened, cells = ENGINES[request.node.callspec.params["store"]]
    with closing(opened.from_url(store.url())) as backend:
        for name in HEALTHY:
            assert backend.change_schedule(a_change(0, a_schedule(name)))
        healthy = {row.name: row for row in backend.schedules().rows}
        cells = cells(store)
        took = damaged(backend, cells)

        rows = backend.schedules().rows

        assert len({row.name for row in rows}) == len(rows) == len(healthy) + took["rows"]
        assert {row.name: row for row in rows if row.name in healthy} == healthy
        backend.schedules_seen([row.name for row in rows])
        for row in rows:
            if row.name not in healthy:
                assert backend.change_schedule(ScheduleChange(name=row.name, version=row.version, row=None)), row
        assert [row.name for row in backend.schedules().rows] == HEALTHY
        assert sum(row.damage is not None for row in rows) > len(HOSTILE) // 2
    report(f"schedules: {took['rows']} values, {took['refused']} refused by the store, none hidden")


def damaged(backend, cells):
    """Put every value into every cell, a schedule for each; count them."""
    refused = number = 0
    for number, (column, value) in enumerate(itertools.product(cells.columns("schedules"), HOSTILE.values()), 1):
        name = f"s{number:04}"
        assert backend.change_schedule(a_change(0, a_schedule(name)))
        refused += not cells.write(Cell("schedules", column), name, value)
    return {"rows": number, "refused": refused}
