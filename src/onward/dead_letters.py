"""Jobs that were given up: kept with their bytes, their reason and the record of every run, until somebody decides.

With a ``dead_letter_queue`` a discarded job also leaves a job there, in the same write: named ``dead_letter``, carrying the
original.  Register a handler of that name to be told, to alert, to repair.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Self

from onward._attempt import Attempt
from onward.backend import Inspection, Query, Reaped, StoredJob
from onward.client import Client
from onward.envelope import Envelope
from onward.errors import OnwardError, Unsupported
from onward.ids import derived_id
from onward.outcome import Dead
from onward.record import JobRecord, record_of
from onward.states import State
from onward.uninspected import stored_of

__all__ = ["DEAD_LETTER_JOB", "DeadLetters", "Replay"]

logger = logging.getLogger("onward")

DEAD_LETTER_JOB = "dead_letter"
_BATCH = 500
Ids = list[str]
_DISCARDED = frozenset({State.DISCARDED})


class Replay(int):
    """How many jobs live again; ``skipped`` says of the others why they do not."""

    skipped: dict[str, str]

    def __new__(cls, count: int, skipped: dict[str, str]) -> Self:
        replay = super().__new__(cls, count)
        replay.skipped = skipped
        return replay

    def __repr__(self) -> str:
        return f"<Replay {int(self)}, skipped {len(self.skipped)}>"


class DeadLetters:
    """Looking at dead jobs, and giving them another life or none."""

    def __init__(self, backend: Inspection, client: Client, *, queue: str | None) -> None:
        self._backend = backend
        self._client = client
        self._queue = queue

    def list(
        self, queue: str | None = None, *, job: str | None = None, limit: int = 100, after: str | None = None
    ) -> Sequence[JobRecord]:
        """A page of dead jobs, oldest first; ``after`` is the last id of the page before."""
        query = Query(states=_DISCARDED, queue=queue, job=job, limit=limit, after=after)
        return [record_of(stored) for stored in self._backend.list(query)]

    def get(self, job_id: str) -> JobRecord | None:
        stored = self._backend.get(job_id)
        return None if stored is None or stored.state is not State.DISCARDED else record_of(stored)

    def replay(
        self,
        ids: Sequence[str] | None = None,
        *,
        queue: str | None = None,
        job: str | None = None,
        limit: int | None = None,
    ) -> Replay:
        """Put dead jobs back in their queue with their budget whole.  All of them, unless told which."""
        replayed, skipped = 0, dict[str, str]()
        for query in self._pages(ids, queue, job, limit):
            answer = self._backend.replay(query)
            replayed += len(answer.ids)
            skipped |= answer.skipped
        return Replay(replayed, skipped)

    def purge(
        self,
        ids: Sequence[str] | None = None,
        *,
        queue: str | None = None,
        job: str | None = None,
        limit: int | None = None,
    ) -> int:
        """Remove dead jobs for good.  All of them, unless told which."""
        return sum(self._backend.purge(query) for query in self._pages(ids, queue, job, limit))

    def store(self, payload: Any, handler: str, reason: str, attempts: int) -> bool:
        """Put something that died elsewhere on the dead-letter queue.  False if there is none, or it could not be stored."""
        if self._queue is None:
            return False
        try:
            letter = {"job": handler, "queue": None, "payload": payload, "reason": reason, "attempts": attempts}
            limit = self._client.max_payload
            copy = self._client.seal_copy(queue=self._queue, job=DEAD_LETTER_JOB, payload=letter, limit=limit)
            self._client.enqueue([copy])
        except (OnwardError, TypeError, ValueError, RecursionError) as error:
            logger.error("a dead letter of %s could not be stored: %s", handler, error)  # noqa: TRY400  the caller is told
            return False
        return True

    def copy_of(self, attempt: Attempt, dead: Dead) -> Envelope | None:
        """The job that goes to the dead-letter queue together with a discard; None if there is no such queue."""
        stored = self._of_lease(attempt)
        if stored is None:
            return None
        errors = _errors(stored)
        if attempt.failure is not None:
            errors.append(
                {
                    "attempt": stored.attempts + 1,
                    "kind": attempt.failure.kind,
                    "message": attempt.failure.message,
                }
            )
        return self._copy(stored, attempt.lease.token, dead.reason, stored.attempts + dead.ran, errors)

    def copy_crashed(self, reaped: Sequence[Reaped]) -> None:
        """Crash discards happen in maintenance, which has no letter to write: it is written here, as often as need be."""
        for each in reaped:
            stored = self._stored(each.id, each.queue) if each.to is State.DISCARDED else None
            if stored is not None:
                reason = stored.reason or f"crashed {each.crashes} times: {each.cause}"
                copy = self._copy(stored, each.token, reason, stored.attempts, _errors(stored))
                self._client.enqueue([copy])

    def _pages(
        self, ids: Sequence[str] | None, queue: str | None, job: str | None, limit: int | None
    ) -> Sequence[Query]:
        """Small batches, so that a million dead jobs do not hold the store's lock: the ids are read first."""
        named = [ids] if isinstance(ids, str) else ids
        chosen = list(named) if named is not None else self._ids(queue, job, limit)
        if limit is not None:
            chosen = chosen[:limit]
        return [
            Query(ids=tuple(chosen[start : start + _BATCH]), states=_DISCARDED, queue=queue, job=job, limit=_BATCH)
            for start in range(0, len(chosen), _BATCH)
        ]

    def _ids(self, queue: str | None, job: str | None, limit: int | None) -> Sequence[str]:
        found: Ids = []
        after: str | None = None
        while limit is None or len(found) < limit:
            page = self._backend.list(Query(states=_DISCARDED, queue=queue, job=job, limit=_BATCH, after=after))
            found += [stored.id for stored in page]
            if len(page) < _BATCH:
                break
            after = page[-1].id
        return found

    def _stored(self, job_id: str, queue: str) -> StoredJob | None:
        if self._queue is None or queue == self._queue:  # a dead letter's own death leaves no letter
            return None
        return self._backend.get(job_id)

    def _of_lease(self, attempt: Attempt) -> StoredJob | None:
        """The job as the store knows it; or, if it cannot be asked, as its lease does: without the earlier errors."""
        lease = attempt.lease
        try:
            return self._stored(lease.envelope.id, lease.envelope.queue)
        except Unsupported:
            return stored_of(lease, "" if attempt.letter is None else attempt.letter.job)

    def _copy(self, stored: StoredJob, token: int, reason: str, attempts: int, errors: Any) -> Envelope:
        assert self._queue is not None
        record = record_of(stored)
        payload = {
            "id": stored.id,
            "job": record.job,
            "name": record.name,
            "queue": record.queue,
            "payload": record.reveal(),
            "meta": record.meta,
            "reason": reason,
            "attempts": attempts,
            "errors": errors,
        }
        copy_id = derived_id(stored.id, token, "dead-letter")
        return self._client.seal_copy(
            copy_id=copy_id,
            queue=self._queue,
            job=DEAD_LETTER_JOB,
            payload=payload,
            secrets=("payload",) if record.has_secrets else (),  # what was not to be shown still is not
        )


def _errors(stored: StoredJob) -> Any:
    return [
        {"attempt": run.attempt, "kind": run.failure.kind, "message": run.failure.message} for run in stored.runs[-20:]
    ]
