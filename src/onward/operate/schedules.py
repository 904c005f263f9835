"""Schedules as people see and steer them: ``jobs.schedules``.

Every change reads the row, and writes it if its version is still the same; if another process was faster, it reads again.
Pausing, updating and deleting take back, in the same write, the occurrences that are booked and have not begun.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, cast

import msgspec

from onward.backend import Backend, Enqueued, Envelope, Inspection, Origin, ScheduleChange, ScheduleRow, Schedules
from onward.base.clock import from_micros
from onward.base.durations import Duration
from onward.base.names import suggestion
from onward.client.auditing import Auditor, Draft
from onward.client.booking import Booker, booked_ids
from onward.client.bound_job import Job, JobHandle
from onward.client.calls import Call
from onward.client.flow_builder import FlowBuilder
from onward.client.flow_handle import FlowHandle
from onward.client.flow_source import FlowSource
from onward.client.record import JobRecord, Records, payload_of
from onward.client.schedules import ScheduleWriter
from onward.errors import (
    BackendUnavailable,
    EnvelopeError,
    OptionError,
    ScheduleNotFound,
    ScheduleTaken,
)
from onward.flow.schedule import Specification, ids_of, timetable_of
from onward.job.secrets import masked
from onward.operate.declarations import Declarations

__all__ = ["Schedule", "ScheduleControl"]

_MOST_SHOWN = 1000
_TRIES = 20  # of a change that others get ahead of
_LOOKED_BACK = 10  # ticks for each record that is asked for: superseded ones have none
_replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Everything known about a schedule at one moment."""

    name: str
    origin: Origin  # "code": declared with @jobs.schedule; "runtime": made by jobs.schedules.create
    cron: str | None  # None, as all that follows, if the specification cannot be read
    tz: str | None
    job: str | None
    flow: str | None  # the name of the flow that its job starts
    queue: str | None
    arguments: Any  # of a flow: how many jobs each node has
    catch_up: str | int | None
    overlap: str | None
    spread: float | bool | None
    paused_at: datetime | None
    booked_until: datetime
    missed: int  # late ticks that did not run
    problem: str | None = None  # why nothing is booked for it
    _specification: Specification | None = field(default=None, repr=False)
    _read_at: int = field(repr=False)  # by the store's clock
    _control: ScheduleControl = field(repr=False)

    @property
    def paused(self) -> bool:
        return self.paused_at is not None

    def next(self, number: int = 1) -> list[datetime]:
        """Return the next ticks from when this was read, as instants in UTC."""
        return self._control.next_ticks(self._specification, number, self._read_at)

    def last(self, number: int = 1) -> list[JobRecord]:
        """Return the jobs of the last ticks that are still known, the newest first."""
        return self._control.last_jobs(self._specification, number)


