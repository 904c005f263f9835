"""Jobs that were given up: kept with their bytes, their reason and the record of every run, until a person decides.

With a ``dead_letter_queue`` the write that discards a job also stores a job there: named ``dead_letter``, carrying the
original.  Register a handler of that name to alert or to repair.

Onward signs such a job like any other.  So, if signatures are required, it carries of the original only what was verified:
else a person who can write to the store could get any bytes signed, by having them refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from onward.attempt.attempt import Attempt
from onward.backend import Inspection, Query, Reaped, StoredJob
from onward.base.clock import Clock, from_micros
from onward.base.durations import Duration
from onward.base.ids import derived_id
from onward.base.logs import get_logger
from onward.base.wording import counted
from onward.client.auditing import Auditor
from onward.client.client import Client
from onward.client.record import JobRecord, Records, payload_of
from onward.errors import BackendUnavailable, EnvelopeError, OnwardError, Unsupported
from onward.job.envelope import Envelope, Letter, Sealed, Verify, open_sealed
from onward.job.outcome import Dead
from onward.job.secrets import masked, within
from onward.job.states import State
from onward.operate.canary import CanaryStep, Size
from onward.operate.death_details import DeathDetail, detail_of, narrowed
from onward.operate.deaths import DeathRecord, death_records
from onward.operate.editing import Edit
from onward.operate.pruning import Age, Removed, cutoff
from onward.operate.triage import Triage
from onward.operate.unsupported_inspection import stored_of
from onward.security.encryption import Encryption

__all__ = ["DEAD_LETTER_JOB", "DeadLetters", "Replay"]

logger = get_logger("onward")

DEAD_LETTER_JOB = "dead_letter"
_BATCH = 500
_DISCARDED = frozenset({State.DISCARDED})


class Died(NamedTuple):
    """The parts of a dead job that are needed to remove it."""

    id: str
    queue: str


DeadIds = list[Died]


class Replay(int):
    """How many jobs were replayed; ``skipped`` says of the others why they were not."""

    skipped: dict[str, str]

    def __new__(cls, count: int, skipped: dict[str, str]) -> Self:
        replay = super().__new__(cls, count)
        replay.skipped = skipped
        return replay

    def __repr__(self) -> str:
        return f"<Replay {int(self)}, skipped {len(self.skipped)}>"


class DeadLetters:
    """Lists, replays, edits and removes dead jobs, and stores dead letters."""

    triage: Triage  # from the wiring: it needs what is made after this

    def __init__(
        self,
        backend: Inspection,
        client: Client,
        *,
        clock: Clock,
        queue: str | None,
        encryption: Encryption,
        records: Records,
        auditor: Auditor,
        verify: Verify | None = None,
    ) -> None:
        self._backend = backend
        self._client = client
        self._clock = clock
        self._queue = queue
        self._encryption = encryption
        self._records = records
        self._auditor = auditor
        self._verify = verify

    def list(
        self, queue: str | None = None, *, job: str | None = None, limit: int = 100, after: str | None = None
    ) -> Sequence[JobRecord]:
        """Return a page of dead jobs, oldest first; ``after`` is the last id of the page before."""
        query = Query(states=_DISCARDED, queue=queue, job=job, limit=limit, after=after)
        return [self._records.record(stored) for stored in self._backend.list(query)]

    def groups(
        self,
        *,
        job: str | None = None,
        queues: Sequence[str] | str | None = None,
        since: Age | None = None,
        at_most: int = 10_000,
    ) -> Sequence[DeathRecord]:
        """Return dead jobs in groups, largest first: those of one name whose last failure is the same one.

        At most a hundred groups, and none is counted beyond ``at_most``: then ``or_more`` is true.  With ``queues``
        (names and patterns) or ``since``, those that died there or since then: of each group the newest 2,000 are looked at.
        """
        groups = death_records(self._backend, self._records, job=job, at_most=at_most)
        if queues is None and since is None:
            return groups
        instant = None if since is None else from_micros(cutoff(since, self._clock))
        return narrowed(
            self.triage.finder, groups, queues=[queues] if isinstance(queues, str) else queues, since=instant
        )

    def group(self, fingerprint: str, *, job: str | None = None, queues: Sequence[str] | None = None) -> DeathDetail:
        """Return what the newest jobs of a group tell: the traceback, hosts and builds, and three of them."""
        return detail_of(self.triage.finder, fingerprint, job, queues)

    def get(self, job_id: str) -> JobRecord | None:
        found = self._backend.list(Query(ids=(job_id,), states=_DISCARDED, limit=1))
        return self._records.record(found[0]) if found else None

    def replay(
        self,
        ids: Sequence[str] | None = None,
        *,
        queue: str | None = None,
        job: str | None = None,
        limit: int | None = None,
        fresh: bool = False,
        by: str | None = None,
        reason: str = "",
    ) -> Replay:
        """Put dead jobs back in their queue with all their attempts again.  All of them, unless told which.

        ``fresh``: without their notes, so that steps that were done are done again.  ``by`` and ``reason``: for the audit
        trail.
        """
        replayed, skipped = 0, dict[str, str]()
        for query in self._pages(ids, queue, job, limit):
            act = self._auditor.draft("replay", by, jobs=query.ids, reason=reason)
            answer = self._backend.replay(query, fresh=fresh, audit=act.audit)
            act.done(answer.ids)
            replayed += len(answer.ids)
            skipped |= answer.skipped
        return Replay(replayed, skipped)

    def purge(
        self,
        ids: Sequence[str] | None = None,
        *,
        queue: str | None = None,
        job: str | None = None,
        older_than: Age | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        by: str | None = None,
        reason: str = "",
    ) -> Removed:
        """Remove dead jobs for good: all of them, unless some are chosen; with ``older_than`` those that died so long ago,
        or before that instant.

        With ``dry_run`` nothing is removed; the number says what would be.  ``by`` and ``reason``: for the audit trail.
        """
        before = None if older_than is None else cutoff(older_than, self._clock)
        if ids is None:
            doomed = self._matching(queue, job, before, limit)
        else:
            pages = [self._backend.list(query) for query in self._pages(ids, queue, job, limit)]
            doomed = [each for page in pages for each in _died_before(page, before)]
        counted: Counter[tuple[str, State]] = Counter()
        for start in range(0, len(doomed), _BATCH):
            batch = doomed[start : start + _BATCH]
            gone = len(batch) if dry_run else self._purge([each.id for each in batch], by, reason)
            counted.update((each.queue, State.DISCARDED) for each in batch[:gone])
        return Removed(counted)

    def _purge(self, ids: Sequence[str], by: str | None, reason: str) -> int:
        """Remove dead jobs; return how many were still there.  The entry names the first and the last of them."""
        act = self._auditor.draft("purge", by, ref=f"{min(ids)}-{max(ids)}", reason=reason)
        gone = self._backend.purge(Query(ids=tuple(ids), states=_DISCARDED, limit=_BATCH), audit=act.audit)
        act.done(() if gone else None)
        return gone

    def canary(
        self,
        filter: str,  # noqa: A002
        *,
        steps: Sequence[Size] = (1, 10, "all"),
        patience: Duration = "10m",
        rate: str = "50/s",
        queues: Sequence[str] | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> Iterator[CanaryStep]:
        """Replay the dead jobs that match a filter: one, then ten, then the rest, and none after one that fails again.

        Each step is waited for.  ``patience``: how long, if no job ends.  ``rate``: of the last step.  To stop the iterator
        stops the canary; what it did not replay is still dead.  ``by`` and ``reason``: for the audit trail.
        """
        run = self.triage.canary.run
        return run(filter, steps=steps, patience=patience, rate=rate, queues=queues, by=by, reason=reason)

    def edit(
        self,
        job_id: str,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002
        unset: Sequence[str] = (),
        payload: Any = msgspec.UNSET,
        dry_run: bool = False,
        by: str | None = None,
        reason: str = "",
    ) -> Edit:
        """Enqueue a dead job with other arguments, as a new job that is signed like any other; the old one stays dead.

        ``set`` and ``unset`` change some, ``payload`` gives all.  To repeat an edit makes no second job.  The audit trail of
        the old job names the new one; ``by`` says who did it, if not a program, and ``reason`` why.
        """
        given = {"set": set, "unset": unset, "payload": payload}
        return self.triage.editor.edit(job_id, **given, dry_run=dry_run, by=by, reason=reason)

    def store(self, payload: Any, handler: str, reason: str, attempts: int) -> bool:
        """Put a payload that failed elsewhere on the dead-letter queue.  False if there is none, or that failed."""
        if self._queue is None:
            return False
        try:
            letter = {"job": handler, "queue": None, "payload": payload, "reason": reason, "attempts": attempts}
            limit = self._client.letters.max_payload
            copy = self._client.letters.seal_copy(queue=self._queue, job=DEAD_LETTER_JOB, payload=letter, limit=limit)
            self._client.enqueue([copy])
        except (OnwardError, TypeError, ValueError, RecursionError) as error:
            logger.error("a dead letter of %s could not be stored: %s", handler, error)  # noqa: TRY400  the caller is told
            return False
        return True

    def copy_of(self, attempt: Attempt, dead: Dead) -> Envelope | None:
        """Make the job that goes to the dead-letter queue together with a discard; None if there is no such queue."""
        stored = self._of_lease(attempt)
        if stored is None:
            return None
        errors = self._errors(stored)
        if attempt.failure is not None:
            errors.append(
                {
                    "attempt": stored.attempts + 1,
                    "kind": attempt.failure.kind,
                    "message": attempt.failure.message,
                }
            )
        # Not from the store: it may have other bytes now than those that were verified.
        letter = attempt.letter or self._letter(attempt.lease.envelope)
        attempts = stored.attempts + dead.ran
        return self._copy(
            stored, letter, token=attempt.lease.token, reason=dead.reason, attempts=attempts, errors=errors
        )

    def copy_crashed(self, reaped: Sequence[Reaped]) -> None:
        """Copy jobs that reaping discarded to the dead-letter queue; doing it twice is harmless."""
        for each in reaped:
            if each.to is not State.DISCARDED:
                continue
            try:
                self._copy_crashed(each)
            except BackendUnavailable:
                raise
            except Exception:  # the dead letters of the others are stored all the same
                logger.critical("no dead letter can be made of job %s, which is discarded", each.id, exc_info=True)

    def _copy_crashed(self, each: Reaped) -> None:
        stored = self._stored(each.id, each.queue)
        if stored is None:
            return
        told = self._encryption.read_reason(stored.id, stored.queue, stored.reason)
        reason = told or f"crashed {counted(each.crashes, 'time')}: {each.cause}"
        letter = self._letter(Sealed(stored.id, stored.queue, stored.data))
        errors = self._errors(stored)
        copy = self._copy(stored, letter, token=each.token, reason=reason, attempts=stored.attempts, errors=errors)
        self._client.enqueue([copy])

    def _pages(
        self, ids: Sequence[str] | None, queue: str | None, job: str | None, limit: int | None
    ) -> Sequence[Query]:
        """Read the ids first, then go in small batches: a million dead jobs must not hold the store's lock."""
        named = [ids] if isinstance(ids, str) else ids
        chosen = list(named) if named is not None else [each.id for each in self._matching(queue, job, None, limit)]
        if limit is not None:
            chosen = chosen[:limit]
        return [
            Query(ids=tuple(chosen[start : start + _BATCH]), states=_DISCARDED, queue=queue, job=job, limit=_BATCH)
            for start in range(0, len(chosen), _BATCH)
        ]

    def _matching(self, queue: str | None, job: str | None, before: int | None, limit: int | None) -> DeadIds:
        found: DeadIds = []
        query: Query | None = Query(states=_DISCARDED, queue=queue, job=job, limit=_BATCH)
        while query is not None and (limit is None or len(found) < limit):
            page = self._backend.list(query)
            found += _died_before(page, before)
            query = msgspec.structs.replace(query, after=page[-1].id) if len(page) == _BATCH else None
        return found[:limit]

    def _stored(self, job_id: str, queue: str) -> StoredJob | None:
        if self._queue is None or queue == self._queue:  # a dead letter that is discarded leaves no other
            return None
        return self._backend.get(job_id)

    def _of_lease(self, attempt: Attempt) -> StoredJob | None:
        """Return the job as the store has it; or, if reading fails, as its lease has it: without the earlier errors."""
        lease = attempt.lease
        try:
            return self._stored(lease.envelope.id, lease.envelope.queue)
        except BackendUnavailable:  # the caller tries again later
            raise
        except Unsupported:
            pass
        except Exception:
            logger.exception("the dead letter of job %s is without its earlier errors", lease.envelope.id)
        return stored_of(lease, "" if attempt.letter is None else attempt.letter.job)

    def _letter(self, sealed: Sealed) -> Letter | None:
        """Open a sealed job; None if it cannot be read, or must not be trusted."""
        try:
            return self._encryption.open(open_sealed(sealed, verify=self._verify))
        except EnvelopeError:
            return None

    def _copy(
        self, stored: StoredJob, letter: Letter | None, *, token: int, reason: str, attempts: int, errors: Any
    ) -> Envelope:
        assert self._queue is not None
        job = letter.job if letter is not None else stored.job if self._verify is None else "?"
        payload = {
            "id": stored.id,
            "job": job,
            "name": (letter and letter.name) or job,
            "queue": stored.queue,
            "payload": None if letter is None else payload_of(letter),
            "meta": {} if letter is None else masked(letter.meta),
            "reason": reason,
            "attempts": attempts,
            "errors": errors,
        }
        copy_id = derived_id(stored.id, token, "dead-letter")
        return self._client.letters.seal_copy(
            copy_id=copy_id,
            queue=self._queue,
            job=DEAD_LETTER_JOB,
            payload=payload,
            # Secrets of the original stay masked.
            secrets=() if letter is None else tuple(within("payload", self._records.secrets(letter))),
            private=self._is_private(stored, letter),
        )

    def _is_private(self, stored: StoredJob, letter: Letter | None) -> bool:
        """Return whether any part of a job was encrypted: then its copy must be, because it quotes these parts."""
        texts = [stored.reason or "", *(run.failure.message for run in stored.runs)]
        return (letter is not None and letter.enc is not None) or any(map(self._encryption.is_encrypted, texts))

    def _errors(self, stored: StoredJob) -> Any:
        runs = stored.runs[-20:]
        failures = [self._encryption.read_failure(stored.id, stored.queue, run.token, run.failure) for run in runs]
        return [
            {"attempt": run.attempt, "kind": failure.kind, "message": failure.message}
            for run, failure in zip(runs, failures, strict=True)
        ]


def _died_before(page: Sequence[StoredJob], before: int | None) -> DeadIds:
    return [
        Died(stored.id, stored.queue)
        for stored in page
        if before is None or (stored.finished_at or stored.enqueued_at) < before
    ]
