"""Transfer between stores: the rows of a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.backends.postgres.enqueueing import rivalry
from onward.backends.postgres.transaction import Transaction
from onward.backends.sql.transfer import SqlTransfer
from onward.contract.transfer import Parcel

__all__ = ["PostgresTransfer"]


class PostgresTransfer(SqlTransfer):
    """The `Movable` half of the backend."""

    def _store_parcels(self, tx: Transaction, transit: str, live: Sequence[Parcel], dead: Sequence[Parcel]) -> None:
        if live:
            held = [each.unique_key if each.key_held else None for each in live]
            spent = [each.spent for each in live]
            if rivals := rivalry(held):
                tx.ask("lock_unique_keys", numbers=rivals)
            tx.ask("accept_live", queue=transit, **_columns(live), spent=spent, keys_held=held)
        if dead:
            tx.ask(
                "accept_dead",
                queue=transit,
                **_columns(dead),
                owners=[each.owner for each in dead],
                finished_at=[each.finished_at for each in dead],
                reasons=[each.reason for each in dead],
                results=[each.result for each in dead],
            )

    def _store_runs(self, tx: Transaction, parcels: Sequence[Parcel]) -> None:
        runs = [(parcel.id, run) for parcel in parcels for run in parcel.runs]
        if runs:
            tx.ask(
                "accept_runs",
                ids=[job_id for job_id, _ in runs],
                tokens=[run.token for _, run in runs],
                attempts=[run.attempt for _, run in runs],
                moves=[run.move for _, run in runs],
                states=[run.to for _, run in runs],
                at=[run.at for _, run in runs],
                durations=[run.duration_ms for _, run in runs],
                owners=[run.owner for _, run in runs],
                kinds=[run.failure.kind for _, run in runs],
                messages=[run.failure.message for _, run in runs],
                tracebacks=[run.failure.traceback for _, run in runs],
            )

    def _rouse(self, tx: Transaction, queue: str) -> None:
        tx.wakes.add(queue)


def _columns(parcels: Sequence[Parcel]) -> dict[str, list[Any]]:
    return {
        "ids": [each.id for each in parcels],
        "jobs": [each.job for each in parcels],
        "sealed": [each.sealed for each in parcels],
        "states": [each.state for each in parcels],
        "ranks": [-each.priority for each in parcels],
        "available_at": [each.available_at for each in parcels],
        "expires_at": [each.expires_at for each in parcels],
        "enqueued_at": [each.enqueued_at for each in parcels],
        "started_at": [each.started_at for each in parcels],
        "max_crashes": [each.max_crashes for each in parcels],
        "deliveries": [each.delivery for each in parcels],
        "attempts": [each.attempts for each in parcels],
        "crashes": [each.crashes for each in parcels],
        "interruptions": [each.interruptions for each in parcels],
        "waits": [each.waits for each in parcels],
        "parked_since": [each.parked_since for each in parcels],
        "unique_keys": [each.unique_key for each in parcels],
        "idempotency_keys": [each.idempotency_key for each in parcels],
        "idempotency_ttls": [each.idempotency_ttl for each in parcels],
        "single_instances": [each.single_instance for each in parcels],
        "progress": [each.progress for each in parcels],
    }
