"""The reasons that `jobs.why` gives are binding: at the end of each story every job is explained, and then all are claimed.

What holds a job by the reason given must hold it, and what does not must not.  An obstacle that is removed gives way to the
one that was named after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from onward.backend import Claim, Session, Settlement, StoredJob, Turn
from onward.client.record import Records
from onward.contract.description import WorkerDescription
from onward.flow.room import FOREVER
from onward.job.registry import Registry
from onward.operate.why.case import Case, KnownSettings
from onward.operate.why.explaining import Explainer
from onward.operate.why.reason import Reason
from onward.operate.why.rules import why
from onward.security.encryption import Encryption
from onward.testing.machine.drawing import QUEUES

__all__ = ["explainer_of", "reasons_bind"]

TAKEN = frozenset({"unserved", "not_allowed", "suspect", "busy", "starved", "behind", "first_in_line"})
WHEN_DUE = frozenset({"spent", "unknown_job", "wrong_version", "held"})
_OWNER = "explained"
_SLOTS = 10_000


def explainer_of(backend: Any) -> Explainer:
    """Return what explains the jobs of a backend that belongs to no application."""
    records = Records(Encryption(None, "default", enabled=False), Registry())
    return Explainer(backend, backend, records, KnownSettings())


def reasons_bind(backend: Any, ids: Iterable[str], queues: tuple[str, ...] = QUEUES) -> Counter[str]:
    """Explain these jobs, claim all that can be claimed, and compare.  Returns how often each reason was given."""
    description = WorkerDescription(queues=queues, concurrency=_SLOTS).encoded()
    backend.open_session(Session(owner=_OWNER, lease_for=timedelta(days=1), description=description))
    explainer = explainer_of(backend)
    cases = {job_id: explainer.case(job_id) for job_id in ids}
    reasons = {job_id: why(case) for job_id, case in cases.items()}
    for job_id, reason in reasons.items():
        _remove_obstacle(backend, explainer, cases[job_id].job, reason)
    came = _claimed(backend, queues)
    for job_id, reason in reasons.items():
        expected = _comes(cases[job_id], reason)
        if expected is not None and (job_id in came) is not expected:
            raise AssertionError(
                f"job {job_id} was{'' if job_id in came else ' not'} handed out, and its reason was {reason.code}: "
                f"{reason.text}"
            )
    return Counter(f"explained, {reason.code}" for reason in reasons.values())


def _comes(case: Case, reason: Reason) -> bool | None:
    """Return whether a job with this reason is handed out when all are; None if that depends on the others."""
    if reason.code in TAKEN:
        # Of several jobs that could start, a rate lets some start.
        return None if any(limit.row.bounds.rate is not None for limit in case.place.limits) else True
    if reason.code not in WHEN_DUE:
        return None if reason.code == "awaits_flow" else False  # the jobs before it may end
    if not case.is_due:
        return None if reason.code == "held" else False  # the job that holds its key may end
    return True if not case.place.limits and not _is_paused(case) else None


def _is_paused(case: Case) -> bool:
    queue = case.queues.get(case.job.queue)
    return queue is not None and queue.paused


def _claimed(backend: Any, queues: tuple[str, ...]) -> set[str]:
    """Claim from all queues until nothing comes, ending each job at once."""
    came: set[str] = set()
    while True:
        result = backend.turn(Turn(owner=_OWNER, claim=Claim(queues=queues, limit=50)))
        came |= {lease.envelope.id for lease in result.leases}
        if result.leases:
            backend.turn(Turn(owner=_OWNER, settlements=[Settlement.ack(lease) for lease in result.leases]))
        elif not result.more:
            return came


def _remove_obstacle(backend: Any, explainer: Explainer, job: StoredJob, reason: Reason) -> None:
    """Remove what holds a job, if a person could; the next reason must be the one that was named.  Put it back."""
    if reason.code == "paused":
        backend.pause(job.queue, paused=False)
        _compare(job, reason, explainer.why(job.id))
        backend.pause(job.queue)
    elif reason.code == "shut" and reason.facts["kind"] == "job" and reason.facts["shut_until"] == FOREVER:
        lane = f"{reason.facts['name']}/"
        backend.shut(lane, opened=True)
        _compare(job, reason, explainer.why(job.id))
        backend.shut(lane)


def _compare(job: StoredJob, before: Reason, now: Reason) -> None:
    if now.code != before.then[0]:
        raise AssertionError(
            f"job {job.id} was held by {before.code}, which was removed: now it is {now.code}, and {before.then[0]} was to "
            f"follow"
        )
