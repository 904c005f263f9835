"""Who did what by hand: making entries of the audit trail, telling of them, and showing them.

An entry is stored by the verb that does the act (`onward.contract.audit`), so there is none without the act.  Each is also a
line of the log ``onward.audit`` and an event, `OperatorActed`: a copy that a person with access to the store cannot change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from onward.backend import ACTS, EACH_JOB, Audit, AuditEntry, AuditQuery, Backend, Inspection, Look, entries_for
from onward.base.clock import Clock, from_micros
from onward.base.credentials import without_credentials
from onward.base.failure import storable
from onward.base.logs import get_logger
from onward.base.names import suggestion
from onward.client.record import Records
from onward.errors import OptionError, Unsupported
from onward.job.lease import LAST_INSTANT
from onward.security.signing import Signing, Trust
from onward.telemetry import OperatorActed, Telemetry

__all__ = ["AuditRecord", "Auditor", "Draft"]

logger = get_logger("onward.audit")

LONGEST_DETAIL = 500
LONGEST_NAME = 200  # of a person, and of what an act is about
_PLACE = re.compile(r"(-?\d{1,19})-(-?\d{1,19})")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One act of a person, as people see it."""

    at: datetime
    who: str
    act: str
    detail: str  # the reason that was given
    ref: str  # what it is about if not a job: a queue, a schedule, a flow, a limit, a larger act
    job_id: str  # "": no job
    trust: Trust  # "altered": its signature does not match what it says
    place: str  # for `before`: where the next page begins


class Draft:
    """The entries of one act: `audit` goes to the store with the act, `done` tells of them afterwards."""

    def __init__(self, entries: Audit = (), telemetry: Telemetry | None = None, *, stored: bool = True) -> None:
        self.entries = entries
        self._telemetry = telemetry
        self.audit: Audit = entries if stored else ()

    def done(self, changed: Collection[str] | None) -> None:
        """Log and publish the entries, by the ids of the jobs that the act changed; None: it changed nothing."""
        for entry in entries_for(self.entries, changed):
            about = " ".join(filter(None, (entry.job_id, entry.ref)))
            why = f": {entry.detail}" if entry.detail else ""
            extra = {"who": entry.who, "act": entry.act, "job_id": entry.job_id, "ref": entry.ref}
            logger.info("%s: %s %s%s", entry.who, entry.act, about, why, extra=extra)
            if self._telemetry is not None:
                self._telemetry.emit(
                    OperatorActed(
                        who=entry.who, act=entry.act, id=entry.job_id, ref=entry.ref, detail=entry.detail, at=entry.at
                    )
                )

    def rest(self) -> Draft:
        """Return what later parts of the same act store: the entries for each job."""
        entries = [entry for entry in self.entries if entry.job_id == EACH_JOB]
        return Draft(entries, self._telemetry, stored=bool(self.audit))


_NO_ENTRIES = Draft()


