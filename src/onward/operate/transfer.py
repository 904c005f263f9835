"""Transfer the jobs of a queue to another store.  It may be interrupted anywhere and run again.

The queue is reserved in both stores, so no job of it can run while it is in both.  Batch by batch: list at the source,
`restore` at the target, `remove` at the source (`onward.contract.transfer`).  A run that was killed is continued by the
next: what is still at the source is listed again, and its copy, if there is one, counts as arrived or is replaced.

The two reservations have one name and say what each store does:

    source     target      meaning
    prepares   -           there is no copy at any target yet, or no more
    prepares   receives    the same
    sends      receives    jobs may be in both
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from onward.backend import Inspection, Note, Query, StoredJob
from onward.base.lazy import secrets
from onward.contract.transfer import TRANSFERABLE, Attached, Restored, Transferable, version_of
from onward.errors import BackendMisconfigured, BackendRefused, BackendUnavailable, QueueReserved
from onward.job.states import State

__all__ = ["BATCH", "Advance", "Transfer", "TransferReport", "TransferStore", "count_jobs", "transferable_queues"]

BATCH = 500
_LOOK_EVERY = 0.2  # seconds between two looks at what still runs
_ROUNDS = 10  # how often what changed while it was copied is copied again
_LONGEST = 300  # characters of a name that are kept

Advance = Callable[[int], None]


@runtime_checkable
class TransferStore(Transferable, Inspection, Protocol):
    """A store that jobs can be transferred from or to."""


class TransferReport(msgspec.Struct, kw_only=True):
    """What became of a queue's jobs."""

    queue: str
    moved: int = 0
    there: int = 0  # run, or have ended, at the target: removed at the source
    stayed: dict[str, str] = msgspec.field(default_factory=dict)  # by id, why
    running: int = 0
    before: int = 0  # jobs that can be transferred, in both stores together and each counted once
    after: int = 0

    @property
    def missing(self) -> int:
        """How many jobs fewer there are than before: cancelled or removed meanwhile."""
        return max(0, self.before - self.after)

    @property
    def is_complete(self) -> bool:
        return not self.missing and not self.stayed and not self.running


def transferable_queues(store: TransferStore) -> list[str]:
    """Return every queue with jobs to transfer, or with a transfer that has not ended."""
    names = {queue.name for queue in store.queues() if queue.live or queue.reserved_for is not None}
    for page in _pages(store, None, frozenset({State.DISCARDED}), BATCH):
        names |= {job.queue for job in page}
    return sorted(names)


def count_jobs(store: TransferStore, queue: str) -> tuple[int, int]:
    """Return how many jobs of a queue can be transferred, and how many run."""
    counts = store.counts(queue)
    return sum(counts[state] for state in TRANSFERABLE), counts[State.EXECUTING]


class Transfer:
    """The way from one store to another.  ``name`` says to people who has reserved a queue."""

    def __init__(self, source: TransferStore, target: TransferStore, *, name: str = "", batch: int = BATCH) -> None:
        self._source = source
        self._target = target
        self._name = name
        self._batch = batch

    def move(self, queue: str, *, wait: float = 0.0, advance: Advance = lambda _: None) -> TransferReport:
        """Transfer all jobs of a queue that do not run; wait so many seconds for those that do.

        The queue stays paused in both stores.
        """
        reservations = _Reservations(self._source, self._target, queue)
        sends, receives = reservations.begin(self._name)
        run = _Run(self._source, self._target, queue, sends=sends.text, receives=receives.text, batch=self._batch)
        report = run.report
        if reservations.are_continued:
            run.withdraw_cancelled()
        deadline = time.monotonic() + wait
        for _ in range(_ROUNDS):
            run.carry_all(advance)
            report.running = self._running(queue)
            while report.running and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY)
                report.running = self._running(queue)
            if count_jobs(self._source, queue)[0] <= len(report.stayed):
                break
        run.withdraw_what_stays()
        report.after = run.count() + report.there
        reservations.end(sends, receives)
        return report

    def _running(self, queue: str) -> int:
        return count_jobs(self._source, queue)[1]


class _Reservation(NamedTuple):
    """For what a queue is reserved.  Every run of a transfer has its own number: an earlier one can write no more."""

    role: str  # "prepares", "sends" or "receives"
    transfer: str
    run: str
    name: str

    @property
    def text(self) -> str:
        return f"{self.role} {self.transfer}.{self.run} {self.name}"

    @classmethod
    def parse(cls, text: str | None) -> _Reservation | None:
        """
        >>> _Reservation.parse("sends 3f9a1c.0b2d to another store")
        _Reservation(role='sends', transfer='3f9a1c', run='0b2d', name='to another store')
        """
        if text is None:
            return None
        role, _, rest = text.partition(" ")
        numbers, _, name = rest.partition(" ")
        transfer, _, run = numbers.partition(".")
        return cls(role, transfer, run, name)


