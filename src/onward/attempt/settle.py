"""From outcomes to the store: settlements, and the turn that carries them.

A batch that the store refuses, or fails on in a way that it does not know itself, is halved until the bad item stands
alone.  A refused item never takes others with it and is never lost: it becomes an abandon that says so; if even its dead
letter is refused, the job goes back for a minute, marked as spent, and only its dead letter is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import msgspec

from onward.attempt.attempt import Attempt
from onward.backend import Backend, Claim, Reaped, Turn, TurnResult
from onward.base.failure import Failure, kind_of, message_of, storable
from onward.base.logs import get_logger
from onward.errors import BackendError, BackendRefused, BackendUnavailable
from onward.job.envelope import Envelope
from onward.job.outcome import Cancelled, Crashed, Dead, Done, Parked, Released, RetryLater, Skipped, Snoozed
from onward.job.settlement import Settled, Settlement
from onward.job.states import State

__all__ = ["DeadLetterCopy", "Exchange", "exchange", "reaped_alone", "settlement"]

logger = get_logger("onward")

_DEAD_LETTER_RETRY = 60.0

DeadLetterCopy = Callable[[Attempt, Dead], Envelope | None]
Protect = Callable[[Settlement], Settlement]  # a settlement as it is stored
_Take = Callable[[Sequence[Settlement], Claim | None], TurnResult]  # one turn of one session


def settlement(attempt: Attempt, *, keep: bool, dead_letter_copy: DeadLetterCopy) -> Settlement:
    """The one move that an outcome means.

    Raises only `BackendUnavailable`: a dead letter is made of what the store knows.  Whatever else goes wrong would again.
    """
    try:
        return _move(attempt, keep=keep, dead_letter_copy=dead_letter_copy)
    except BackendUnavailable:
        raise
    except Exception:
        job_id = attempt.lease.envelope.id
        logger.critical("job %s is discarded, but no dead letter can be made of it", job_id, exc_info=True)
        return _move(attempt, keep=keep, dead_letter_copy=_no_copy)


def _move(attempt: Attempt, *, keep: bool, dead_letter_copy: DeadLetterCopy) -> Settlement:
    lease, failure, duration_ms = attempt.lease, attempt.failure, attempt.duration_ms
    match attempt.outcome:
        case Done():
            item = Settlement.ack(
                lease,
                attempt.result,
                reason=attempt.note,
                failure=attempt.swallowed,
                duration_ms=duration_ms,
                keep=keep,
            )
            return _quoting(item, quotes=attempt.note is not None)
        case Skipped(reason):
            return Settlement.skip(lease, reason)
        case RetryLater(delay):
            return Settlement.nack(lease, delay, failure=failure, duration_ms=duration_ms)
        case Dead(reason, _, ran) as dead:
            copy = dead_letter_copy(attempt, dead)
            item = Settlement.abandon(
                lease, storable(reason), ran=ran, failure=failure, duration_ms=duration_ms, dead_letter=copy
            )
            return _quoting(item, quotes=dead.quotes)
        case Snoozed(delay, waits):
            return Settlement.snooze(lease, delay, waits=waits)
        case Parked(delay, reason):
            return Settlement.park(lease, delay, reason)
        case Cancelled(reason, ran):
            return Settlement.cancelled(lease, reason, ran=ran, failure=failure, duration_ms=duration_ms)
        case Released():
            return Settlement.release(lease)
        case Crashed(cause):
            return Settlement.crashed(lease, cause)


def _quoting(item: Settlement, *, quotes: bool) -> Settlement:
    return msgspec.structs.replace(item, quotes=True) if quotes else item


def reaped_alone(attempt: Attempt, went_to: State) -> Reaped:
    """A job that crashed in a process of its own, told as if its session had been reaped."""
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


def _no_copy(attempt: Attempt, dead: Dead) -> None:
    """There is no dead-letter queue."""


def _as_it_is(item: Settlement) -> Settlement:
    return item


class Exchange(msgspec.Struct, frozen=True):
    """A turn's result with the settlements that were really made: a refused one was replaced."""

    result: TurnResult
    settlements: Sequence[Settlement]


