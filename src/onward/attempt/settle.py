"""From outcomes to the store: settlements, and the turn that sends them.

The `Settler` halves a batch that the store refuses, or fails on with an unknown error, until the bad item is alone.  A
refused settlement affects no other and is never lost: the settler sends an abandon that says so instead; if the store
refuses even the dead letter, the job goes back for a minute, marked as spent, and only its dead letter is tried again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

import msgspec

from onward.attempt.attempt import Attempt
from onward.attempt.breakers import Breakers, opened_by
from onward.backend import Backend, Claim, Reaped, Turn, TurnResult
from onward.base import forks
from onward.base.failure import kind_of, message_of, stated, storable
from onward.base.lazy import platform
from onward.base.logs import get_logger
from onward.errors import BackendError, BackendRefused, BackendUnavailable
from onward.job.envelope import Envelope
from onward.job.lease import Lease
from onward.job.outcome import Cancelled, Crashed, Dead, Done, Parked, Released, RetryLater, Skipped, Snoozed
from onward.job.ran_by import RanBy
from onward.job.settlement import GateChange, Settled, Settlement
from onward.job.states import State
from onward.security.note_seals import NoteSeals
from onward.version import build

__all__ = ["Exchange", "Settler", "reaped_alone", "this_worker"]

logger = get_logger("onward")

_DEAD_LETTER_RETRY = 60.0

_Made = tuple[Settlement, Settled]


class Exchange(msgspec.Struct, frozen=True):
    """A turn's result with the settlements that were made: a refused one was replaced."""

    result: TurnResult
    settlements: Sequence[Settlement]