class _Reservations:
    """Reserve a queue in both stores, and end that, in an order that a killed process leaves no doubt about."""

    def __init__(self, source: TransferStore, target: TransferStore, queue: str) -> None:
        self._source = source
        self._target = target
        self._queue = queue
        self.are_continued = False  # whether an earlier run may have left copies

    def begin(self, name: str) -> tuple[_Reservation, _Reservation]:
        """Begin a transfer, or take over one that was not ended."""
        source, target = self._look(self._source), self._look(self._target)
        self._refuse_others(source, target)
        self.are_continued = source is not None and source.role == "sends"
        begun = source or _Reservation("prepares", secrets.token_hex(6), "", name[:_LONGEST])
        mine = begun._replace(run=secrets.token_hex(4))
        receives = mine._replace(role="receives")
        was_paused = any(queue.paused for queue in self._source.queues() if queue.name == self._queue)
        self._set(self._source, mine, was=source)
        if self._look(self._target) == mine:
            self._set(self._source, None, was=mine)
            if not was_paused:
                self._source.pause(self._queue, paused=False)
            raise BackendMisconfigured("both URLs lead to the same store: name two stores")
        self._set(self._target, receives, was=target)
        sends = mine._replace(role="sends")
        if mine != sends:
            self._set(self._source, sends, was=mine)
        return sends, receives

    def end(self, sends: _Reservation, receives: _Reservation) -> None:
        """End a transfer.  No job is in both stores."""
        prepares = sends._replace(role="prepares")
        self._set(self._source, prepares, was=sends)
        self._set(self._target, None, was=receives)
        self._set(self._source, None, was=prepares)

    def _refuse_others(self, source: _Reservation | None, target: _Reservation | None) -> None:
        if source is not None and source.role == "receives":
            raise QueueReserved(self._queue, source.text)
        if target is not None and (source is None or target.transfer != source.transfer):
            raise QueueReserved(self._queue, target.text)
        if target is not None and target.role != "receives":
            raise BackendMisconfigured("the target is the source, or a copy of it: name two stores")
        if source is not None and source.role == "sends" and target is None:
            raise QueueReserved(self._queue, f"{source.text}; it went to another store")

    def _look(self, store: TransferStore) -> _Reservation | None:
        for queue in store.queues():
            if queue.name == self._queue:
                return _Reservation.parse(queue.reserved_for)
        return None

    def _set(self, store: TransferStore, reservation: _Reservation | None, *, was: _Reservation | None) -> None:
        text = None if reservation is None else reservation.text
        if not store.reserve(self._queue, text, was=None if was is None else was.text):
            raise BackendUnavailable(
                f"queue {self._queue!r} was reserved anew meanwhile: another process has continued this transfer, or an "
                f"operator has ended it; run the command again"
            )


