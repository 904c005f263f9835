"""What people do to many jobs at once: the one place from which bulk acts and the canary write to a store.

Every act is conditional on the state of each job when it is written, and says of those that it left alone why.  Who acts,
and the reason, go into the audit trail with the writes: an entry for the act itself, and one for each job that refers to it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from onward.backend import Backend, Enqueued, Inspection, Query, StoredJob
from onward.base.credentials import without_credentials
from onward.base.failure import storable
from onward.base.wording import BY_REQUEST
from onward.client.auditing import Auditor, Draft
from onward.client.client import Client
from onward.client.record import Records
from onward.errors import OptionError
from onward.job.envelope import Envelope
from onward.job.states import FINISHED, State
from onward.telemetry import JobCancelled, Telemetry

__all__ = ["ACTS", "Act", "Acted", "Acts", "Trail", "states_for"]

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


class Trail:
    """The audit trail of one act: an entry for itself, with its first write, and one for each job that it changes."""

    def __init__(
        self, auditor: Auditor, kind: Literal["bulk", "canary"], told: str, by: str | None, reason: str
    ) -> None:
        """Begin it.  Raises for a person or a reason that cannot be kept."""
        self._auditor = auditor
        self._by = by
        self._reason = reason
        self._ref = f"{kind}-{os.urandom(6).hex()}"
        detail = f"{told}; {reason}" if reason else told
        self._opening: Draft | None = auditor.draft(kind, by, ref=self._ref, reason=reason if by is None else detail)

    def draft(self, act: Act, jobs: Sequence[StoredJob]) -> Draft:
        """Return the entries that go with one write.  What is purged leaves no job to have one: the first and last id do."""
        drafts = [] if self._opening is None else [self._opening]
        ids = [stored.id for stored in jobs]
        if act == "purge":
            drafts.append(self._auditor.draft(act, self._by, ref=f"{min(ids)}-{max(ids)}", reason=self._reason))
        else:
            drafts.append(self._auditor.draft(act, self._by, jobs=ids, ref=self._ref, reason=self._reason))
        return self._auditor.both(*drafts)

    def done(self, draft: Draft, changed: Sequence[str] | None) -> None:
        """Tell of a write, by the jobs that it changed; None: it changed nothing."""
        draft.done(changed)
        if changed is not None:
            self._opening = None


class Acts:
    """Changes batches of jobs."""

    def __init__(
        self,
        backend: Backend,
        inspection: Inspection,
        client: Client,
        *,
        records: Records,
        telemetry: Telemetry,
        auditor: Auditor,
    ) -> None:
        self.auditor = auditor
        self.keeps_audit = backend.capabilities.audit
        self._backend = backend
        self._inspection = inspection
        self._client = client
        self._records = records
        self._telemetry = telemetry

    def act(self, act: Act, jobs: Sequence[StoredJob], trail: Trail, *, reason: str = "", fresh: bool = False) -> Acted:
        """Do one act to a batch."""
        if not jobs:
            return Acted([], 0, {})
        match act:
            case "retry":
                return self.retry(jobs, trail)
            case "cancel":
                return self.cancel(jobs, trail, reason or BY_REQUEST)
            case "replay":
                return self.replay(jobs, trail, fresh=fresh)
            case "purge":
                return self.purge(jobs, trail)

    def retry(self, jobs: Sequence[StoredJob], trail: Trail) -> Acted:
        """Make jobs that wait due now, and put discarded and cancelled ones back in their queue."""
        later = [stored for stored in jobs if stored.state in _LATER]
        again = [stored for stored in jobs if stored.state not in _LATER]
        due = self._retry(later, trail) if later else []
        replayed = self.replay(again, trail) if again else Acted([], 0, {})
        ids = due + replayed.ids
        return Acted(ids, len(ids), _moved_on(later, due) | replayed.skipped)

    def _retry(self, jobs: Sequence[StoredJob], trail: Trail) -> list[str]:
        draft = trail.draft("retry", jobs)
        answers = self._inspection.retry([stored.id for stored in jobs], audit=draft.audit)
        due = [stored.id for stored, done in zip(jobs, answers, strict=True) if done]
        trail.done(draft, due or None)
        return due

    def cancel(self, jobs: Sequence[StoredJob], trail: Trail, reason: str) -> Acted:
        """Cancel jobs that wait, and ask those that run to stop."""
        reason, draft = self._storable(jobs, reason), trail.draft("cancel", jobs)
        answers = self._inspection.cancel([stored.id for stored in jobs], reason, audit=draft.audit)
        ids = [stored.id for stored, state in zip(jobs, answers, strict=True) if state is not None]
        trail.done(draft, ids or None)
        if self._telemetry.wants(JobCancelled):
            for stored, state in zip(jobs, answers, strict=True):
                if state is State.CANCELLED:
                    self._telemetry.emit(JobCancelled(id=stored.id, job=stored.job, queue=stored.queue, reason=reason))
        return Acted(ids, len(ids), _moved_on(jobs, ids))

    def replay(self, jobs: Sequence[StoredJob], trail: Trail, *, fresh: bool = False) -> Acted:
        """Put discarded and cancelled jobs back in their queue."""
        draft = trail.draft("replay", jobs)
        answer = self._inspection.replay(_named(jobs, _AGAIN), fresh=fresh, audit=draft.audit)
        trail.done(draft, answer.ids or None)
        return Acted(answer.ids, len(answer.ids), _moved_on(jobs, answer.ids) | answer.skipped)

    def purge(self, jobs: Sequence[StoredJob], trail: Trail) -> Acted:
        """Remove finished jobs for good."""
        draft = trail.draft("purge", jobs)
        number = self._inspection.purge(_named(jobs, FINISHED), audit=draft.audit)
        trail.done(draft, () if number else None)
        return Acted([], number, {})

    def enqueue_edited(self, envelope: Envelope, old_id: str, *, by: str, reason: str) -> Enqueued:
        """Store an edited job, with an entry of the old one that names it; not again, if it was stored before."""
        draft = self.auditor.draft("edit", by, jobs=[old_id], ref=envelope.id, reason=reason)
        of_old = [entry.of(old_id) for entry in draft.audit]

        def again(envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:  # noqa: ARG001
            return self._backend.enqueue(envelopes, retried=True, audit=of_old)

        answer = self._client.enqueue_by(again, [envelope])[0]
        draft.done([old_id] if answer.created else None)
        return answer

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
