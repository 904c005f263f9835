"""Transfer between stores, where no database decides how: the statements are named alike in every dialect."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from onward.backend import Note, StoredJob
from onward.backends.sql.audit import SqlAudit, audit_among, audit_rows
from onward.backends.sql.deaths import fingerprint_column
from onward.backends.sql.rows import stored_jobs
from onward.backends.sql.statements import SqlTransaction
from onward.contract.transfer import TRANSFERABLE, Attached, Confirmed, Restored, check_reserved, version_of

__all__ = ["Columns", "SqlTransfer", "dead_row"]

Result = TypeVar("Result")
Columns = dict[str, Any]

_encode = msgspec.json.Encoder().encode


class SqlTransfer(SqlAudit):
    """The `Transferable` half of a backend.  How rows are inserted is for the dialect to say."""

    @abstractmethod
    def _read(self, act: Callable[[Any], Result]) -> Result:
        """Run it in one snapshot."""

    @abstractmethod
    def _write(self, act: Callable[[Any], Result]) -> Result:
        """Run it as one transaction."""

    @abstractmethod
    def _forget(self, tx: Any, doomed: Mapping[str, int]) -> Collection[str]:
        """Remove these finished jobs with the records of their runs, if they ended at that time."""

    def reserve(self, queue: str, transfer: str | None, *, was: str | None = None) -> bool:
        def act(tx: SqlTransaction) -> bool:
            if transfer is not None:
                tx.ask("pause", queue=queue)
            tx.ask("reserve", queue=queue, transfer=transfer, was=was)
            return _reservation(tx, queue) == transfer

        is_reserved = self._write(act)
        if is_reserved and transfer is not None:
            self._await_claims()
        return is_reserved

    def _await_claims(self) -> None:
        """Return when every claim that is under way has ended: each locks the row of its session first."""
        for owner, *_ in self._read(lambda tx: tx.ask("sessions").rows()):
            self._write(partial(_lock_session, owner=owner))

    def _lock(self, tx: SqlTransaction, ids: Sequence[str]) -> None:
        tx.ask("lock_to_remove", ids=ids)

    def attached(self, jobs: Sequence[StoredJob]) -> Attached:
        keys = sorted({job.idempotency_key for job in jobs if job.idempotency_key is not None})

        def look(tx: SqlTransaction) -> Attached:
            found = tx.ask("confirmed_keys", keys=keys).rows() if keys else []
            confirmed = {key: Confirmed(job_id, token, until) for key, job_id, token, until in found}
            return Attached(confirmed, _notes(tx, jobs), audit_among(tx, [job.id for job in jobs]))

        return self._read(look)

    def restore(self, transfer: str, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[Restored]:
        def act(tx: SqlTransaction) -> Sequence[Restored]:
            _check_reserved(tx, transfer, jobs)
            known = _known(tx, jobs)
            # In the order of the keys: so two batches with the same keys cannot deadlock.
            new = sorted((job for job in jobs if job.id not in known), key=lambda job: job.unique_key or "")
            self._insert(tx, "restore_live", [_live(job) for job in new if not job.is_finished])
            self._insert(tx, "restore_dead", [dead_row(job) for job in new if job.is_finished])
            stored = _known(tx, new)
            self._insert(tx, "restore_runs", [row for job in new if job.id in stored for row in _runs(job)])
            notes = [_note(job, note) for job in new if job.id in stored for note in attached.notes.get(job.id, ())]
            self._insert(tx, "restore_notes", notes)
            entries = [entry for job in new if job.id in stored for entry in attached.audit.get(job.id, ())]
            self._insert(tx, "store_audit", audit_rows(entries))
            if attached.confirmed:
                keys = [(key, by.job_id, by.token, by.until) for key, by in sorted(attached.confirmed.items())]
                tx.ask("restore_confirmed", confirmed=_encode(keys).decode())
            refused = {job.id: job.unique_key for job in new if job.unique_key is not None and job.id not in stored}
            keys_taken = sorted(set(refused.values()))
            holders: dict[str, str] = dict(tx.ask("key_holders", keys=keys_taken).rows()) if keys_taken else {}
            return [
                Restored(job.id, stored=job.id in stored, holder=holders.get(refused.get(job.id, ""))) for job in jobs
            ]

        return self._write(act) if jobs else []

    def remove(self, transfer: str, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[str]:
        seen = {(job.id, job.is_finished): version_of(job) for job in jobs if job.state in TRANSFERABLE}

        def act(tx: SqlTransaction) -> Sequence[str]:
            _check_reserved(tx, transfer, jobs)
            ids = sorted(job.id for job in jobs)
            self._lock(tx, ids)
            notes = _notes(tx, jobs)
            same = [
                job
                for job in stored_jobs(tx.ask("pick", ids=ids).rows(), ())
                if seen.get((job.id, job.is_finished)) == version_of(job) and not job.tombstone
                if attached.notes.get(job.id, []) == notes.get(job.id, [])
            ]
            if live := [job.id for job in same if not job.is_finished]:
                tx.ask("remove_live", ids=live)
                tx.ask("forget_runs", ids=live)
                tx.ask("forget_notes", ids=live)
                tx.ask("forget_audit", ids=live)
            dead = self._forget(tx, {job.id: job.finished_at or 0 for job in same if job.is_finished})
            return [*live, *dead]

        return self._write(act) if seen else []


def _lock_session(tx: SqlTransaction, owner: str) -> None:
    tx.ask("lock_sessions", owners=[owner]).rows()


def _reservation(tx: SqlTransaction, queue: str) -> str | None:
    """Return for what a queue is reserved; in a write, it stays so until the commit."""
    rows = tx.ask("reservation", queue=queue).rows()
    return rows[0][0] if rows else None


def _check_reserved(tx: SqlTransaction, transfer: str, jobs: Sequence[StoredJob]) -> None:
    for queue in {job.queue for job in jobs}:
        check_reserved(queue, transfer, _reservation(tx, queue))


def _known(tx: SqlTransaction, jobs: Sequence[StoredJob]) -> set[str]:
    return {job_id for (job_id,) in tx.ask("known", ids=[job.id for job in jobs]).rows()}


def _notes(tx: SqlTransaction, jobs: Sequence[StoredJob]) -> dict[str, list[Note]]:
    notes: defaultdict[str, list[Note]] = defaultdict(list)
    for job_id, name, value, at in sorted(tx.ask("notes_among", ids=[job.id for job in jobs]).rows()):
        notes[job_id].append(Note(name=name, value=value, at=at))
    return dict(notes)


def _note(job: StoredJob, note: Note) -> Columns:
    return {"job_id": job.id, "name": note.name, "value": note.value, "at": note.at}


def _live(job: StoredJob) -> Columns:
    key_held = job.unique_key if job.key_held else None
    return _row(job) | {"spent": job.spent, "key_held": key_held, "awaits": job.awaits}


def dead_row(job: StoredJob) -> Columns:
    ended = {"owner": job.owner, "finished_at": job.finished_at, "reason": job.reason, "result": job.result}
    return _row(job) | ended | {"fingerprint": fingerprint_column(job)}


# Columns of live and finished jobs that have the names of fields.
_SHARED = (
    {*StoredJob.__struct_fields__}
    - {"data", "priority", "cancel_reason", "tombstone", "runs"}
    - {"spent", "key_held", "awaits", "owner", "finished_at", "reason", "result"}
)


def _row(job: StoredJob) -> Columns:
    """Return the columns that live and finished jobs share."""
    row: Columns = {name: getattr(job, name) for name in _SHARED}
    return row | {"sealed": job.data, "state": job.state.value, "rank": -job.priority}


def _runs(job: StoredJob) -> list[Columns]:
    return [
        {
            "job_id": job.id,
            "token": run.token,
            "attempt": run.attempt,
            "move": run.move,
            "state": run.to.value,
            "at": run.at,
            "duration_ms": run.duration_ms,
            "owner": run.owner,
            "ran_by": None if run.by is None else run.by.encoded(),
            "fingerprint": run.fingerprint,
            "kind": run.failure.kind,
            "message": run.failure.message,
            "traceback": run.failure.traceback,
        }
        for run in job.runs
    ]