def exchange(
    backend: Backend,
    owner: str,
    settlements: Sequence[Settlement],
    claim: Claim | None = None,
    *,
    drop_dead: bool = False,
    dead_letter_copy: DeadLetterCopy = _no_copy,
    protect: Protect = _as_it_is,
) -> Exchange:
    """One turn.  ``drop_dead``: a job whose dead letter is refused is cancelled instead of tried again.

    Only the store sees what ``protect`` makes of a settlement: logs and events tell it as it was.
    """

    def take(items: Sequence[Settlement], claim: Claim | None = None) -> TurnResult:
        try:
            return backend.turn(Turn(owner=owner, settlements=[protect(item) for item in items], claim=claim))
        except BackendError:
            raise
        except Exception as unexpected:
            if not items:
                raise
            # The last net: what one job carries does not end a worker.
            raise _Unexpected(f"{kind_of(unexpected)}: {message_of(unexpected)}") from unexpected

    try:
        return Exchange(take(settlements, claim), settlements)
    except BackendRefused as refusal:
        if not settlements:
            raise
        instead = _Instead(drop_dead, dead_letter_copy)
        made = _in_halves(take, settlements, refusal, instead)
    result = take((), claim)
    answered = msgspec.structs.replace(result, settled=[settled for _, settled in made])
    return Exchange(answered, [each for each, _ in made])


class _Unexpected(BackendRefused):
    """The store, or what is done to a settlement on its way there, failed in a way that nobody knows."""


def _in_halves(
    take: _Take, items: Sequence[Settlement], refusal: BackendRefused, instead: _Instead
) -> list[tuple[Settlement, Settled]]:
    if len(items) == 1:
        return [_alone(take, items[0], refusal, instead)]
    middle = len(items) // 2
    made: list[tuple[Settlement, Settled]] = []
    for half in (items[:middle], items[middle:]):
        try:
            made += zip(half, take(half, None).settled, strict=True)
        except BackendRefused as again:
            made += _in_halves(take, half, again, instead)
    return made


def _alone(take: _Take, item: Settlement, refusal: BackendRefused, instead: _Instead) -> tuple[Settlement, Settled]:
    """The store refuses this very settlement: dead-letter the job, or at the least keep it."""
    if isinstance(refusal, _Unexpected):
        return _alone_unexpectedly(take, item, refusal, instead)
    logger.error("the store refused the %s of job %s: %s", item.move, item.lease.envelope.id, refusal)
    for other in instead.of(item, refusal):
        try:
            return other, take([other], None).settled[0]
        except BackendRefused as again:
            refusal = again
    raise refusal


def _alone_unexpectedly(
    take: _Take, item: Settlement, refusal: _Unexpected, instead: _Instead
) -> tuple[Settlement, Settled]:
    """What nobody knows may have been a passing fault, and a success is not given up for that: it is tried again first.

    If the store fails on everything, it is not this job's doing, and whoever called is told what happened.
    """
    for other in chain((item,), instead.of(item, refusal)):
        try:
            settled = take([other], None).settled[0]
        except BackendRefused:
            continue
        level = logging.ERROR if other is item else logging.CRITICAL
        text = "the store failed on the %s of job %s, which is now settled as %s: %s"
        logger.log(level, text, item.move, item.lease.envelope.id, other.move, refusal, exc_info=refusal.__cause__)
        return other, settled
    raise refusal.__cause__ or refusal


class _Instead(msgspec.Struct, frozen=True):
    """What takes the place of a refused settlement."""

    drop_dead: bool
    dead_letter_copy: DeadLetterCopy

    def of(self, item: Settlement, refusal: BackendRefused) -> Iterator[Settlement]:
        """The best first."""
        lease, ran = item.lease, item.ran
        unsettleable = Failure("Unsettleable", storable(f"the store refused its {item.move}: {refusal}"))
        reason = (item.move == "abandon" and item.reason) or "unsettleable"
        quotes = item.quotes and item.move == "abandon"
        if item.move != "abandon":
            dead = Attempt(
                lease=lease, outcome=Dead(reason, ran=ran), failure=unsettleable, duration_ms=item.duration_ms
            )
            yield settlement(dead, keep=True, dead_letter_copy=self.dead_letter_copy)
        if self.drop_dead:
            told = f"dropped: its dead letter was refused ({reason})"
            if item.failure is not None:
                kept = Settlement.cancelled(lease, told, ran=ran, failure=item.failure, duration_ms=item.duration_ms)
                yield _quoting(kept, quotes=quotes)
            yield _quoting(Settlement.cancelled(lease, told, ran=ran, duration_ms=item.duration_ms), quotes=quotes)
        if item.failure is not None:
            own = Settlement.nack(lease, _DEAD_LETTER_RETRY, failure=item.failure, ran=ran, spent=reason)
            yield _quoting(own, quotes=quotes)
        # Perhaps its own failure is what the store refuses.
        other = Settlement.nack(lease, _DEAD_LETTER_RETRY, failure=unsettleable, ran=ran, spent=reason)
        yield _quoting(other, quotes=quotes)