class ScheduleControl:
    """``jobs.schedules``: makes, shows and steers schedules."""

    def __init__(
        self,
        backend: Backend,
        inspection: Inspection,
        *,
        writer: ScheduleWriter,
        booker: Booker,
        flows: FlowSource,
        records: Records,
        declarations: Declarations,
        auditor: Auditor,
    ) -> None:
        self.run_due: Callable[[], object] | None = None  # where jobs run in the thread that enqueues them
        self._backend = backend
        self._inspection = inspection
        self._writer = writer
        self._booker = booker
        self._flows = flows
        self._records = records
        self._declarations = declarations
        self._auditor = auditor

    # Making and changing at run time

    def job_named(self, name: str) -> Job[..., Any, Any, Any]:
        """Return the job of this name, to call in a schedule; raise if this application has none."""
        return self._flows.named(name)

    def create(
        self,
        name: str,
        cron: str,
        call: Call | FlowBuilder,
        *,
        tz: str = "UTC",
        catch_up: str | int = "once",
        overlap: str = "queue",
        spread: Duration | bool | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> Schedule:
        """Make a schedule: ``create("report-acme", "0 6 * * *", report.call("acme"), tz="Europe/Berlin")``.

        ``call``: of a job; or a flow that is built, ``jobs.flow(...)`` or ``jobs.chain(...)``, and is not enqueued.
        """
        specification = self._writer.specification(
            name, cron, call, tz=tz, catch_up=catch_up, overlap=overlap, spread=spread
        )
        row, now, _ = self._read(name)
        made = None if row is not None else ScheduleChange(name=name, version=0, row=self._row(specification, now))
        act = self._auditor.draft("create-schedule", by, ref=name, reason=reason)
        if made is None or not self._store.change_schedule(made, audit=act.audit):
            by_code = row is not None and row.origin == "code"
            hint = "the code declares it, use another name" if by_code else "use update(), or delete() it first"
            raise ScheduleTaken(f"there is a schedule {name!r} already: {hint}")
        act.done(())
        self._booker.look_soon()
        return self.get(name)

    def update(
        self,
        name: str,
        *,
        cron: str | None = None,
        call: Call | FlowBuilder | None = None,
        tz: str | None = None,
        catch_up: str | int | None = None,
        overlap: str | None = None,
        spread: Duration | bool | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> Schedule:
        """Change what is given of a schedule that was made at run time; occurrences that are due run as they are."""

        def change(row: ScheduleRow, now: int) -> ScheduleChange:
            _refuse_code(row)
            old = self._writer.open(row)
            expression = old.expression if cron is None else cron
            specification = self._writer.specification(
                name,
                expression,
                old if call is None else call,
                tz=old.zone if tz is None else tz,
                catch_up=old.catch_up if catch_up is None else catch_up,
                overlap=old.overlap if overlap is None else overlap,
                spread=old.spread if spread is None else spread,
            )
            new = self._row(specification, now)
            kept = _replace(new, paused_at=row.paused_at, missed=row.missed)
            taken = booked_ids(self._writer, row, after=now)
            return ScheduleChange(name=name, version=row.version, row=kept, take_back=taken)

        self._change(name, change, self._auditor.draft("update-schedule", by, ref=name, reason=reason))
        return self.get(name)

    def delete(self, name: str, *, by: str | None = None, reason: str = "") -> None:
        """Delete a schedule that was made at run time, and what is booked for it and has not begun."""

        def change(row: ScheduleRow, _: int) -> ScheduleChange:
            _refuse_code(row)
            taken = booked_ids(self._writer, row)
            return ScheduleChange(name=name, version=row.version, row=None, take_back=taken)

        self._change(name, change, self._auditor.draft("delete-schedule", by, ref=name, reason=reason))

    # Steering schedules of the code and of run time

    def pause(self, name: str, *, by: str | None = None, reason: str = "") -> bool:
        """Book nothing more for a schedule, everywhere and across deployments.  True if it was not paused."""

        def change(row: ScheduleRow, now: int) -> ScheduleChange | None:
            if row.paused_at is not None:
                return None
            taken = booked_ids(self._writer, row)
            return ScheduleChange(name=name, version=row.version, row=_replace(row, paused_at=now), take_back=taken)

        return self._change(name, change, self._auditor.draft("pause-schedule", by, ref=name, reason=reason))

    def resume(self, name: str, *, by: str | None = None, reason: str = "") -> bool:
        """Book a schedule again, from now on: what was missed while it was paused is not caught up."""

        def change(row: ScheduleRow, now: int) -> ScheduleChange | None:
            if row.paused_at is None:
                return None
            return ScheduleChange(name=name, version=row.version, row=_replace(row, paused_at=None, booked_until=now))

        return self._change(name, change, self._auditor.draft("resume-schedule", by, ref=name, reason=reason))

    def run_now(self, name: str, *, by: str | None = None, reason: str = "") -> JobHandle[Any] | FlowHandle:
        """Enqueue the job or the flow of a schedule once, now.  No tick is moved, and no policy of the schedule counts."""
        row, now = self._found(name)
        specification = self._writer.open(row)
        flow = self._writer.flow_of(specification)
        if flow is not None:
            members = self._writer.flow_now(flow)
            self._enqueue(members, name, by, reason)
            return FlowHandle(members[0].flow or "", self._flows)
        envelope = self._writer.job_now(specification, now)
        (answer,) = self._enqueue([envelope], name, by, reason)
        return self._flows.handles.handle(answer, envelope)

    def _enqueue(
        self, envelopes: Sequence[Envelope], name: str, by: str | None, reason: str
    ) -> builtins.list[Enqueued]:
        client, ids = self._flows.client, [envelope.id for envelope in envelopes]
        act = self._auditor.draft("run-schedule", by, jobs=ids, ref=name, reason=reason)
        if not act.audit:
            answers = client.enqueue(envelopes)
        else:
            answers = client.enqueue_by(partial(self._backend.enqueue, audit=act.audit), envelopes)
        act.done([answer.id for answer in answers if answer.created] or None)
        return answers

    def tick(self) -> int:
        """Book what is to be booked now, as a worker does every ten seconds; on ``sync://`` run it, too.

        Returns how many jobs were booked.
        """
        self._declarations.refuse_unmade()
        booked = self._booker.look()
        if self.run_due is not None:
            self.run_due()
        return booked

    # Looking

    def list(self) -> list[Schedule]:
        """Return every schedule that the store knows or the code declares, by name."""
        rows, now = self._rows()
        return [self._shown(row, now) for row in rows]

    def get(self, name: str) -> Schedule:
        """Return one schedule, or raise `ScheduleNotFound`."""
        row, now = self._found(name)
        return self._shown(row, now)

    def next_ticks(self, specification: Specification | None, number: int, now: int) -> builtins.list[datetime]:
        if specification is None:
            return []
        ticks = timetable_of(specification).after(now)
        return [from_micros(tick) for tick in islice(ticks, _bounded(number))]

    def last_jobs(self, specification: Specification | None, number: int) -> builtins.list[JobRecord]:
        if specification is None:
            return []
        before = timetable_of(specification).before(self._now() + 1)
        ids = ids_of(self._writer.namespace, specification.name, [*islice(before, _bounded(number) * _LOOKED_BACK)])
        stored = sorted(self._inspection.get_many(ids), key=lambda job: job.id, reverse=True)
        return [self._records.record(job) for job in stored if not job.tombstone][:number]

    # Steps

    @property
    def _store(self) -> Schedules:
        return cast("Schedules", self._backend)

    def _now(self) -> int:
        """Return the store's clock, which decides what is due."""
        return self._store.schedules().now

    def _rows(self) -> tuple[builtins.list[ScheduleRow], int]:
        """Return every row and the store's clock; what no worker has declared yet as it will be."""
        self._writer.refuse_without_schedules()
        self._declarations.refuse_unmade()
        seen = self._store.schedules()
        stored = {row.name for row in seen.rows}
        declared = [each for name, each in self._booker.declared.items() if name not in stored]
        rows = [*seen.rows, *(self._booker.row_of(each, seen.now) for each in declared)]
        return sorted(rows, key=lambda row: row.name), seen.now

    def _read(self, name: str) -> tuple[ScheduleRow | None, int, builtins.list[str]]:
        rows, now = self._rows()
        return next((row for row in rows if row.name == name), None), now, [row.name for row in rows]

    def _found(self, name: str) -> tuple[ScheduleRow, int]:
        row, now, known = self._read(name)
        if row is None:
            raise _not_found(name, known)
        return row, now

    def _row(self, specification: Specification, now: int) -> ScheduleRow:
        return self._writer.row(specification, now, origin="runtime", declared_at=now)

    def _change(self, name: str, make: Callable[[ScheduleRow, int], ScheduleChange | None], act: Draft) -> bool:
        """Change a row as it is found, again until no other process was faster.  False: there was nothing to change."""
        for _ in range(_TRIES):
            row, now, known = self._read(name)
            if row is None:
                raise _not_found(name, known)
            change = make(row, now)
            if change is None:
                return False
            if self._store.change_schedule(change, audit=act.audit):
                act.done(())
                self._booker.look_soon()
                return True
        raise BackendUnavailable(f"schedule {name!r} is changed by other processes all the time: try again")

    def _shown(self, row: ScheduleRow, now: int) -> Schedule:
        problem, found = row.damage, None
        try:
            found = self._writer.open(row)
        except EnvelopeError as error:
            problem = problem or str(error)
        letter = None if found is None else found.letter
        flow = None if found is None else found.flow
        return Schedule(
            name=row.name,
            origin=row.origin,
            cron=None if found is None else found.expression,
            tz=None if found is None else found.zone,
            job=None if letter is None else letter.name or letter.job,
            flow=flow,
            queue=None if letter is None else letter.queue,
            arguments=None if found is None else self._arguments(found),
            catch_up=None if found is None else found.catch_up,
            overlap=None if found is None else found.overlap,
            spread=None if found is None else found.spread,
            paused_at=None if row.paused_at is None else from_micros(row.paused_at),
            booked_until=from_micros(row.booked_until),
            missed=row.missed,
            problem=problem,
            _specification=found,
            _read_at=now,
            _control=self,
        )

    def _arguments(self, specification: Specification) -> Any:
        flow = self._writer.flow_of(specification)
        if flow is not None:
            return dict(Counter(member.node for member in flow.members))
        letter = specification.letter
        return masked(payload_of(letter), self._records.secrets(letter))


def _refuse_code(row: ScheduleRow) -> None:
    if row.origin == "code":
        raise ScheduleTaken(f"schedule {row.name!r} is declared by the code: change it there; pause() stops it")


def _not_found(name: str, known: Sequence[str]) -> ScheduleNotFound:
    hint = suggestion(str(name), known) if known else ": there is none yet"
    return ScheduleNotFound(f"there is no schedule {name!r:.80}{hint}")


def _bounded(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MOST_SHOWN:
        raise OptionError(f"ask for 0 to {_MOST_SHOWN:,} ticks, not {number!r:.60}")
    return number
