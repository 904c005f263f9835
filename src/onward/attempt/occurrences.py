"""What a schedule says about an occurrence that is about to start: late, or while another one runs.

An occurrence is late when newer ticks of its schedule are due.  With ``catch_up="once"`` it takes those back that have not
begun, and runs in their place; with ``"skip"`` it is skipped.  With a number, or ``overlap="allow"``, all of them run.

An occurrence that meets another one running waits (``queue``), is skipped (``skip``), or asks the other to stop and waits
(``cancel``).  With ``catch_up="once"`` it is skipped if another one runs in its place: an earlier one that waits, or one
that began when this tick was due already.  A retry is no tick: it is never skipped, and waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

import msgspec

from onward.backend import Backend, Inspection, Schedules
from onward.base.logs import get_logger
from onward.base.wording import counted
from onward.errors import BackendError
from onward.flow.schedule import ids_of, newer_ticks, timetable_of
from onward.job.envelope import Occurrence
from onward.job.lease import Hold, Lease
from onward.job.outcome import Skipped
from onward.job.states import State

__all__ = ["Occurrences"]

logger = get_logger("onward.schedules")

_LOOKED_BACK = 20  # ticks: more occurrences of one schedule do not wait at once


class Occurrences:
    """Asks the store about the other occurrences of a schedule.  A store that does not answer changes nothing."""

    def __init__(self, backend: Backend, inspection: Inspection, namespace: str) -> None:
        self._backend = backend
        self._inspection = inspection
        self._namespace = namespace

    def judge(self, lease: Lease, occurrence: Occurrence) -> tuple[Lease, Skipped | None]:
        """Return the lease with the newest tick that it runs for; or why it is not run."""
        if lease.tick is not None:  # the process that claimed it has looked
            return lease, None
        tick, skipped = occurrence.tick, None
        if not lease.attempts:
            try:
                tick, skipped = self._first_run(lease, occurrence)
            except BackendError as error:
                logger.warning("schedule %s: the store did not say what else is due: %s", occurrence.name, error)
        return msgspec.structs.replace(lease, tick=tick), skipped

    def _first_run(self, lease: Lease, occurrence: Occurrence) -> tuple[int, Skipped | None]:
        tick, busy = occurrence.tick, lease.hold is Hold.BUSY
        if busy and occurrence.overlap == "skip":
            return tick, Skipped(f"job {lease.holder} of the schedule still runs")
        if busy and occurrence.overlap == "cancel" and lease.holder is not None:
            self._inspection.cancel([lease.holder], f"a newer tick of schedule {occurrence.name} is due")
        if occurrence.overlap == "allow" or not isinstance(occurrence.catch_up, str):
            return tick, None
        newer = newer_ticks(occurrence, lease.claimed_at)
        # A person who replays an old occurrence wants it to run: it was claimed before, and did not wait for another.
        replayed = lease.token > 1 and not lease.waits
        if newer and occurrence.catch_up == "skip" and not replayed:
            return tick, Skipped("a newer tick of its schedule is due")
        if busy:
            return tick, self._replaced_by_earlier(lease, occurrence) if occurrence.catch_up == "once" else None
        return (self._replace_newer(occurrence, newer) if newer else tick), None

    def _replace_newer(self, occurrence: Occurrence, newer: Sequence[int]) -> int:
        """Take the newer occurrences back; return the newest tick that this one runs for."""
        ticks = dict(zip(ids_of(self._namespace, occurrence.name, list(newer)), newer, strict=True))
        removed = [each for each in cast("Schedules", self._backend).take_back(list(ticks)) if each in ticks]
        if removed:
            logger.info(
                "schedule %s: a late occurrence runs in place of %s",
                occurrence.name,
                counted(len(removed), "newer tick"),
            )
        return max((ticks[each] for each in removed), default=occurrence.tick)

    def _replaced_by_earlier(self, lease: Lease, occurrence: Occurrence) -> Skipped | None:
        """Say which earlier occurrence runs in place of one that would have to wait; None if none does."""
        earlier = list(islice(timetable_of(occurrence).before(occurrence.tick), _LOOKED_BACK))
        for job in self._inspection.get_many(ids_of(self._namespace, occurrence.name, earlier)):
            if job.attempts:
                continue
            if job.state in (State.AVAILABLE, State.SCHEDULED):
                return Skipped(f"job {job.id} of an earlier tick waits, and runs in its place")
            if job.id == lease.holder and job.started_at is not None and job.started_at >= occurrence.tick:
                return Skipped(f"job {job.id} of an earlier tick began after this one was due, and runs in its place")
        return None
