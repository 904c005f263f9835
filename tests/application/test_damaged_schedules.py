"""A row of a schedule that no process wrote is shown, and neither booked nor removed."""

from contextlib import closing

from msgspec.structs import replace

from onward import Onward
from onward.testing.contract.schedules import a_change, a_schedule


def test_a_damaged_row_is_not_removed_as_one_that_no_process_declares():
    with closing(Onward("memory://")) as jobs:
        store = jobs.backend._store
        jobs.backend.change_schedule(a_change(0, a_schedule()))
        store.schedules["nightly"] = replace(store.schedules["nightly"], seen_at=0, damage="seen_at is -1")

        assert jobs.schedules.tick() == 0

        (shown,) = jobs.schedules.list()
        assert (shown.name, shown.problem) == ("nightly", "seen_at is -1")
