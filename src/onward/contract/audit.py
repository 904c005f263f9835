"""The part of the contract for the audit trail: who did what by hand, when and why.

The verbs by which people steer a store take ``audit``: entries that are stored **in the transaction of the act**, and only
if it changed something.  An entry whose ``job_id`` is `EACH_JOB` is stored once for each job that the call changed, under
that job's id; any other under the id that it names, or under none (``""``).  A call without entries runs no other statement
than it would without this part of the contract.

| verb | what it changed |
|---|---|
| `enqueue` | the jobs that were created |
| `cancel` | the jobs that were cancelled, or asked to for the first time |
| `retry`, `replay` | the jobs that became due, or were replayed |
| `purge` | the queue of jobs, if one was removed; there is no job left for `EACH_JOB` |
| `pause` | the queue, if it was open or paused before |
| `signal` | the job that was told |
| `set_limit`, `shut`, `change_schedule`, `cancel_flow`, `retry_flow`, `forget_key` | what they answer that they changed |

- Entries go with their job: `purge`, `prune`, `remove` and `take_back` delete them.  Entries of no job are kept for
  `KEPT_FOR`; then `prune` deletes them.  `attached` and `restore` carry the entries of jobs to another store.
- ``at`` is the time of the process in which the person acted, since it is signed there.  ``number`` is the store's: entries
  of one instant are in its order.
- `look` with ``audit`` returns a page of entries, the newest first.  It walks one index: of the job, of what the entry is
  about, of the person, or of time.
- A store keeps every text of an entry as it came, and reads none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import msgspec

__all__ = ["ACTS", "EACH_JOB", "KEPT_FOR", "Audit", "AuditEntry", "AuditQuery", "entries_for"]

EACH_JOB = "*"
KEPT_FOR = timedelta(days=90)  # entries of no job

ACTS = (
    *("retry", "cancel", "replay", "edit", "purge", "pause", "resume", "bulk", "canary", "signal", "forget-key"),
    *("run-schedule", "create-schedule", "update-schedule", "pause-schedule", "resume-schedule", "delete-schedule"),
    *("limit-set", "limit-clear", "limit-forget", "limit-shut", "limit-open", "cancel-flow", "retry-flow"),
)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One act of a person, on one job or on none."""

    at: int
    who: str
    act: str  # one of `ACTS`
    detail: str = ""  # the reason that was given
    ref: str = ""  # what it is about if not a job, such as a queue; or the larger act that it is a part of
    job_id: str = ""  # `EACH_JOB`: each job that the call changes
    number: int = 0  # by the store
    signature: str = ""
    signatures: Mapping[str, str] = {}  # of an entry for `EACH_JOB`, by the id of the job

    def of(self, job_id: str) -> AuditEntry:
        """Return what of an entry for `EACH_JOB` is stored for one job."""
        signature = self.signatures.get(job_id, "")
        return msgspec.structs.replace(self, job_id=job_id, signature=signature, signatures={})

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order of a page."""
        return self.at, self.number


Audit = Sequence[AuditEntry]


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Selects entries, the newest first.  The next page comes ``before`` the `place` of the last one of this page."""

    job_id: str | None = None  # "": entries of no job
    ref: str | None = None
    who: str | None = None
    act: str | None = None
    before: tuple[int, int] | None = None
    limit: int = 100

    def takes(self, entry: AuditEntry) -> bool:
        """Return whether an entry is one of those that are asked for."""
        return (
            self.job_id in (None, entry.job_id)
            and self.ref in (None, entry.ref)
            and self.who in (None, entry.who)
            and self.act in (None, entry.act)
            and (self.before is None or entry.place < self.before)
        )


def entries_for(audit: Audit, changed: Collection[str] | None) -> list[AuditEntry]:
    """Return the entries that are stored for an act, by the ids of the jobs that it changed; None: it changed nothing.

    >>> each = AuditEntry(at=1, who="ann", act="retry", job_id=EACH_JOB)
    >>> [entry.job_id for entry in entries_for([each], ["a", "b"])], entries_for([each], None)
    (['a', 'b'], [])
    """
    if changed is None:
        return []
    return [
        one for entry in audit for one in ([entry.of(job) for job in changed] if entry.job_id == EACH_JOB else [entry])
    ]
