"""What people do to many jobs at once: the one place from which bulk acts and the canary write to a store.

Every act is conditional on the state of each job when it is written, and says of those that it left alone why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from onward.backend import Backend, Enqueued, Inspection, Query, StoredJob
from onward.base.credentials import without_credentials
from onward.base.failure import storable
from onward.client.auditing import BY_REQUEST
from onward.client.client import Client
from onward.client.record import Records
from onward.errors import OptionError
from onward.job.envelope import Envelope
from onward.job.states import FINISHED, State
from onward.telemetry import JobCancelled, Telemetry

__all__ = ["ACTS", "BY_REQUEST", "Act", "Acted", "Acts", "states_for"]


Act = Literal["retry", "cancel", "replay", "purge"]

_AGAIN = frozenset({State.DISCARDED, State.CANCELLED})
_LATER = frozenset({State.SCHEDULED, State.RETRYABLE})


class ActScope(NamedTuple):
    """Which states an act can change, and which it changes if a filter names none."""

    possible: frozenset[State]
    usual: frozenset[State]


_LIVE = frozenset(State) - FINISHED
_DEAD = frozenset({State.DISCARDED})
ACTS: Mapping[Act, ActScope] = {
    "retry": ActScope(_LATER | _AGAIN, _LATER),
    "cancel": ActScope(_LIVE, _LIVE),
    "replay": ActScope(_AGAIN, _DEAD),
    "purge": ActScope(FINISHED, _DEAD),
}


def states_for(act: Act, named: frozenset[State] | None) -> frozenset[State]:
    """Return the states that an act is about.  Raises for an act that does not exist, or that could not change them."""
    scope = ACTS.get(act)
    if scope is None:
        raise OptionError(f"there is no bulk act {act!r:.40}: it is one of {', '.join(ACTS)}")
    if named is None:
        return scope.usual
    if wrong := named - scope.possible:
        possible = ", ".join(sorted(scope.possible))
        raise OptionError(f"{act} changes jobs that are {possible}, not those that are {min(wrong)}: name other states")
    return named


class Acted(NamedTuple):
    """How many jobs an act has changed, and why it left others alone."""

    ids: list[str]  # those that were changed; of a purge none, for it counts only
    number: int
    skipped: dict[str, str]


class Acts:
    """Changes batches of jobs."""

    def __init__(
        self, backend: Backend, inspection: Inspection, client: Client, records: Records, telemetry: Telemetry
    ) -> None:
        self._backend = backend
        self._inspection = inspection
        self._client = client
        self._records = records
        self._telemetry = telemetry

    def act(self, act: Act, jobs: Sequence[StoredJob], *, reason: str = BY_REQUEST, fresh: bool = False) -> Acted:
        """Do one act to a batch."""
        if not jobs:
            return Acted([], 0, {})
        match act:
            case "retry":
                return self.retry(jobs)
            case "cancel":
                return self.cancel(jobs, reason)
            case "replay":
                return self.replay(jobs, fresh=fresh)
            case "purge":
                return self.purge(jobs)

    def retry(self, jobs: Sequence[StoredJob]) -> Acted:
        """Make jobs that wait due now, and put discarded and cancelled ones back in their queue."""
        later = [stored for stored in jobs if stored.state in _LATER]
        again = [stored for stored in jobs if stored.state not in _LATER]
        answers = self._inspection.retry([stored.id for stored in later]) if later else []
        due = [stored.id for stored, done in zip(later, answers, strict=True) if done]
        replayed = self.replay(again) if again else Acted([], 0, {})
        ids = due + replayed.ids
        return Acted(ids, len(ids), _moved_on(later, due) | replayed.skipped)

    def cancel(self, jobs: Sequence[StoredJob], reason: str) -> Acted:
        """Cancel jobs that wait, and ask those that run to stop."""
        reason = self._storable(jobs, reason)
        answers = self._inspection.cancel([stored.id for stored in jobs], reason)
        ids = [stored.id for stored, state in zip(jobs, answers, strict=True) if state is not None]
        if self._telemetry.wants(JobCancelled):
            for stored, state in zip(jobs, answers, strict=True):
                if state is State.CANCELLED:
                    self._telemetry.emit(JobCancelled(id=stored.id, job=stored.job, queue=stored.queue, reason=reason))
        return Acted(ids, len(ids), _moved_on(jobs, ids))

    def replay(self, jobs: Sequence[StoredJob], *, fresh: bool = False) -> Acted:
        """Put discarded and cancelled jobs back in their queue."""
        answer = self._inspection.replay(_named(jobs, _AGAIN), fresh=fresh)
        return Acted(answer.ids, len(answer.ids), _moved_on(jobs, answer.ids) | answer.skipped)

    def purge(self, jobs: Sequence[StoredJob]) -> Acted:
        """Remove finished jobs for good."""
        return Acted([], self._inspection.purge(_named(jobs, FINISHED)), {})

    def enqueue(self, envelope: Envelope) -> Enqueued:
        """Store an edited job; not again, if it was stored before and has ended since."""

        def again(envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:  # noqa: ARG001
            return self._backend.enqueue(envelopes, retried=True)

        return self._client.enqueue_by(again, [envelope])[0]

    def _storable(self, jobs: Sequence[StoredJob], reason: str) -> str:
        """Return a reason as every store accepts it, without the secrets of any of these jobs."""
        if not isinstance(reason, str):
            raise OptionError(f"reason must be text, not {type(reason).__name__}")
        if reason == BY_REQUEST:
            return reason
        for stored in jobs:
            reason = self._records.scrubber(stored)(reason)
        return storable(without_credentials(reason))


def _named(jobs: Sequence[StoredJob], possible: frozenset[State]) -> Query:
    """Select these jobs, in the states in which they were found."""
    states = frozenset(stored.state for stored in jobs) & possible
    return Query(ids=tuple(stored.id for stored in jobs), states=states, limit=len(jobs))


def _moved_on(jobs: Sequence[StoredJob], done: Sequence[str]) -> dict[str, str]:
    left = {stored.id: f"it is no longer {stored.state}" for stored in jobs}
    for job_id in done:
        left.pop(job_id, None)
    return left
