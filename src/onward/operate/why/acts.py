"""What people did by hand, as a reason tells it."""

from __future__ import annotations

from collections.abc import Sequence

from onward.client.auditing import AuditRecord

__all__ = ["by_whom", "facts_of", "last_act", "purge_of"]


def last_act(acts: Sequence[AuditRecord], *kinds: str) -> AuditRecord | None:
    """Return the newest entry, if it is of one of these kinds: an older one may be about an earlier time."""
    return acts[0] if acts and acts[0].act in kinds else None


def purge_of(job_id: str, purges: Sequence[AuditRecord]) -> AuditRecord | None:
    """Return the newest purge that may have removed a job: each names the first and the last id that it removed."""
    for entry in purges:
        first, _, last = entry.ref.partition("-")
        if first <= job_id <= last:
            return entry
    return None


def by_whom(entry: AuditRecord | None, *, why: bool = True) -> str:
    """Return who did it, and why, as the end of a sentence; nothing if no entry says so."""
    if entry is None:
        return ""
    reason = f' ("{entry.detail}")' if why and entry.detail else ""
    doubt = ", says an entry that was altered" if entry.trust == "altered" else ""
    return f" by {entry.who}{reason}{doubt}"


def facts_of(entry: AuditRecord | None) -> dict[str, object]:
    """Return who did it and why, for machines."""
    if entry is None:
        return {}
    return {"by": entry.who, "by_reason": entry.detail, "by_trust": entry.trust}