class Auditor:
    """Makes and shows the entries of one application."""

    def __init__(
        self,
        backend: Backend,
        inspection: Inspection,
        *,
        clock: Clock,
        signing: Signing,
        records: Records,
        telemetry: Telemetry,
    ) -> None:
        self._keeps = backend.capabilities.audit
        self._inspection = inspection
        self._clock = clock
        self._signing = signing
        self._records = records
        self._telemetry = telemetry

    def draft(
        self, act: str, by: str | None, *, jobs: Sequence[str] | None = None, ref: str = "", reason: str = ""
    ) -> Draft:
        """Return the entries of an act: one for each of these ``jobs`` that it changes; without them, one for no job.

        Nothing, if no person is named: then no reason may be given either.
        """
        if by is None:
            if reason:
                raise OptionError("a reason is kept with who acted: give by='ann@example.org', too, or leave it out")
            return _NO_ENTRIES
        entry = AuditEntry(
            at=self._clock.micros(),
            who=_person(by),
            act=_known(act),
            detail=self._scrubbed(reason, jobs or ()),
            ref=storable(ref, LONGEST_NAME),
            job_id="" if jobs is None else EACH_JOB,
        )
        if jobs is None:
            entries = [msgspec.structs.replace(entry, signature=self._signature(entry))]
        else:
            signatures = {job: self._signature(entry.of(job)) for job in jobs} if self._signing.key_ids else {}
            entries = [msgspec.structs.replace(entry, signatures=signatures)]
        return Draft(entries, self._telemetry, stored=self._keeps)

    def both(self, *drafts: Draft) -> Draft:
        """Return several drafts as one: an act that has an entry of its own, and one for each job."""
        entries = [entry for draft in drafts for entry in draft.entries]
        return Draft(entries, self._telemetry, stored=self._keeps) if entries else _NO_ENTRIES

    def list(
        self,
        *,
        job: str | None = None,
        who: str | None = None,
        ref: str | None = None,
        act: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[AuditRecord]:
        """Return a page of entries, the newest first."""
        if not self._keeps:
            raise Unsupported(
                "this store keeps no audit trail (it declares no `audit`): use a database or Redis as the url; a broker "
                'needs one beside it, Onward(url, store="sqlite:///onward.db") or ONWARD_STORE'
            )
        query = AuditQuery(
            job_id=job, who=who, ref=ref, act=None if act is None else _known(act), before=_place(before), limit=limit
        )
        return self.records(self._inspection.look(Look(audit=query)).audit)

    def records(self, entries: Sequence[AuditEntry]) -> Sequence[AuditRecord]:
        """Return entries as people see them, each with whether its signature counts."""
        return [
            AuditRecord(
                at=from_micros(min(max(entry.at, 0), LAST_INSTANT)),  # another program may have written it
                who=entry.who,
                act=entry.act,
                detail=entry.detail,
                ref=entry.ref,
                job_id=entry.job_id,
                trust=self._signing.trust_in_entry(entry.signature, _signed_parts(entry)),
                place=f"{entry.at}-{entry.number}",
            )
            for entry in entries
        ]

    def _signature(self, entry: AuditEntry) -> str:
        return self._signing.sign_entry(_signed_parts(entry))

    def _scrubbed(self, reason: str, jobs: Sequence[str]) -> str:
        """Return a reason as every store accepts it, without credentials and without the secrets of these jobs."""
        if not isinstance(reason, str):
            raise OptionError(f"reason must be text, not {type(reason).__name__}")
        if not reason:
            return ""
        for scrub in self._scrubbers(jobs):
            reason = scrub(reason)
        return storable(without_credentials(reason), LONGEST_DETAIL)

    def _scrubbers(self, jobs: Sequence[str]) -> Sequence[Callable[[str], str]]:
        try:
            return [self._records.scrubber(stored) for stored in self._inspection.get_many(jobs)] if jobs else []
        except Unsupported:
            return []


def _signed_parts(entry: AuditEntry) -> tuple[str, ...]:
    return entry.who, entry.act, entry.job_id, str(entry.at), entry.detail, entry.ref


def _person(by: str) -> str:
    if not isinstance(by, str) or not by.strip() or len(by) > LONGEST_NAME or not by.isprintable():
        raise OptionError(
            f"by must say who acts, in at most {LONGEST_NAME} printable characters, such as 'ann@example.org', not "
            f"{by!r:.60}"
        )
    return storable(by.strip(), LONGEST_NAME)


def _known(act: str) -> str:
    if act not in ACTS:
        raise OptionError(f"there is no act {act!r:.60}{suggestion(str(act), ACTS)}")
    return act


def _place(before: str | None) -> tuple[int, int] | None:
    if before is None:
        return None
    found = _PLACE.fullmatch(before) if isinstance(before, str) else None
    if found is None:
        raise OptionError(f"before is the place of an entry, such as '1767225600000000-17', not {before!r:.60}")
    return int(found[1]), int(found[2])
