"""What a schedule says about an occurrence that is about to start: late, or while another one runs.

An occurrence is late when newer ticks of its schedule are due.  With ``catch_up="once"`` it takes those back that have not
begun, and runs in their place; with ``"skip"`` it is skipped.  With a number, or ``overlap="allow"``, all of them run.

An occurrence that meets another one running waits (``queue``), is skipped (``skip``), or asks the other to stop and waits
(``cancel``).  With ``catch_up="once"`` it is skipped if another one runs in its place: an earlier one that waits, or one
that began when this tick was due already.  A retry is no tick: it is never skipped, and waits.

An occurrence that starts a flow runs, for all of this, until its flow is over.  While it starts the flow it holds the
schedule's key, as any occurrence does; from then on the flow itself is looked up, among those of its name that are not over.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

import msgspec

from onward.backend import Backend, FlowRow, Inspection, KeepsFlows, Schedules
from onward.base.ids import is_scheduled_flow, scheduled_flow_id
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
_PAGE = 100  # flows


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
        try:
            flow = self._running_flow(lease, occurrence)
            if flow is not None:
                lease = msgspec.structs.replace(lease, hold=Hold.BUSY)
            if not lease.attempts:
                tick, skipped = self._first_run(lease, occurrence, flow)
        except BackendError as error:
            logger.warning("schedule %s: the store did not say what else is due: %s", occurrence.name, error)
        return msgspec.structs.replace(lease, tick=tick), skipped

    def _running_flow(self, lease: Lease, occurrence: Occurrence) -> FlowRow | None:
        """Return the flow of another tick that is not over; None if there is none, or if they may run at once."""
        if occurrence.flow is None or occurrence.overlap == "allow":
            return None
        own = scheduled_flow_id(self._namespace, occurrence.name, lease.envelope.id)
        after: str | None = None
        while True:
            page = cast("KeepsFlows", self._backend).flows(name=occurrence.flow, running=True, after=after, limit=_PAGE)
            for flow in page:
                if flow.id != own and is_scheduled_flow(flow.id, self._namespace, occurrence.name):
                    return flow
            if len(page) < _PAGE:
                return None
            after = page[-1].id

    def _first_run(self, lease: Lease, occurrence: Occurrence, flow: FlowRow | None) -> tuple[int, Skipped | None]:
        tick, busy = occurrence.tick, lease.hold is Hold.BUSY
        if busy and occurrence.overlap == "skip":
            what = f"job {lease.holder}" if flow is None else f"flow {flow.id}"
            return tick, Skipped(f"{what} of the schedule still runs")
        if busy and occurrence.overlap == "cancel":
            self._cancel(lease.holder, flow, f"a newer tick of schedule {occurrence.name} is due")
        if occurrence.overlap == "allow" or not isinstance(occurrence.catch_up, str):
            return tick, None
        newer = newer_ticks(occurrence, lease.claimed_at)
        # A person who replays an old occurrence wants it to run: it was claimed before, and did not wait for another.
        replayed = lease.token > 1 and not lease.waits
        if newer and occurrence.catch_up == "skip" and not replayed:
            return tick, Skipped("a newer tick of its schedule is due")
        if busy:
            return tick, self._replaced_by_earlier(lease, occurrence, flow) if occurrence.catch_up == "once" else None
        return (self._replace_newer(occurrence, newer) if newer else tick), None

    def _cancel(self, holder: str | None, flow: FlowRow | None, reason: str) -> None:
        """Ask what runs to stop."""
        if flow is not None:
            cast("KeepsFlows", self._backend).cancel_flow(flow.id, reason)
        elif holder is not None:
            self._inspection.cancel([holder], reason)

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

    def _replaced_by_earlier(self, lease: Lease, occurrence: Occurrence, flow: FlowRow | None) -> Skipped | None:
        """Say which earlier occurrence runs in place of one that would have to wait; None if none does."""
        if flow is not None and flow.created_at >= occurrence.tick:
            return Skipped(f"flow {flow.id} of an earlier tick began after this one was due, and runs in its place")
        earlier = list(islice(timetable_of(occurrence).before(occurrence.tick), _LOOKED_BACK))
        for job in self._inspection.get_many(ids_of(self._namespace, occurrence.name, earlier)):
            if job.attempts:
                continue
            if job.state in (State.AVAILABLE, State.SCHEDULED):
                return Skipped(f"job {job.id} of an earlier tick waits, and runs in its place")
            if job.id == lease.holder and job.started_at is not None and job.started_at >= occurrence.tick:
                return Skipped(f"job {job.id} of an earlier tick began after this one was due, and runs in its place")
        return None