class Settler:
    """Turns outcomes into settlements and sends them to the store: one for all engines of an application."""

    def __init__(
        self,
        backend: Backend,
        seals: NoteSeals,
        dead_letter_copy: Callable[[Attempt, Dead], Envelope | None],
        breakers: Breakers,
        *,
        keep_completed: bool,
        drop_dead: bool,
    ) -> None:
        """Make one.  ``dead_letter_copy`` makes the copy for the dead-letter queue, if there is one.

        ``drop_dead``: a job whose dead letter is refused is cancelled instead of tried again.
        """
        self._backend = backend
        self._seals = seals
        self._encryption = seals.encryption
        self._dead_letter_copy = dead_letter_copy
        self._breakers = breakers
        self._keep = keep_completed
        self._drop_dead = drop_dead
        self._told: set[str] = set()  # jobs that raised Throttle and have no lane to shut
        self._begin_anew()
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        self._worker: RanBy | None = (
            None  # this process, once it is known: to ask the system for every failure takes long
        )

    @property
    def _here(self) -> RanBy:
        if self._worker is None:
            self._worker = this_worker()
        return self._worker

    def settlement(self, attempt: Attempt) -> Settlement:
        """Return the one move that an outcome means, and count it for the breaker of its job.

        Raises only `BackendUnavailable`: a dead letter is made of what the store knows.  Any other error would be repeated.
        """
        settlement = self._move(attempt)
        return settlement if attempt.blamed is None else self._breakers.applied(attempt, settlement)

    def _move(self, attempt: Attempt) -> Settlement:
        lease, failure, duration_ms = attempt.lease, attempt.failure, attempt.duration_ms
        match attempt.outcome:
            case Done():
                return Settlement.ack(
                    lease,
                    attempt.result,
                    reason=attempt.note,
                    failure=attempt.swallowed,
                    duration_ms=duration_ms,
                    keep=self._keep,
                    quotes=attempt.note is not None,
                    by=None if attempt.swallowed is None else this_worker(),
                )
            case RetryLater(delay):
                return Settlement.nack(lease, delay, failure=failure, duration_ms=duration_ms, by=self._here)
            case Skipped(reason):
                return Settlement.skip(lease, reason)
            case Dead(reason, _, ran) as dead:
                return Settlement.abandon(
                    lease,
                    storable(reason),
                    ran=ran,
                    failure=failure,
                    duration_ms=duration_ms,
                    dead_letter=self._dead_letter(attempt, dead),
                    quotes=dead.quotes,
                    by=this_worker(),
                )
            case Snoozed(delay, waits, awaits, notes, throttles):
                snooze = Settlement.snooze(lease, delay, waits=waits, awaits=awaits, notes=notes)
                return self._shutting_its_lane(attempt, snooze) if throttles else snooze
            case Parked(delay, reason):
                return Settlement.park(lease, delay, reason)
            case Cancelled(reason, ran):
                by = None if failure is None else this_worker()
                return Settlement.cancelled(lease, reason, ran=ran, failure=failure, duration_ms=duration_ms, by=by)
            case Released():
                return Settlement.release(lease)
            case Crashed(cause):
                return Settlement.crashed(lease, cause, by=this_worker())

    def _shutting_its_lane(self, attempt: Attempt, snooze: Settlement) -> Settlement:
        lane = attempt.lease.lane
        if lane is not None and not lane.startswith("/"):
            return msgspec.structs.replace(snooze, gate=GateChange(lane, snooze.delay))
        job = "" if attempt.letter is None else attempt.letter.job
        if job not in self._told:
            self._told.add(job)
            logger.warning(
                "job %s raised Throttle and has no limit: it is snoozed and others of it go on; give it limit=Limit(…)",
                job,
            )
        return snooze

    def completion(self, lease: Lease, result: bytes | None, note: str | None) -> Settlement:
        """Return the settlement of a job that its handler completes in a transaction, as it is stored."""
        item = Settlement.ack(lease, result, reason=note, keep=self._keep, quotes=note is not None)
        if (gate := opened_by(lease)) is not None:
            item = msgspec.structs.replace(item, gate=gate)
        return self._seals.settlement(item)

    def exchange(self, owner: str, settlements: Sequence[Settlement], claim: Claim | None = None) -> Exchange:
        """Make one turn.  Replaces a settlement that the store refuses."""
        try:
            return Exchange(self._turn(owner, settlements, claim), settlements)
        except BackendRefused as refusal:
            if not settlements:
                raise
            made = self._in_halves(owner, settlements, refusal)
        result = self._turn(owner, (), claim)
        answered = msgspec.structs.replace(result, settled=[settled for _, settled in made])
        return Exchange(answered, [each for each, _ in made])

    def _dead_letter(self, attempt: Attempt, dead: Dead) -> Envelope | None:
        try:
            return self._dead_letter_copy(attempt, dead)
        except BackendUnavailable:
            raise
        except Exception:
            job_id = attempt.lease.envelope.id
            logger.critical("job %s is discarded, but no dead letter can be made of it", job_id, exc_info=True)
            return None

    def _turn(self, owner: str, items: Sequence[Settlement], claim: Claim | None = None) -> TurnResult:
        try:
            stored = items
            # Only the store gets them encrypted: logs and events have them as they were.
            if self._encryption.enabled or any(item.lease.private or item.lease.member for item in items):
                stored = [self._seals.settlement(item) for item in items]
            return self._backend.turn(Turn(owner=owner, settlements=stored, claim=claim))
        except BackendError:
            raise
        except Exception as unexpected:
            if not items:
                raise
            # One job's data never ends a worker.
            raise _Unexpected(f"{kind_of(unexpected)}: {message_of(unexpected)}") from unexpected

    def _in_halves(self, owner: str, items: Sequence[Settlement], refusal: BackendRefused) -> list[_Made]:
        if len(items) == 1:
            alone = self._alone_unexpectedly if isinstance(refusal, _Unexpected) else self._alone
            return [alone(owner, items[0], refusal)]
        middle = len(items) // 2
        made: list[_Made] = []
        for half in (items[:middle], items[middle:]):
            try:
                made += zip(half, self._turn(owner, half).settled, strict=True)
            except BackendRefused as again:
                made += self._in_halves(owner, half, again)
        return made

    def _alone(self, owner: str, item: Settlement, refusal: BackendRefused) -> _Made:
        """Replace the one settlement that the store refuses: dead-letter the job, or at least keep it."""
        logger.error("the store refused the %s of job %s: %s", item.move, item.lease.envelope.id, refusal)
        for other in self._instead_of(item, refusal):
            try:
                return other, self._turn(owner, [other]).settled[0]
            except BackendRefused as again:
                refusal = again
        raise refusal

    def _alone_unexpectedly(self, owner: str, item: Settlement, refusal: BackendRefused) -> _Made:
        """Try the same settlement once more first: an unknown error may not come again, and a success is worth the try.

        If the store fails on every settlement, this job is not the cause, and the caller gets the store's own error.
        """
        for other in chain((item,), self._instead_of(item, refusal)):
            try:
                settled = self._turn(owner, [other]).settled[0]
            except BackendRefused:
                continue
            level = logging.ERROR if other is item else logging.CRITICAL
            text = "the store failed on the %s of job %s, which is now settled as %s: %s"
            logger.log(level, text, item.move, item.lease.envelope.id, other.move, refusal, exc_info=refusal.__cause__)
            return other, settled
        raise refusal.__cause__ or refusal

    def _instead_of(self, item: Settlement, refusal: BackendRefused) -> Iterator[Settlement]:
        """Yield replacements for a refused settlement, the best first."""
        lease, ran, took, by = item.lease, item.ran, item.duration_ms, this_worker()
        refused = stated("SettlementRefused", f"the store refused the {item.move} of this job: {refusal}")
        reason = (item.move == "abandon" and item.reason) or "settlement refused"
        quotes = item.quotes and item.move == "abandon"
        if item.move != "abandon":
            dead = Dead(reason, ran=ran)
            yield self.settlement(Attempt(lease=lease, outcome=dead, failure=refused, duration_ms=took))
        # Each with its own failure, then without: the failure may be what the store refuses.
        if self._drop_dead:
            told = f"dropped: its dead letter was refused ({reason})"
            for failure in dict.fromkeys((item.failure, None)):
                yield Settlement.cancelled(
                    lease, told, ran=ran, failure=failure, duration_ms=took, quotes=quotes, by=by
                )
        for failure in filter(None, (item.failure, refused)):
            yield Settlement.nack(
                lease, _DEAD_LETTER_RETRY, failure=failure, ran=ran, spent=reason, quotes=quotes, by=by
            )


def this_worker() -> RanBy:
    """Return where this process runs, for the records of runs."""
    return _worker(os.getpid())


@lru_cache(maxsize=1)
def _worker(pid: int) -> RanBy:
    return RanBy(platform.node(), pid, build())


class _Unexpected(BackendRefused):
    """The store, or the encryption of a settlement, failed with an error that no backend names."""


def reaped_alone(attempt: Attempt, went_to: State) -> Reaped:
    """Return a job that crashed in a process of its own, in the form of a reaped one."""
    assert isinstance(attempt.outcome, Crashed)
    lease = attempt.lease
    return Reaped(
        id=lease.envelope.id,
        queue=lease.envelope.queue,
        job=attempt.letter.job if attempt.letter is not None else "",
        token=lease.token,
        to=went_to,
        cause=attempt.outcome.cause,
        crashed=True,
        crashes=lease.crashes + 1,
    )
