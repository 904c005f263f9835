"""Transfer between stores: move the jobs of a queue.  A move may be interrupted anywhere and run again.

Batch by batch: withhold at the source, accept at the target, forget at the source, admit at the target
(`onward.contract.transfer`). A copy at the target is admitted only after the source has let go of the job; a job that
changed at the source after it was copied stays there, and its copy is withdrawn.  So a run that was killed leaves jobs
at rest and nothing else:

    at rest at the source                copied again, whether or not there is a copy already
    at rest at the target, only          the source let go of it: admitted
    at rest at the target, but the       withdrawn: the source decides what becomes of it
      source still has it

The transit queue has a tag, which a paused queue of its name keeps at the source until all is done.  So a target tells the
jobs at rest of one source from those of another; and a store that shows the same mark at both ends is one store, not two.
"""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, runtime_checkable

import msgspec

from onward.backend import Inspection, Query, Renewal, Session, SessionState, StoredJob
from onward.base.clock import SECOND
from onward.base.ids import random_owner
from onward.contract.transfer import MOVABLE, Accepted, Movable, Parcel, Transit
from onward.errors import BackendMisconfigured, BackendRefused, BackendUnavailable, InvalidName
from onward.job.states import LIVE, State
from onward.version import __version__

__all__ = ["BATCH", "Moved", "Mover", "Tell", "TransferStore", "movable_queues", "waiting_in"]

BATCH = 500
_LONGEST = 100  # characters of a queue's name that every store can carry
_LEASE = timedelta(seconds=15)  # how long a mover that died keeps others away
_OWNER = "move-"
_LOOK_EVERY = 0.2  # seconds between two looks at what still runs
_ROUNDS = 10  # how often what changed while it was copied is copied again

Tell = Callable[[int], None]


@runtime_checkable
class TransferStore(Movable, Inspection, Protocol):
    """A store that jobs can move from or to."""

    def open_session(self, session: Session, *, adopts: str | None = None) -> object: ...

    def extend(self, owner: str) -> Renewal: ...

    def reap(self, *, owner: str | None = None) -> object: ...


class Moved(msgspec.Struct, kw_only=True):
    """What became of a queue's jobs."""

    queue: str
    moved: int = 0
    there: int = 0  # known at the target already: the source's copy was removed
    stayed: dict[str, str] = msgspec.field(default_factory=dict)  # by id, why
    running: int = 0
    before: int = 0  # jobs that can move, at both ends together and each counted once
    after: int = 0
    source_paused: bool = True  # still, at the end
    target_paused: bool = True

    @property
    def missing(self) -> int:
        """How many jobs fewer there are than before: cancelled or removed meanwhile, or run at the target."""
        return max(0, self.before - self.after)

    @property
    def is_complete(self) -> bool:
        counts = not self.missing or not self.target_paused  # where workers run them there, the count says nothing
        return self.source_paused and counts and not self.stayed and not self.running


def movable_queues(store: TransferStore) -> list[str]:
    """Every queue with something to move, or in the middle of a move."""
    names = {queue.name for queue in store.queues() if queue.live or Transit.parse(queue.name)}
    after = ""
    while page := store.list(Query(states=frozenset({State.DISCARDED}), after=after, limit=BATCH)):
        names |= {job.queue for job in page}
        after = page[-1].id
    return sorted({way.queue if (way := Transit.parse(name)) else name for name in names})


def waiting_in(store: TransferStore, queue: str) -> tuple[int, int]:
    """How many jobs of a queue can move, and how many run."""
    names = [queue, *(way.name for way in _ways(store, queue))]
    counts = [store.counts(name) for name in names]
    return sum(each[state] for each in counts for state in MOVABLE), sum(each[State.EXECUTING] for each in counts)


