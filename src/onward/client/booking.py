"""Booking ticks ahead: what a ticker does at every look.

    read every schedule, and the store's clock with them
    declare what the code declares and the store does not know, or knows from an older deployment
    book the ticks of the next minute, each schedule in one change that compares its version

There is no leader.  Of two processes that look at once, one changes a row; the other writes nothing and looks again later.
A process books a schedule of the code only if it declares it itself, in the same words; and one that was made at run time
only if it knows the job, or all jobs of the flow.  So a schedule that left the code ends with its last process, and a
deployment that is half done books nothing that no worker can run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from onward.backend import Backend, ScheduleChange, ScheduleRow, ScheduleRows, Schedules
from onward.base.clock import SECOND, Clock
from onward.base.logs import Once, get_logger
from onward.base.wording import counted
from onward.client.schedules import ScheduleWriter
from onward.errors import BackendError, BackendUnavailable, DecryptionKeyMissing, EnvelopeError
from onward.flow.schedule import Booking, Pace, Specification, ids_of, plan, ticks_booked, timetable_of
from onward.job.envelope import Envelope
from onward.job.registry import Registry
from onward.telemetry import ScheduleRejected, Telemetry, TicksMissed

__all__ = ["Booker", "booked_ids"]

logger = get_logger("onward.schedules")

_SEEN_EVERY = 1800 * SECOND
_ABANDONED_AFTER = 7200 * SECOND  # a newer declaration that no running process has
_GONE_AFTER = 7 * 86_400 * SECOND
_replace = msgspec.structs.replace


class Booker:
    """Declares the schedules of one application and books their ticks."""

    def __init__(
        self,
        backend: Backend,
        writer: ScheduleWriter,
        registry: Registry,
        telemetry: Telemetry,
        *,
        clock: Clock,
        booked: Callable[[Sequence[Envelope]], None],
        every: float = 10.0,
        pace: Pace | None = None,
    ) -> None:
        """``booked``: counts and tells what was stored.  ``every``: the seconds between two looks of `look_if_due`."""
        self.declared: dict[str, Specification] = {}
        self.declared_at = clock.micros()  # when this deployment started: its supervisor says so where there is one
        self._backend = backend
        self._writer = writer
        self._registry = registry
        self._telemetry = telemetry
        self._clock = clock
        self._booked = booked
        self._every = round(every * SECOND)
        self.pace = pace or Pace()
        self._looked_at: int | None = None
        self._quiet: dict[
            str, tuple[int, int, int]
        ] = {}  # by name: of this version nothing is to be booked from, until
        self._held: set[str] = set()  # declarations of this process that the store has had
        self._say_once = Once()

    @property
    def _store(self) -> Schedules:
        return cast("Schedules", self._backend)

    def look_soon(self) -> None:
        """Let the next `look_if_due` look: a schedule was declared or changed here."""
        self._looked_at = None

    def look_if_due(self) -> int:
        """Look, unless that was done a moment ago.  For programs that run jobs themselves, one after the other."""
        now, last = self._clock.micros(), self._looked_at
        if last is not None and 0 <= now - last < self._every:
            return 0
        return self.look()

    def look(self) -> int:
        """Declare and book.  Returns how many jobs were booked.  Threads that look at once harm each other no more than
        processes do.
        """
        if not self._backend.capabilities.schedules:
            return 0
        self._looked_at = self._clock.micros()
        seen = self._store.schedules()
        # Each of both writes what the other does not.
        if any([self._declare_all(seen), self._renew_all(seen)]):
            seen = self._store.schedules()
        booked = sum(self._one(row, seen.now) for row in seen.rows)
        self._keep_declared(seen)
        return booked

    def _one(self, row: ScheduleRow, now: int) -> int:
        """Book one schedule.  What is wrong with it stops no other one."""
        try:
            return self._book(row, now)
        except BackendUnavailable:
            raise
        except Exception as error:
            if self._say_once(row.name, str(row.version), type(error).__name__):
                logger.exception("schedule %s is not booked", row.name)
            return 0

    # Booking

    def _book(self, row: ScheduleRow, now: int) -> int:
        version, since, until = self._quiet.get(row.name, (0, 0, 0))
        if row.paused_at is not None or (version == row.version and since <= now < until):
            return 0
        specification = self._bookable(row)
        if specification is None:
            return 0
        ticks = timetable_of(specification)
        booking = plan(ticks, specification.catch_up, booked_until=row.booked_until, now=now, pace=self.pace)
        if booking is None:
            following = next(ticks.after(max(row.booked_until, now)), None)
            quiet_until = now + self.pace.ahead if following is None else following - self.pace.ahead
            self._quiet[row.name] = row.version, now, quiet_until
            return 0
        envelopes = self._writer.jobs(specification, booking.ticks)
        booked = _replace(row, booked_until=booking.until, missed=row.missed + booking.missed)
        change = ScheduleChange(name=row.name, version=row.version, row=booked, envelopes=envelopes)
        if not self._store.change_schedule(change):
            return 0  # another process came first
        self._booked(envelopes)
        self._tell(row, booking, now)
        return len(envelopes)

    def _tell(self, row: ScheduleRow, booking: Booking, now: int) -> None:
        if booking.started_over:
            ahead = (row.booked_until - now) // SECOND
            logger.error(
                "schedule %s was booked %d s ahead of the store's clock, which must have been set back: it starts over",
                row.name,
                ahead,
            )
        if booking.missed:
            logger.warning("schedule %s has missed %s", row.name, counted(booking.missed, "tick"))
            self._telemetry.emit(TicksMissed(schedule=row.name, missed=booking.missed))

    def _bookable(self, row: ScheduleRow) -> Specification | None:
        """Return what this process may book of a row."""
        if row.damage is not None:
            self._reject(row, row.damage)
            return None
        if row.origin == "code" and not self._is_mine(row):
            return None
        found = self._opened(row)
        if found is None or row.origin == "code":
            return found and self.declared[row.name]
        flow = self._writer.flow_of(found)
        jobs = {found.letter.job} if flow is None else {member.letter.job for member in flow.members}
        return found if all(self._registry.find(job) is not None for job in jobs) else None

    def _opened(self, row: ScheduleRow) -> Specification | None:
        """Read a specification; say why it cannot be."""
        try:
            return self._writer.open(row)
        except DecryptionKeyMissing as error:
            if self._say_once(row.name, "locked"):
                logger.error("schedule %s is not booked here: %s", row.name, error)  # noqa: TRY400
        except EnvelopeError as error:
            self._reject(row, str(error))
        return None

    def _reject(self, row: ScheduleRow, problem: str) -> None:
        if self._say_once(row.name, str(row.version), problem):
            logger.critical("schedule.rejected %s is not booked: %s", row.name, problem)
            self._telemetry.emit(ScheduleRejected(schedule=row.name, problem=problem))

    # Declaring

    def _declare_all(self, seen: ScheduleRows) -> bool:
        rows = {row.name: row for row in seen.rows}
        changed = False
        for declared in list(self.declared.values()):
            try:
                change = self._declaration(declared, rows.get(declared.name), seen.now)
                if change is not None:
                    self._store.change_schedule(change)  # False: another process came first
                    changed = True
            except BackendUnavailable:
                raise
            except Exception as error:
                if self._say_once(declared.name, "declaring", type(error).__name__):
                    logger.exception("schedule %s cannot be declared", declared.name)
        return changed

    def _renew_all(self, seen: ScheduleRows) -> bool:
        """Seal with the key of now what an older one has sealed.  Paused ones too: they live long."""
        changed = False
        for row in seen.rows:
            sealed = self._writer.renewed(row)
            if sealed is not None and row.damage is None:
                change = ScheduleChange(name=row.name, version=row.version, row=_replace(row, sealed=sealed))
                changed |= self._store.change_schedule(change)
        return changed

    def _declaration(self, declared: Specification, row: ScheduleRow | None, now: int) -> ScheduleChange | None:
        """Return what makes the store know a schedule of the code; None if it does, or knows better."""
        name, fingerprint = declared.name, self._writer.fingerprint(declared)
        if row is None:
            return ScheduleChange(name=name, version=0, row=self.row_of(declared, now))
        if row.origin != "code":
            if self._say_once(name, "taken"):
                logger.error("schedule %s of the code is not booked: one of this name was made at run time", name)
            return None
        if row.fingerprint == fingerprint:
            self._held.add(name)
            if row.declared_at >= self.declared_at:
                return None
            if row.damage is None:
                self._opened(row)  # what was tampered with is told, before it is replaced
            told = _replace(row, declared_at=self.declared_at, sealed=self._writer.seal(declared))
            return ScheduleChange(name=name, version=row.version, row=told)
        # Of one supervisor's processes, the one that was replaced by another code yields to it.
        is_newer = row.declared_at > self.declared_at or (row.declared_at == self.declared_at and name in self._held)
        if is_newer and now - row.seen_at <= _ABANDONED_AFTER:
            self._say_newer(declared, row)
            return None
        if is_newer:
            logger.warning("schedule %s is declared anew: no process of the newer deployment is left", name)
        replaced = _replace(self.row_of(declared, now), paused_at=row.paused_at, missed=row.missed)
        taken = booked_ids(self._writer, row, after=now)
        return ScheduleChange(name=name, version=row.version, row=replaced, take_back=taken)

    def row_of(self, declared: Specification, now: int) -> ScheduleRow:
        """Return the row of a schedule of the code, as it is stored first."""
        return self._writer.row(declared, now, origin="code", declared_at=self.declared_at)

    def _say_newer(self, declared: Specification, row: ScheduleRow) -> None:
        if not self._say_once(row.name, row.fingerprint):
            return
        try:
            theirs = self._writer.open(row).letter.job
        except EnvelopeError:
            theirs = "one that cannot be read here"
        logger.warning(
            "schedule %s is declared otherwise by a newer deployment (job %s there, %s here), and that one counts: if these "
            "are two applications, give one of them another name= or namespace",
            row.name,
            theirs,
            declared.letter.job,
        )

    def _is_mine(self, row: ScheduleRow) -> bool:
        """Return whether this process declares a row of the code, in the same words."""
        declared = self.declared.get(row.name) if row.origin == "code" else None
        return declared is not None and self._writer.fingerprint(declared) == row.fingerprint

    def _keep_declared(self, seen: ScheduleRows) -> None:
        """Say which rows are declared here; remove those of the code that no process has declared for long."""
        unseen = [row.name for row in seen.rows if abs(seen.now - row.seen_at) > _SEEN_EVERY and self._is_mine(row)]
        if unseen:
            self._store.schedules_seen(unseen)
        for row in seen.rows:
            if row.damage is not None or row.origin != "code" or row.name in self.declared:
                continue
            if seen.now - row.seen_at > _GONE_AFTER:
                logger.info("schedule %s is removed: no process has declared it for a week", row.name)
                self._store.change_schedule(ScheduleChange(name=row.name, version=row.version, row=None))


def booked_ids(writer: ScheduleWriter, row: ScheduleRow, *, after: int | None = None) -> list[str]:
    """Return the ids of the jobs that may be booked for a row, those of the ticks after an instant if one is given.

    None if the row cannot be read: what is booked for it then runs.
    """
    try:
        ticks = timetable_of(writer.open(row))
    except (EnvelopeError, BackendError):
        return []
    return ids_of(writer.namespace, row.name, ticks_booked(ticks, booked_until=row.booked_until, after=after))
