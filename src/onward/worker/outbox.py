"""The outbox: attempts that have ended, until the store has answered their settlements.

An attempt leaves the outbox when a turn was answered, never before.  After a turn without an answer the pump sends all of it
again, under the name of the successor session (`onward.worker.recovery`): the store answers `already_applied` for what the
lost turn had settled.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

import msgspec

from onward.attempt.attempt import Attempt
from onward.attempt.settle import Exchange, reaped_alone
from onward.backend import Claim, Held, Lease
from onward.base.logs import get_logger
from onward.base.wording import counted
from onward.errors import BackendError
from onward.job.outcome import Crashed, Released
from onward.job.settlement import Settled, Settlement, already_applied
from onward.job.states import TARGETS
from onward.worker.inflight import Work
from onward.worker.options import WorkerParts
from onward.worker.session import SessionKeeper

__all__ = ["Outbox", "key_of"]

logger = get_logger("onward.worker")


class Outbox:
    """The attempts that have ended and are not settled.  Only the pump's thread uses it, except for `finished`."""

    def __init__(self, parts: WorkerParts, session: SessionKeeper) -> None:
        self._parts = parts
        self._session = session
        self.finished: deque[Attempt] = deque()  # to which any thread appends
        self.items: list[tuple[Attempt, Settlement]] = []
        self._sent: set[Held] = set()  # what was sent before and not answered
        self._applied: set[Held] = set()  # of those, what is known to have been applied

    def collect(self) -> tuple[int, int]:
        """Turn finished attempts into settlements.  Returns how many, and the milliseconds that they took together."""
        count, took, finished = 0, 0, self.finished
        while finished:
            self.add(finished[0])
            took += finished.popleft().duration_ms
            count += 1
        return count, took

    def add(self, attempt: Attempt) -> None:
        """Settle an attempt in the next turn."""
        owner = self._session.owner
        if attempt.lease.owner != owner:  # it was adopted while it ran
            attempt = msgspec.structs.replace(attempt, lease=_renamed(attempt.lease, owner))
        self.items.append((attempt, self._parts.settler.settlement(attempt)))

    def release(self, works: Iterable[Work]) -> None:
        """Give back jobs that have not begun."""
        for work in works:
            self.add(Attempt(lease=work.lease, letter=work.ready.letter, outcome=Released()))

    def keys(self) -> list[Held]:
        """Return the leases that wait for their settlement to be answered."""
        return [key_of(attempt.lease) for attempt, _ in self.items]

    def unanswered_keys(self) -> set[Held]:
        """Return the leases whose attempts have ended, also those that no settlement was made of yet."""
        return {*self.keys(), *(key_of(attempt.lease) for attempt in list(self.finished))}

    def count_by_queue(self) -> Counter[str]:
        """Return how many leases of each queue have ended."""
        return Counter(attempt.lease.envelope.queue for attempt, _ in self.items)

    def exchange(self, claim: Claim | None) -> Exchange:
        """Send all settlements, and the claim, in one turn."""
        try:
            return self._parts.settler.exchange(self._session.owner, [item for _, item in self.items], claim)
        except BackendError:
            self._sent = set(self.keys())
            raise

    def report(self, made: Exchange) -> None:
        """Log, count and publish what the store answered, and forget it."""
        attempts = [attempt for attempt, _ in self.items]
        self.items = []
        answers = self._resolve_repeated(made) if self._sent else made.result.settled
        self._parts.reporter.settled(attempts, made.settlements, answers)
        crashed = [
            reaped_alone(attempt, answer.state)
            for attempt, answer in zip(attempts, answers, strict=True)
            if isinstance(attempt.outcome, Crashed) and answer.state is not None
        ]
        if crashed:
            try:
                self._parts.rescued(crashed)
            except Exception:  # the job is settled: a failing subscriber does not end a worker
                logger.exception("no event could be made of %s that crashed", counted(len(crashed), "job"))

    def adopted(self, owner: str, held: Sequence[Lease]) -> None:
        """Send everything again under the name of a successor session, which holds these leases."""
        # There was a session to adopt, so it had not been reaped; and a lease leaves such a session only by a settlement.
        self._applied = self._sent - {key_of(lease) for lease in held}
        self.items = [
            (attempt, msgspec.structs.replace(item, lease=_renamed(item.lease, owner))) for attempt, item in self.items
        ]

    def _resolve_repeated(self, made: Exchange) -> list[Settled]:
        """Count as applied what was sent before and has left no trace, or is known to have left the session."""
        answers = [
            already_applied(TARGETS[item.move])
            if (answer.gone and key_of(item.lease) in self._sent)
            or (answer.lease_lost and key_of(item.lease) in self._applied)
            else answer
            for item, answer in zip(made.settlements, made.result.settled, strict=True)
        ]
        self._sent, self._applied = set(), set()
        return answers


def key_of(lease: Lease) -> Held:
    """Return what identifies a lease: the job and the number of its delivery."""
    return (lease.envelope.id, lease.token)


def _renamed(lease: Lease, owner: str) -> Lease:
    return msgspec.structs.replace(lease, owner=owner)
