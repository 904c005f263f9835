"""The audit trail in a database: rows that a verb inserts in its own transaction, for what it changed.

store_audit     insert rows
audit_of_job, audit_about, audit_by, audit_newest
                a page, the newest first: each walks an index of its own
audit_among     every entry of these jobs
forget_audit    delete the entries of jobs, unless a live one has the id
drop_old_audit  delete entries of no job whose time is over
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from onward.backend import EACH_JOB, KEPT_FOR, Audit, AuditEntry, AuditQuery, Enqueued, entries_for
from onward.backends.sql.statements import SqlTransaction
from onward.base.clock import SECOND

__all__ = ["SqlAudit", "audit_among", "audit_page", "audit_rows", "created", "drop_old_audit", "of_jobs", "whether"]

Result = TypeVar("Result")
Columns = dict[str, Any]

_KEPT_FOR = round(KEPT_FOR.total_seconds() * SECOND)
_END = 1 << 62  # after every instant
_STORED = ("job_id", "at", "who", "act", "detail", "ref", "signature")
_READ = ("number", *_STORED)


class SqlAudit:
    """A backend that stores entries with the acts.  How rows are inserted is for the dialect to say."""

    @abstractmethod
    def _insert(self, tx: Any, name: str, rows: Sequence[Columns]) -> None:
        """Insert rows, given by the names of their columns; leave out those whose id or unique key is taken."""

    def _audited(
        self, act: Callable[[Any], Result], audit: Audit, changed: Callable[[Result], Collection[str] | None]
    ) -> Callable[[Any], Result]:
        """Return an act that also stores the entries for the jobs that it ``changed``; None: it changed nothing."""
        if not audit:
            return act

        def both(tx: Any) -> Result:
            result = act(tx)
            self._store_audit(tx, audit, changed(result))
            return result

        return both

    def _store_audit(self, tx: Any, audit: Audit, changed: Collection[str] | None) -> None:
        self._insert(tx, "store_audit", audit_rows(entries_for(audit, changed)))


def whether(changed: object) -> Sequence[str] | None:
    """Return what an act on no job changed, from an answer that is false if it changed nothing."""
    return () if changed else None


def of_jobs(audit: Audit) -> Audit:
    """Return the entries for each job: what the later of several transactions of one act store."""
    return [entry for entry in audit if entry.job_id == EACH_JOB]


def created(answers: Sequence[Enqueued]) -> Sequence[str] | None:
    """Return what an enqueue changed, from its answers."""
    return [answer.id for answer in answers if answer.created] or None


def audit_rows(entries: Iterable[AuditEntry]) -> list[Columns]:
    """Return the columns of new rows: each gets its number when it is inserted."""
    return [{name: getattr(entry, name) for name in _STORED} for entry in entries]


def audit_page(tx: SqlTransaction, query: AuditQuery) -> list[AuditEntry]:
    """Return a page of entries, the newest first."""
    at, number = query.before or (_END, 0)
    page = {"who": query.who, "act": query.act, "at": at, "number": number, "limit": query.limit}
    if query.job_id is not None:
        rows = tx.ask("audit_of_job", job=query.job_id, ref=query.ref, **page).rows()
    elif query.ref is not None:
        rows = tx.ask("audit_about", ref=query.ref, **page).rows()
    elif query.who is not None:
        rows = tx.ask("audit_by", **page).rows()
    else:
        del page["who"]
        rows = tx.ask("audit_newest", **page).rows()
    return [_entry(row) for row in rows]


def audit_among(tx: SqlTransaction, ids: Sequence[str]) -> dict[str, list[AuditEntry]]:
    """Return the entries of these jobs, by their ids."""
    found: defaultdict[str, list[AuditEntry]] = defaultdict(list)
    for row in sorted(tx.ask("audit_among", ids=ids).rows()):
        entry = _entry(row)
        found[entry.job_id].append(msgspec.structs.replace(entry, number=0))
    return dict(found)


def drop_old_audit(tx: SqlTransaction, limit: int) -> None:
    """Delete entries of no job whose time is over."""
    tx.ask("drop_old_audit", kept_for=_KEPT_FOR, limit=limit)


def _entry(row: Sequence[Any]) -> AuditEntry:
    return AuditEntry(**dict(zip(_READ, row, strict=True)))
