"""Schedules: one row each, which is changed by one process at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from onward.backend import DAMAGED_VERSION, ScheduleChange, ScheduleRow
from onward.testing.contract.builders import an_envelope, at_once, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.stage import FAR

__all__ = ["DamagedSchedulesContract", "SchedulesContract", "a_change", "a_schedule", "the_schedule"]


def a_schedule(name: str = "nightly", **fields: Any) -> ScheduleRow:
    """Return a schedule; whatever is not named has a plain default."""
    plain: dict[str, Any] = {
        "sealed": b"\x00\xff spec",
        "fingerprint": "f1",
        "origin": "code",
        "declared_at": 5,
        "booked_until": 7,
    }
    return ScheduleRow(**({"name": name, **plain} | fields))


def a_change(version: int, row: ScheduleRow | None, **parts: Any) -> ScheduleChange:
    """Return a change of that schedule; of `nightly`, if it is deleted."""
    return ScheduleChange(name="nightly" if row is None else row.name, version=version, row=row, **parts)


def the_schedule(backend: Any, name: str = "nightly") -> ScheduleRow:
    found: ScheduleRow
    (found,) = [row for row in backend.schedules().rows if row.name == name]
    return found


@needs("schedules")
class SchedulesContract:
    """Rows: compared, written, deleted, listed."""

    def test_there_are_none_at_first(self, backend, clock):
        found = backend.schedules()

        assert (found.now, found.rows) == (clock.micros(), [])

    def test_a_schedule_is_listed_as_it_was_put(self, backend, clock):
        row = a_schedule(origin="runtime", paused_at=11, missed=3, version=77, seen_at=99, damage="never mind")

        assert backend.change_schedule(a_change(0, row))

        (found,) = backend.schedules().rows
        assert found == msgspec.structs.replace(row, version=1, seen_at=clock.micros(), damage=None)

    def test_a_change_writes_every_field_and_raises_the_version(self, backend, clock):
        backend.change_schedule(a_change(0, a_schedule(paused_at=11)))
        clock.advance(5)
        row = a_schedule(sealed=b"", fingerprint="f2", origin="runtime", declared_at=6, booked_until=8, missed=4)

        assert backend.change_schedule(a_change(1, row))

        assert the_schedule(backend) == msgspec.structs.replace(row, version=2, seen_at=clock.micros())

    @pytest.mark.parametrize("seen", [0, 1, 3, 2**53, DAMAGED_VERSION])
    def test_a_change_of_another_version_writes_nothing(self, backend, seen):
        booked, new = an_envelope(delay=FAR), an_envelope(delay=FAR)
        backend.change_schedule(a_change(0, a_schedule()))
        backend.change_schedule(a_change(1, a_schedule(), envelopes=[booked]))
        before = the_schedule(backend)

        changed = backend.change_schedule(
            a_change(seen, a_schedule(fingerprint="f2"), take_back=[booked.id], envelopes=[new])
        )

        assert not changed
        assert the_schedule(backend) == before
        assert list(backend.take_back([new.id])) == []
        assert list(backend.take_back([booked.id])) == [booked.id]

    @pytest.mark.parametrize("seen", [1, DAMAGED_VERSION])
    def test_a_change_of_a_schedule_that_is_not_there_writes_nothing(self, backend, seen):
        assert not backend.change_schedule(a_change(seen, a_schedule()))
        assert not backend.change_schedule(a_change(seen, None))

        assert backend.schedules().rows == []

    def test_a_schedule_is_deleted_by_its_version_only(self, backend):
        backend.change_schedule(a_change(0, a_schedule()))

        assert not backend.change_schedule(a_change(2, None))
        assert backend.change_schedule(a_change(1, None))

        assert backend.schedules().rows == []

    def test_a_schedule_that_was_deleted_can_be_put_again(self, backend):
        backend.change_schedule(a_change(0, a_schedule()))
        backend.change_schedule(a_change(1, None))

        assert backend.change_schedule(a_change(0, a_schedule()))

        assert the_schedule(backend).version == 1

    @pytest.mark.parametrize("version", [0, 1])
    def test_of_many_that_change_the_same_row_one_does(self, backend, open_client, version):
        clients = [backend, open_client()]
        if version:
            backend.change_schedule(a_change(0, a_schedule()))
        rows = [a_schedule(fingerprint=f"by {number}") for number in range(12)]
        jobs = [an_envelope(delay=FAR) for _ in rows]

        def change(number: int) -> bool:
            changed: bool = clients[number % 2].change_schedule(
                a_change(version, rows[number], envelopes=[jobs[number]])
            )
            return changed

        changed = at_once(12, change)

        assert changed.count(True) == 1
        winner = changed.index(True)
        assert (the_schedule(backend).fingerprint, the_schedule(backend).version) == (f"by {winner}", version + 1)
        assert list(backend.take_back(ids(jobs))) == [jobs[winner].id]

    def test_of_many_that_delete_and_change_the_same_row_one_does(self, backend, open_client):
        clients = [backend, open_client()]
        backend.change_schedule(a_change(0, a_schedule()))
        changes = [a_change(1, a_schedule() if number % 3 else None) for number in range(12)]

        changed = at_once(12, lambda number: clients[number % 2].change_schedule(changes[number]))

        assert changed.count(True) == 1
        row = changes[changed.index(True)].row
        assert [found.version for found in backend.schedules().rows] == ([] if row is None else [2])

    @pytest.mark.parametrize(
        "name",
        [
            "x",
            "with space ",
            " ",
            "émile",
            "e\u0301mile",
            "日本語 🕰️",
            "a'b\"c\\d;--%s",
            "Ä" * 200,
            "🕰" * 200,
            "\u202ertl",
            "null",
            "0",
        ],
    )
    def test_a_name_is_any_text(self, backend, name):
        backend.change_schedule(a_change(0, a_schedule(name.rstrip() + "?")))

        assert backend.change_schedule(a_change(0, a_schedule(name)))
        assert backend.change_schedule(a_change(1, a_schedule(name, missed=1)))

        assert the_schedule(backend, name).missed == 1
        assert backend.change_schedule(ScheduleChange(name=name, version=2, row=None))
        assert [row.name for row in backend.schedules().rows] == [name.rstrip() + "?"]

    def test_names_that_look_alike_are_different_schedules(self, backend):
        names = ["a", "A", "a ", "á", "a\u0301", "ａ"]

        for name in names:
            assert backend.change_schedule(a_change(0, a_schedule(name)))

        assert sorted(row.name for row in backend.schedules().rows) == sorted(names)

    def test_schedules_are_listed_by_name(self, backend):
        names = ["b", "a", "B", "ä", "🕰", "\uffee", "a b", "a0"]
        for name in names:
            backend.change_schedule(a_change(0, a_schedule(name)))

        assert [row.name for row in backend.schedules().rows] == sorted(names)

    def test_a_large_specification_comes_back_whole(self, backend):
        sealed = bytes(range(256)) * 2000

        backend.change_schedule(a_change(0, a_schedule(sealed=sealed)))

        assert the_schedule(backend).sealed == sealed

    def test_the_time_is_the_stores(self, backend, clock):
        clock.advance(3600)
        ahead = backend.schedules().now
        clock.advance(-7200)

        assert (ahead, backend.schedules().now) == (clock.micros() + 7_200_000_000, clock.micros())

    def test_being_seen_moves_no_version(self, backend, clock):
        names = ["a", "b ", "🕰 é"]
        for name in names:
            backend.change_schedule(a_change(0, a_schedule(name)))
        begun = clock.micros()
        clock.advance(60)

        backend.schedules_seen(["🕰 é", "a", "unknown", "b", "a"])

        rows = backend.schedules().rows
        assert [(row.name, row.version) for row in rows] == [(name, 1) for name in names]
        assert [row.seen_at for row in rows] == [clock.micros(), begun, clock.micros()]
        assert backend.change_schedule(a_change(1, a_schedule("a")))

    def test_seeing_none_is_fine(self, backend):
        backend.schedules_seen([])

        assert backend.schedules().rows == []

    def test_a_deletion_that_says_that_there_is_none_is_refused(self):
        with pytest.raises(ValueError, match="cannot be deleted by version 0"):
            ScheduleChange(name="a", version=0, row=None)

    def test_a_change_of_the_name_is_refused(self):
        with pytest.raises(ValueError, match="names do not change"):
            ScheduleChange(name="a", version=1, row=a_schedule("b"))

    @needs("emptying")
    def test_an_emptied_store_has_no_schedules(self, backend):
        backend.change_schedule(a_change(0, a_schedule()))

        backend.empty()

        assert backend.schedules().rows == []


@needs("schedules")
class DamagedSchedulesContract:
    """Rows that no process wrote so."""

    def test_a_damaged_row_is_listed_with_the_others_and_says_so(self, backend, damage_schedule):
        for name in ("a", "b", "c"):
            backend.change_schedule(a_change(0, a_schedule(name)))

        damage_schedule("b")

        rows = backend.schedules().rows
        assert [row.name for row in rows] == ["a", "b", "c"]
        assert [row.damage is None for row in rows] == [True, False, True]

    @pytest.mark.parametrize("row", [a_schedule(fingerprint="mended"), None], ids=["replaced", "deleted"])
    def test_a_damaged_row_can_be_replaced_and_deleted_once(self, backend, damage_schedule, row):
        backend.change_schedule(a_change(0, a_schedule()))
        damage_schedule("nightly")
        seen = the_schedule(backend).version

        assert not backend.change_schedule(a_change(seen + 5, row))
        assert backend.change_schedule(a_change(seen, row))
        assert not backend.change_schedule(a_change(seen, row))

        assert [(each.fingerprint, each.damage) for each in backend.schedules().rows] == (
            [("mended", None)] if row else []
        )

    def test_being_seen_does_not_fail_for_a_damaged_row(self, backend, clock, damage_schedule):
        for name in ("a", "b"):
            backend.change_schedule(a_change(0, a_schedule(name)))
        damage_schedule("a")
        clock.advance(60)

        backend.schedules_seen(["a", "b"])

        assert the_schedule(backend, "b").seen_at == clock.micros()
