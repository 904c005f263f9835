"""The application of `tests.proof.schedules`: ticks of seconds, booked a second ahead; every run leaves a line in a log."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from onward import JobContext, Onward
from onward.flow.schedule import Pace
from onward.worker.options import WorkerParts

__all__ = ["jobs", "tick"]

SPEED = 60  # a minute ahead is a second here, and a look every ten seconds one every sixth of a second


class FastOnward(Onward):
    """Books at sixty times the usual speed."""

    def parts(self, **options: Any) -> WorkerParts:
        self._parts.producer.booker.pace = Pace(*(each // SPEED for each in Pace()))
        return msgspec.structs.replace(super().parts(**options), tick_every=10 / SPEED)


jobs = FastOnward(os.environ.get("KILL_SHOP_URL", "memory://"), lease_for=2.0, max_crashes=1000)


@jobs.job
def tick(ctx: JobContext, name: str) -> None:
    assert ctx.scheduled_for is not None
    with open(os.environ["KILL_SHOP_LOG"], "ab", buffering=0) as log:  # noqa: PTH123
        log.write(f"{ctx.id} {ctx.delivery}\n".encode())  # in one go: whole lines, beside other writers
