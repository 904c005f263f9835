"""The audit trail of a server, as `scripts/lib/audit.lua` describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from onward.backend import EACH_JOB, KEPT_FOR, Audit, AuditEntry, AuditQuery
from onward.backends.damage import logger
from onward.backends.redis.packing import UNREADABLE
from onward.base.clock import SECOND

__all__ = ["AUDIT_KEPT_FOR", "asked_for", "entries_of", "given", "of_jobs", "packed"]

AUDIT_KEPT_FOR = round(KEPT_FOR.total_seconds() * SECOND)
_LAST = (1 << 53) - 1  # after every instant and every number: scripts have no larger whole number


class _Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An entry as it is stored."""

    job_id: str
    at: int
    who: str
    act: str
    detail: str
    ref: str
    signature: str


_row = msgspec.msgpack.Decoder(_Row, strict=False).decode
_PLACES = {name: place for place, name in enumerate(_Row.__struct_fields__, 1)}


def given(audit: Audit) -> tuple[list[tuple[Any, ...]], ...]:
    """Return the argument of a script that stores entries with an act: none, if there are none."""
    return ([packed(entry) for entry in audit],) if audit else ()


def of_jobs(audit: Audit) -> Audit:
    """Return the entries for each job: what the later of several scripts of one act store."""
    return [entry for entry in audit if entry.job_id == EACH_JOB]


def packed(entry: AuditEntry) -> tuple[Any, ...]:
    """Return an entry as the scripts take it."""
    signed: str | Mapping[str, str] = dict(entry.signatures) if entry.job_id == EACH_JOB else entry.signature
    return entry.job_id, entry.at, entry.who, entry.act, entry.detail, entry.ref, signed


def asked_for(query: AuditQuery) -> tuple[Any, ...]:
    """Return the arguments of `audit.page`: the narrowest key, and what else an entry must have."""
    asked = {"job_id": query.job_id, "ref": query.ref or None, "who": query.who, "act": query.act}
    keys = (("audit_job", "job_id"), ("audit_ref", "ref"), ("audit_who", "who"))
    named = next(((f"{key}:{asked[name]}", name) for key, name in keys if asked[name] is not None), ("audited", ""))
    filters = {_PLACES[name]: value for name, value in asked.items() if value is not None and name != named[1]}
    at, number = query.before or (_LAST, 0)
    return named[0], f"{at:d}", number, query.limit, filters


def entries_of(found: Iterable[Sequence[bytes]]) -> list[AuditEntry]:
    """Return entries from their numbers and rows.  One that cannot be read is left out, and logged."""
    entries: list[AuditEntry] = []
    for number, raw in found:
        try:
            entries.append(AuditEntry(number=int.from_bytes(number, "big"), **msgspec.structs.asdict(_row(raw))))
        except UNREADABLE as error:
            logger.critical("entry %r of the audit trail cannot be read: %s", number, error)
    return entries