class Mover:
    """One move, from one store to another.  Only one at a time leaves a store."""

    def __init__(self, source: TransferStore, target: TransferStore, *, batch: int = BATCH) -> None:
        self._source = source
        self._target = target
        self._batch = batch
        self._owner = ""
        self._renewed = 0.0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Keep other movers away from the source meanwhile."""
        self._owner = f"{_OWNER}{random_owner()}"
        session = Session(
            owner=self._owner, lease_for=_LEASE, host=platform.node(), pid=os.getpid(), version=__version__
        )
        self._source.open_session(session)
        try:
            self._refuse_others()
            yield
        finally:
            self._source.reap(owner=self._owner)

    def move(self, queue: str, *, wait: float = 0.0, tell: Tell = lambda _: None) -> Moved:
        """Pause the queue at both ends, and move all that does not run; wait so many seconds for what does."""
        way = self._way(queue)
        self._source.pause(queue)
        self._target.pause(queue)
        report = Moved(queue=queue, before=self._count(way) - self._copies(way))
        deadline = time.monotonic() + wait
        for _ in range(_ROUNDS):
            self._finish_begun(way, report, tell)
            self._walk(way, report, tell)
            report.running = self._source.counts(queue)[State.EXECUTING]
            while report.running and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY)
                self._renew()
                report.running = self._source.counts(queue)[State.EXECUTING]
            if not self._left(way, report):
                break
        self._put_back(way, report)
        self._source.pause(way.name, paused=False)
        report.after = self._count(way) + report.there
        report.source_paused = self._is_paused(self._source, queue)
        report.target_paused = self._is_paused(self._target, queue)
        return report

    # The transit queue

    def _way(self, queue: str) -> Transit:
        """The transit queue, and its mark at the source: that of a move which did not end, or a new one."""
        known = _ways(self._source, queue)
        way = known[0] if known else Transit(secrets.token_hex(3), queue)
        if len(way.name) > _LONGEST:
            longest = _LONGEST - len(way.name) + len(queue)
            raise InvalidName(f"queue {queue!r} cannot move: its name may have {longest} characters at most")
        self._source.pause(way.name)
        if self._is_paused(self._target, way.name):
            if not known:
                self._source.pause(way.name, paused=False)
            raise BackendMisconfigured(
                "both URLs lead to the same store, or to a copy of it that was made in the middle of a move: name two stores"
            )
        return way

    def _is_paused(self, store: TransferStore, queue: str) -> bool:
        return any(each.paused for each in store.queues() if each.name == queue)

    # One at a time

    def _refuse_others(self) -> None:
        for other in self._source.sessions():
            if other.owner.startswith(_OWNER) and other.owner != self._owner:
                if not _is_dead(other):
                    raise BackendUnavailable(
                        f"another move from this store is under way (process {other.pid} on {other.host}), or was killed "
                        f"less than {_LEASE.seconds} seconds ago: try again then"
                    )
                self._source.reap(owner=other.owner)

    def _renew(self) -> None:
        if not self._owner or time.monotonic() < self._renewed + _LEASE.total_seconds() / 5:
            return
        self._renewed = time.monotonic()
        if not self._source.extend(self._owner).alive:
            raise BackendUnavailable(
                "this move slept so long that it was taken for dead, and another may have begun: run it again"
            )

    # Batches

    def _walk(self, way: Transit, report: Moved, tell: Tell) -> None:
        after = ""
        while page := self._source.withhold(way.queue, way.name, after=after, limit=self._batch):
            self._carry(way, page, report, tell)
            after = page[-1]

    def _carry(self, way: Transit, ids: Sequence[str], report: Moved, tell: Tell) -> None:
        """Copy them, let the source forget what was copied, and admit what it forgot."""
        self._renew()
        # A dead job whose id lives again stays: its record belongs to the other's.
        parcels = list({parcel.id: parcel for parcel in reversed(self._source.export(way.name, ids))}.values())
        answers = self._accept(way, parcels, report)
        copied = [parcel for parcel in parcels if parcel.id in answers]
        gone = set(self._source.forget(way.name, copied))
        stored = [parcel for parcel in copied if answers[parcel.id].stored]
        self._target.forget(way.name, [parcel for parcel in stored if parcel.id not in gone])
        arrived = [parcel.id for parcel in stored if parcel.id in gone]
        self._target.admit(way.name, way.queue, arrived)
        report.moved += len(arrived)
        report.there += len(gone) - len(arrived)
        tell(len(gone))

    def _accept(self, way: Transit, parcels: Sequence[Parcel], report: Moved) -> dict[str, Accepted]:
        """What the target knows now.  What it cannot take goes back to its queue."""
        try:
            answers = self._target.accept(way.name, parcels)
        except BackendRefused as error:
            if len(parcels) > 1:  # one of them: find out which
                half = len(parcels) // 2
                return self._accept(way, parcels[:half], report) | self._accept(way, parcels[half:], report)
            # A copy that an earlier move has left goes first.
            self._target.forget(way.name, self._target.export(way.name, [parcels[0].id]))
            self._keep(way, {parcels[0].id: str(error)}, report)
            return {}
        kept = {each.id: f"its unique key is held there by {each.holder}" for each in answers if each.holder}
        kept |= self._other_jobs(parcels, [each.id for each in answers if each.there])
        self._keep(way, kept, report)
        return {each.id: each for each in answers if each.id not in kept}

    def _other_jobs(self, parcels: Sequence[Parcel], there: Sequence[str]) -> dict[str, str]:
        """An id that is known there is that of the same job only if the bytes are; of a tombstone they are not kept."""
        if not there:
            return {}
        sealed = {parcel.id: parcel.sealed for parcel in parcels}
        known = self._target.list(Query(ids=tuple(there), limit=len(there)))
        return {job.id: "another job has its id there" for job in known if job.data != sealed[job.id]}

    def _keep(self, way: Transit, reasons: dict[str, str], report: Moved) -> None:
        self._source.admit(way.name, way.queue, sorted(reasons))
        report.stayed |= reasons

    # Moves that did not end

    def _finish_begun(self, way: Transit, report: Moved, tell: Tell) -> None:
        for page in self._at_rest(self._source, way):
            self._carry(way, page, report, tell)
        for page in self._at_rest(self._target, way):
            copies = self._target.export(way.name, page)
            revoked = self._revoked(way, copies)
            self._target.forget(way.name, revoked)
            sole = sorted({parcel.id for parcel in copies} - {parcel.id for parcel in revoked})
            report.moved += self._target.admit(way.name, way.queue, sole)
            tell(len(sole))

    def _revoked(self, way: Transit, copies: Sequence[Parcel]) -> list[Parcel]:
        """Those of these copies that the source has the jobs of."""
        ids = tuple(copy.id for copy in copies)
        known = {job.id: job for job in self._source.list(Query(ids=ids, limit=len(ids)))}
        return [copy for copy in copies if _has(known.get(copy.id), copy, way)]

    def _left(self, way: Transit, report: Moved) -> bool:
        """Whether there is anything that another round could move."""
        waiting = self._source.counts(way.queue)
        at_rest = self._source.counts(way.name)
        movable = sum(waiting[state] + at_rest[state] for state in MOVABLE)
        return movable > len(report.stayed) and self._is_paused(self._source, way.queue)

    def _put_back(self, way: Transit, report: Moved) -> None:
        """What could not go returns to its queue.  It has no copy any more."""
        self._finish_begun(way, report, lambda _: None)
        for page in self._at_rest(self._source, way):
            self._keep(way, dict.fromkeys(page, "it changed whenever it was copied"), report)

    def _at_rest(self, store: TransferStore, way: Transit) -> Iterator[list[str]]:
        """The ids of what is at rest there, page by page; what is at rest may change meanwhile."""
        after = ""
        while page := store.list(Query(queue=way.name, states=MOVABLE, after=after, limit=self._batch)):
            after = page[-1].id
            yield sorted({job.id for job in page})

    # Counting

    def _count(self, way: Transit) -> int:
        counts = [store.counts(name) for store in (self._source, self._target) for name in (way.queue, way.name)]
        return sum(each[state] for each in counts for state in MOVABLE)

    def _copies(self, way: Transit) -> int:
        """How many of the jobs at rest at the target are counted at the source, or are to be withdrawn."""
        pages = self._at_rest(self._target, way)
        return sum(len(self._revoked(way, self._target.export(way.name, page))) for page in pages)


def _has(known: StoredJob | None, copy: Parcel, way: Transit) -> bool:
    """Whether the source still has a job that was copied: on its way, in whatever state, or live with the same bytes.

    Any other record of its id is of an earlier job.
    """
    if known is None:
        return False
    return known.queue == way.name or (known.state in LIVE and known.data == copy.sealed)


def _ways(store: TransferStore, queue: str) -> list[Transit]:
    ways = [way for each in store.queues() if each.paused and (way := Transit.parse(each.name)) is not None]
    return [way for way in ways if way.queue == queue]


def _is_dead(other: SessionState) -> bool:
    """Whether that mover's process has ended, as far as this host can tell."""
    if other.expires_at <= time.time() * SECOND:
        return True
    if other.host != platform.node() or other.pid <= 0:
        return False
    try:
        os.kill(other.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
