"""Group commit: threads that enqueue at the same moment share one call of the store.

Every caller appends a ticket with its jobs to a list.  The thread that finds the commit lock free leads:
it stores the jobs of all tickets, and answers them.  On its way out it wakes the first of the answered callers, and each of
these wakes the next: woken all at once they would wait for the interpreter's lock together.  The last one wakes the first
caller that has come meanwhile, which leads next.  So those who enqueue one job after the other are back in time: all of
them share a commit, and none prepares its job while a leader waits for the interpreter's lock.
`GroupCommit` starts no thread, so there is none to stop, or to lose in a fork; and each caller returns only when its own job
is durable.

A signal handler that enqueues may have interrupted its own thread in here.  It never waits for what that thread holds: its
jobs go to the store by themselves, past the tickets and the commit lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from operator import attrgetter
from typing import Protocol

from onward.backend import Enqueued
from onward.base import forks
from onward.base.backoff import jittered
from onward.base.clock import until
from onward.errors import BackendError, BackendRefused, BackendUnavailable, BackendUnreachable, StoreFull
from onward.job.envelope import Envelope

__all__ = ["Enqueue", "GroupCommit"]

_LARGEST = (
    1_000  # envelopes per commit: enough to make the cost of a commit small, few enough to keep the store's lock short
)
_LOOK_AROUND = (
    0.1  # seconds after which a caller looks by itself whether a thread leads: an interrupted thread may miss a wake
)
_LONGEST_PAUSE = 1.0  # seconds between two tries
_CREATED = attrgetter("created")
_PER_JOB, _PER_BYTE = 1e-3, 1e-6  # seconds more for a batch, which takes its time even where the store answers


class Enqueue(Protocol):
    def __call__(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]: ...


class _Ticket:
    __slots__ = ("after", "answer", "deadline", "envelopes", "error", "left", "retried", "turn")

    def __init__(self, envelopes: Sequence[Envelope], deadline: float) -> None:
        self.envelopes = envelopes
        self.deadline = deadline
        self.answer: list[Enqueued] | None = None
        self.error: Exception | None = None
        self.retried = False
        self.after: _Ticket | None = None  # the next of its batch
        self.left = False  # whether its caller was interrupted
        self.turn = threading.Lock()  # held until the ticket is answered, or its caller may lead
        self.turn.acquire()

    @property
    def answered(self) -> bool:
        return self.answer is not None or self.error is not None

    def wake(self) -> None:
        try:  # noqa: SIM105  every caller passes through here
            self.turn.release()
        except RuntimeError:  # it is awake
            pass

    def wake_after(self) -> bool:
        """Wake the next caller of the batch, which wakes the one after it.  False if there is none."""
        ticket = self.after
        while ticket is not None and ticket.left:
            ticket = ticket.after
        if ticket is not None:
            ticket.wake()
        return ticket is not None


class GroupCommit:
    """Stores the envelopes of many threads with few calls of the store's `enqueue`."""

    _waking: bool  # callers of the last commit still wake each other: the next one begins after them

    def __init__(self, enqueue: Enqueue, *, timeout: float, repeats: bool = True) -> None:
        """Make one.  ``timeout``: how many seconds a caller waits for a store that does not answer.

        ``repeats``: the store knows ids, so that it is harmless to enqueue again what may have arrived.
        """
        self._enqueue = enqueue
        self._timeout = timeout
        self._repeats = repeats
        self._begin_anew()
        forks.call_in_child(self._begin_anew)

    def submit(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """Enqueue these, all or nothing, and return when they are durable."""
        if self._is_mine():
            return self._alone(envelopes)
        try:
            return self._submitted(envelopes, time.monotonic() + self._timeout + _allowance(envelopes))
        finally:
            # It is, if the caller was interrupted when it had the lock and before it could note that.
            if self._is_mine():
                self._commit_lock.release()

    def _submitted(self, envelopes: Sequence[Envelope], deadline: float) -> list[Enqueued]:
        # No ticket is needed where no other caller waits, nor is about to come back.
        if not self._tickets and not self._waking and self._commit_lock.acquire(blocking=False):
            try:
                return _own(self._persistently(envelopes, deadline, retried=False))
            finally:
                self._commit_lock.release()
                self._wake_next()  # in this order: a caller that comes after the look finds the lock free
        if self._tickets_are_mine():
            return self._alone(envelopes)
        ticket = _Ticket(envelopes, deadline)
        with self._tickets_lock:
            self._tickets.append(ticket)
        try:
            while not ticket.answered:
                if not self._waking and self._commit_lock.acquire(blocking=False):
                    self._lead(ticket)
                elif not ticket.turn.acquire(timeout=_LOOK_AROUND):
                    self._waking = False
        except BaseException:
            self._give_up(ticket)
            raise
        finally:
            if not ticket.wake_after():
                self._waking = False
                self._wake_next()  # in this order: a caller that comes after the look leads by itself
        if ticket.error is not None:
            raise ticket.error
        assert ticket.answer is not None
        return ticket.answer

    def _alone(self, envelopes: Sequence[Envelope]) -> list[Enqueued]:
        """Store the jobs of a signal handler that has interrupted this thread in here: without tickets, and in one try.

        A transaction that the handler has interrupted goes on only when the handler has returned: more tries would wait
        for it in vain.
        """
        try:
            with until(time.monotonic() + self._timeout + _allowance(envelopes)):
                return _own(self._enqueue(envelopes))
        except BackendError as error:
            told = _told_to_handler(error)
            told.of_signal_handler = True
            raise told from None if told is error else error

    def _begin_anew(self) -> None:
        """Forget the tickets: in the child of a fork they belong to threads that do not exist.

        No lock is held over a fork.  The leader may wait for the store's lock while it holds the commit lock, so a fork must
        not wait for the commit lock once it has the store's; and the store by itself lets a commit that has begun end first.
        """
        self._tickets: list[_Ticket] = []
        self._waking = False
        # Reentrant, and asked for their owner, so that a signal handler that enqueues does not wait for its own thread.
        self._tickets_lock = threading.RLock()
        self._tickets_are_mine: Callable[[], bool] = self._tickets_lock._is_owned  # type: ignore[attr-defined]  # noqa: SLF001
        self._commit_lock = threading.RLock()
        self._is_mine: Callable[[], bool] = self._commit_lock._is_owned  # type: ignore[attr-defined]  # noqa: SLF001

    def _lead(self, ticket: _Ticket) -> None:
        batch: list[_Ticket] = []
        try:
            while not ticket.answered:
                _wake_first(batch)
                batch = self._take(ticket)
                self._commit(batch)
        finally:
            self._commit_lock.release()
            if not self._waking:
                self._wake_next()

    def _give_up(self, ticket: _Ticket) -> None:
        """Remove the ticket of an interrupted caller; if that caller was to lead, let the next one."""
        ticket.left = True
        with self._tickets_lock:
            if ticket in self._tickets:
                self._tickets.remove(ticket)
        self._wake_next()

    def _wake_next(self) -> None:
        """Wake the first caller that waits: it leads, if the commit lock is free."""
        if self._tickets:
            with self._tickets_lock:
                if self._tickets:
                    self._tickets[0].wake()

    def _take(self, leader: _Ticket) -> list[_Ticket]:
        with self._tickets_lock:
            if leader not in self._tickets:  # another leader had taken it, and was interrupted before it could answer
                leader.retried = True
                self._tickets.insert(0, leader)
            taken, size = 0, 0
            for ticket in self._tickets:
                size += len(ticket.envelopes)
                if taken and size > _LARGEST:
                    break
                taken += 1
            batch = self._tickets[:taken]
            # Before any of them is answered: a caller that looks around by itself finds out which one to wake.
            chain = sorted(batch, key=lambda each: each is not leader)  # the leader begins: it is awake
            for ticket, after in zip(chain, (*chain[1:], None), strict=True):
                ticket.after = after
            self._tickets = self._tickets[taken:]
        return batch

    def _commit(self, batch: list[_Ticket]) -> None:
        try:
            self._store(batch)
        except BackendError as error:  # any other error is that of the leader, which others need not share
            if error.of_signal_handler:
                raise
            until_when = self._given_up_until(batch, error)
            for ticket in batch:
                if not ticket.answered and ticket.deadline <= until_when:
                    ticket.error = error
        finally:
            unanswered = [ticket for ticket in batch if not ticket.answered]
            self._waking = not unanswered
            # The leader was interrupted, or has no more time: the others must not wait for ever, nor be stored twice.
            if unanswered:
                for ticket in unanswered:
                    ticket.retried = True
                with self._tickets_lock:
                    self._tickets = unanswered + self._tickets
                for ticket in batch:
                    ticket.wake()

    def _store(self, batch: list[_Ticket]) -> None:
        envelopes = [envelope for ticket in batch for envelope in ticket.envelopes]
        deadline = min(ticket.deadline for ticket in batch)
        try:
            answers = _own(self._persistently(envelopes, deadline, retried=any(each.retried for each in batch)))
        except BackendRefused as refusal:
            if refusal.of_signal_handler:
                raise
            if len(batch) == 1:
                batch[0].error = refusal
                return
            # One caller's bad job is not another's error.  What was refused may be stored: by an error after the commit.
            for ticket in batch:
                ticket.retried = True
            middle = len(batch) // 2
            self._store(batch[:middle])
            self._store(batch[middle:])
            return
        start = 0
        for ticket in batch:
            end = start + len(ticket.envelopes)
            ticket.answer = answers[start:end]
            start = end

    def _persistently(self, envelopes: Sequence[Envelope], deadline: float, *, retried: bool) -> list[Enqueued]:
        """Repeat an enqueue until the store answers; the ids make that harmless."""
        unknown, pause = retried, 0.01
        while True:
            try:
                with until(deadline):
                    return self._enqueue(envelopes, retried=retried)
            except StoreFull:
                raise
            except BackendUnavailable as error:
                if not self._repeats or error.of_signal_handler:
                    raise
                unknown = unknown or not isinstance(error, BackendUnreachable)
                if time.monotonic() + pause > deadline:
                    raise self._given_up(error, unknown=unknown) from error
            time.sleep(jittered(pause))
            pause, retried = min(pause * 2, _LONGEST_PAUSE), True

    def _given_up(self, error: BackendUnavailable, *, unknown: bool) -> BackendUnavailable:
        """Return the error for a caller, which has to decide whether to enqueue again."""
        tried = f"{error}; gave up after enqueue_timeout, {self._timeout:g} s"
        if unknown:
            return BackendUnavailable(f"{tried}: the store did not answer, so the job may have been stored")
        return BackendUnreachable(f"{tried}: nothing was stored")

    def _given_up_until(self, batch: Sequence[_Ticket], error: Exception) -> float:
        """Return the last deadline of the callers that get the error.

        A batch fails when its first caller has no time left; callers that have much more go on with the next batch.
        """
        if not self._repeats or not isinstance(error, BackendUnavailable) or isinstance(error, StoreFull):
            return inf
        return min(ticket.deadline for ticket in batch) + _LONGEST_PAUSE


def _wake_first(batch: Sequence[_Ticket]) -> None:
    """Wake the first caller of a batch that is answered."""
    if batch:
        batch[0].wake()
        if batch[0].left:
            batch[0].wake_after()


def _told_to_handler(error: BackendError) -> BackendError:
    """Return the error of an enqueue that was tried once."""
    if isinstance(error, StoreFull) or not isinstance(error, BackendUnavailable):
        return error
    unreachable = isinstance(error, BackendUnreachable)
    return (BackendUnreachable if unreachable else BackendUnavailable)(
        f"{error}; tried once, by a signal handler that interrupted an enqueue of its own thread"
        f"{': nothing was stored' if unreachable else ', and the job may have been stored'}; "
        f"enqueue after the signal handler has returned, or from another thread"
    )


def _allowance(envelopes: Sequence[Envelope]) -> float:
    """Return the seconds that a batch may take beyond the time-out.  One job needs none."""
    if len(envelopes) == 1:
        return 0.0
    return len(envelopes) * _PER_JOB + sum(len(each.data) for each in envelopes) * _PER_BYTE


def _own(answers: Sequence[Enqueued]) -> list[Enqueued]:
    """Mark as `created` a job whose own id is the existing one: an earlier try stored it, and its answer was lost."""
    if all(map(_CREATED, answers)):
        return [*answers]
    return [Enqueued(answer.id) if answer.existing_id == answer.id else answer for answer in answers]
