"""Jobs, runs and sessions as they are shown.  An unreadable one is shown as unreadable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from onward.backend import AWAITS_NODE, Run, Session, SessionState, StoredJob
from onward.backends.redis.layout import FLAGS, STATES, Rest
from onward.backends.redis.packing import UNREADABLE, opened, shown_due
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.job.lease import LAST_INSTANT
from onward.job.ran_by import RanBy
from onward.job.states import State, state_named

__all__ = ["AboutSession", "instant", "session_state", "shown_job", "shown_name", "stored_job"]

_SCHEDULED = next(number for number, state in STATES.items() if state is State.SCHEDULED)

_run = msgspec.msgpack.Decoder(tuple[int, int, str, int, int, int, str, str, str, str, str, str]).decode


class AboutSession(msgspec.Struct, array_like=True, omit_defaults=True):
    """What is stored of a session, besides its expiry."""

    lease_for: int
    host: str
    pid: int
    version: str
    description: str = ""  # each byte as a character: the scripts know text only
    ran_by: str = ""  # for the records of runs that crash

    @classmethod
    def of(cls, session: Session) -> AboutSession:
        length, by = round(session.lease_for.total_seconds() * SECOND), session.ran_by()
        told = session.host, session.pid, session.version, session.description.decode("latin-1")
        return cls(length, *told, "" if by is None else by.encoded())


_about = msgspec.msgpack.Decoder(AboutSession).decode


def stored_job(shown: Sequence[Any]) -> StoredJob:
    """Return a job from an answer of the scripts' `shown`."""
    job_id, raw, sealed, progress, result, runs, is_live, holds_key, awaits = shown
    patch, state, delivery, owner, flags, started, due, inside, record = opened(raw, is_live=is_live)
    awaited = AWAITS_NODE.encode() if flags & FLAGS["AWAITS_NODE"] else awaits
    fixed = record.fixed
    return StoredJob(
        id=job_id.decode(),
        queue=record.queue,
        job=fixed.job,
        data=inside or (b"" if patch.tombstone else sealed),
        state=STATES[patch.state or state],
        priority=-record.rank,
        attempts=record.attempts + patch.ran,
        delivery=delivery,
        crashes=record.crashes,
        interruptions=record.interruptions,
        available_at=shown_due(flags, due),
        enqueued_at=fixed.enqueued_at,
        started_at=started or None,
        finished_at=patch.finished_at,
        owner=owner,
        cancel_reason=record.cancel_reason,
        result=result,
        reason=patch.reason,
        progress=progress,
        waits=record.waits,
        parked_since=record.parked_since,
        awaits=shown_name(awaited) if awaited is not None and state == _SCHEDULED and not patch.state else None,
        flow=fixed.flow,
        node=fixed.node,
        tombstone=bool(patch.tombstone),
        runs=_runs(runs),
        **({} if patch.tombstone else _continuation(record, is_live=is_live, holds_key=holds_key)),
    )


def _continuation(record: Rest, *, is_live: bool, holds_key: bool) -> dict[str, Any]:
    """Return what decides how it goes on."""
    fixed = record.fixed
    names = ("max_crashes", "expires_at", "unique_key", "idempotency_key", "single_instance", "lane", "cost")
    return {name: getattr(fixed, name) for name in names} | {
        "spent": record.spent if is_live else None,
        "key_held": bool(holds_key),
        "idempotency_ttl": 0 if fixed.idempotency_key is None else fixed.idempotency_ttl,
    }


def shown_job(shown: Sequence[Any]) -> StoredJob:
    """Return a job like `stored_job`; an unreadable one with a reason that says so, and its bytes."""
    try:
        return stored_job(shown)
    except UNREADABLE:
        job_id, raw = shown[:2]
        return StoredJob(
            id=job_id.decode(),
            queue="unknown",
            job="unknown",
            data=raw,
            state=state_named("damaged"),
            priority=0,
            attempts=0,
            delivery=0,
            crashes=0,
            interruptions=0,
            available_at=0,
            enqueued_at=0,
            reason="its record cannot be read" if raw else "its record is missing",
        )


def _runs(found: Iterable[bytes]) -> tuple[Run, ...]:
    return tuple(sorted(map(_noted_run, found), key=lambda run: run.token))


def _noted_run(raw: bytes) -> Run:
    """Return the record of a run; an unreadable one has a failure that says so."""
    try:
        token, attempt, move, to, at, duration_ms, kind, message, traceback, owner, fingerprint, by = _run(raw)
        state = STATES[to]
    except UNREADABLE:
        token, attempt, move, at, duration_ms, state, owner = 0, 0, "unknown", 0, 0, state_named("damaged"), ""
        kind, message = "UnreadableRun", f"the record of this run cannot be read: {raw[:100]!r}"
        traceback, fingerprint, by = "", "", ""
    return Run(
        token=token,
        attempt=attempt,
        move=move,
        to=state,
        failure=Failure(kind, message, traceback, fingerprint),
        at=at,
        duration_ms=duration_ms,
        owner=owner or None,
        by=RanBy.decoded(by),
    )


def session_state(owner: bytes, about: bytes, expires_at: bytes | None, leases_held: int) -> SessionState:
    """Return the state of a session; of an unreadable one, what is known."""
    try:
        told = _about(about)
        length, description = timedelta(microseconds=told.lease_for), told.description.encode("latin-1")
    except UNREADABLE:
        told, length, description = AboutSession(0, "unknown", 0, "damaged"), timedelta(0), b""
    return SessionState(
        owner=shown_name(owner),
        lease_for=length,
        host=told.host,
        pid=told.pid,
        version=told.version,
        description=description,
        expires_at=instant(expires_at or b"0"),
        leases=leases_held,
    )


def instant(score: bytes) -> int:
    """Return the instant of a score; for one that no script writes, the nearest valid one."""
    return int(min(max(float(score), 0.0), LAST_INSTANT))


def shown_name(raw: bytes) -> str:
    """Return a name; bytes that are no text are escaped."""
    return raw.decode("utf-8", "backslashreplace")