class _Run:
    """One run of a transfer, between reserved queues."""

    def __init__(
        self, source: TransferStore, target: TransferStore, queue: str, *, sends: str, receives: str, batch: int
    ) -> None:
        self._source = source
        self._target = target
        self._queue = queue
        self._sends = sends
        self._receives = receives
        self._batch = batch
        self.report = TransferReport(queue=queue, before=self.count())

    def count(self) -> int:
        return sum(count_jobs(store, self._queue)[0] for store in (self._source, self._target))

    def carry_all(self, advance: Advance) -> None:
        """Transfer what waits or is dead, in the order of ids."""
        self.report.stayed.clear()
        for jobs in _pages(self._source, self._queue, TRANSFERABLE, self._batch):
            advance(self._carry(jobs))

    def withdraw_cancelled(self) -> None:
        """Remove the copies of jobs that were cancelled at the source after an earlier run had copied them."""
        for jobs in _pages(self._source, self._queue, frozenset({State.CANCELLED}), self._batch):
            self.report.before -= self._withdraw(jobs)

    def withdraw_what_stays(self) -> None:
        """Remove the copies of jobs that could not be removed at the source: they changed whenever they were copied."""
        for jobs in _pages(self._source, self._queue, TRANSFERABLE | {State.EXECUTING}, self._batch):
            self.report.before -= self._withdraw(jobs)
            for job in jobs:
                if job.state is not State.EXECUTING:
                    self.report.stayed.setdefault(job.id, "it changed, or was enqueued, during the transfer")

    def _carry(self, jobs: Sequence[StoredJob]) -> int:
        """Restore a batch at the target and remove it at the source; return how many are gone from there.

        Members of flows stay: alone in another store they would wait for ever, or their flow for them.
        """
        self.report.stayed |= {job.id: f"it belongs to flow {job.flow}, which stays" for job in jobs if job.flow}
        jobs = [job for job in jobs if job.flow is None]
        if not jobs:
            return 0
        attached = self._source.attached(jobs)
        arrived = self._restore(jobs, attached)
        moved = {answer.id for answer in arrived if answer.stored}
        gone = self._source.remove(self._sends, _of(jobs, {answer.id for answer in arrived}), attached)
        self.report.moved += len(moved.intersection(gone))
        self.report.there += len(set(gone) - moved)
        if changed := {answer.id for answer in arrived}.difference(gone):
            self._withdraw(self._source.list(Query(ids=tuple(changed), limit=len(changed))))
        return len(gone)

    def _restore(self, jobs: Sequence[StoredJob], attached: Attached) -> list[Restored]:
        """Return the answers for those that may be removed at the source; the report says why others stay."""
        answers = self._stored(jobs, attached)
        for answer in answers:
            if answer.holder is not None:
                self.report.stayed[answer.id] = f"its unique key is held there by {answer.holder}"
        known = _of(jobs, {answer.id for answer in answers if not answer.stored and answer.holder is None})
        return [answer for answer in answers if answer.stored] + self._compared(known, attached)

    def _stored(self, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[Restored]:
        """Store jobs at the target; one that it refuses stays, and the others go on."""
        try:
            return self._target.restore(self._receives, jobs, attached)
        except BackendRefused as error:
            if len(jobs) > 1:  # one of them: find out which
                half = len(jobs) // 2
                return [*self._stored(jobs[:half], attached), *self._stored(jobs[half:], attached)]
            self.report.stayed[jobs[0].id] = str(error)
            return []

    def _compared(self, jobs: Sequence[StoredJob], attached: Attached) -> list[Restored]:
        """Decide about jobs whose ids the target knows: a copy that differs is replaced."""
        if not jobs:
            return []
        there = {job.id: job for job in self._target.list(Query(ids=tuple(job.id for job in jobs), limit=len(jobs)))}
        notes_there = self._target.attached([*there.values()]).notes
        arrived, outdated = [], []
        for job in jobs:
            copy = there.get(job.id)
            if copy is not None and copy.data != job.data:
                self.report.stayed[job.id] = "another job has its id there"
            elif copy is None or copy.state not in TRANSFERABLE:  # a tombstone, or it runs or has ended there
                arrived.append(Restored(job.id, stored=False))
            elif _is_up_to_date(copy, job, notes_there.get(job.id, ()), attached.notes.get(job.id, ())):
                self.report.before -= 1  # it was counted in both
                arrived.append(Restored(job.id))
            else:
                outdated.append(copy)
        if outdated:
            self.report.before -= self._remove_copies(outdated)
            again = _of(jobs, {copy.id for copy in outdated})
            arrived += [answer for answer in self._stored(again, attached) if answer.stored]
        return arrived

    def _withdraw(self, jobs: Iterable[StoredJob]) -> int:
        """Remove the copies of these jobs of the source; return how many there were."""
        known = {job.id: job for job in jobs}
        if not known:
            return 0
        found = self._target.list(Query(ids=tuple(known), queue=self._queue, states=TRANSFERABLE, limit=len(known)))
        copies = [copy for copy in found if copy.data == known[copy.id].data]
        return self._remove_copies(copies)

    def _remove_copies(self, copies: Sequence[StoredJob]) -> int:
        return len(self._target.remove(self._receives, copies, self._target.attached(copies))) if copies else 0


def _is_up_to_date(copy: StoredJob, job: StoredJob, there: Sequence[Note], here: Sequence[Note]) -> bool:
    """Return whether a copy is the job as it is at the source, or was signalled at the target since."""
    if all(note in there for note in here) and len(there) > len(here):
        return True
    return version_of(copy) == version_of(job) and list(there) == list(here)


def _of(jobs: Sequence[StoredJob], ids: set[str]) -> list[StoredJob]:
    return [job for job in jobs if job.id in ids]


def _pages(
    store: TransferStore, queue: str | None, states: frozenset[State], limit: int
) -> Iterator[Sequence[StoredJob]]:
    """Walk along the ids, each seen once; jobs may come and go meanwhile."""
    after = ""
    while page := store.list(Query(queue=queue, states=states, after=after, limit=limit)):
        yield list({job.id: job for job in page}.values())
        after = page[-1].id
