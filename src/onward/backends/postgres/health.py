"""How a database is: what it is, how durable, and what threatens it."""

from __future__ import annotations

from onward.backend import Check
from onward.backends.postgres import schema
from onward.backends.postgres.connection import Connection, Connections
from onward.backends.postgres.transaction import Transaction
from onward.clock import SECOND

__all__ = ["checks"]

_LONG = 300  # seconds: a snapshot older than this keeps vacuum from cleaning up behind the jobs


def checks(connection: Connection, connections: Connections, prefix: str, tx: Transaction) -> list[Check]:
    return [
        _server(connection, connections),
        Check(name="schema", status="ok", detail=f"version {schema.version(connection, prefix)}, tables {prefix}*"),
        _durability(tx),
        _waking(connections),
        _horizon(tx),
        _leases(tx),
    ]


def _server(connection: Connection, connections: Connections) -> Check:
    version = connection.info.parameter_status("server_version")
    return Check(name="server", status="ok", detail=f"PostgreSQL {version}, {connections.place}")


def _durability(tx: Transaction) -> Check:
    row = tx.ask("durability").row()
    assert row is not None
    synchronous, fsync, full_page_writes, standby = row
    wrong = [
        words
        for words, found in {
            "synchronous_commit=off: a crash of the server may undo the last moments, enqueued jobs included": (
                synchronous == "off"
            ),
            "fsync=off: a power cut may destroy the database": fsync == "off",
            "full_page_writes=off: a power cut may damage the database": full_page_writes == "off",
            "a standby: it cannot be written": standby,
        }.items()
        if found
    ]
    detail = "; ".join(wrong) or f"synchronous_commit={synchronous}, fsync={fsync}"
    return Check(
        name="durability", status="fail" if fsync == "off" or standby else "warn" if wrong else "ok", detail=detail
    )


def _waking(connections: Connections) -> Check:
    if connections.pooled:
        return Check(name="waking", status="ok", detail="behind a pooler: idle workers look five times a second")
    return Check(name="waking", status="ok", detail="LISTEN and NOTIFY")


def _horizon(tx: Transaction) -> Check:
    """Whether some old snapshot keeps the dead versions of every job that ran since."""
    row = tx.ask("oldest_snapshot").row()
    if row is None or row[1] < _LONG:
        return Check(name="horizon", status="ok", detail="no old transaction keeps vacuum from its work")
    pid, seconds, who = row
    return Check(
        name="horizon",
        status="warn",
        detail=f"a transaction of {seconds} s (pid {pid}, {who}) keeps vacuum from its work, and claims get slower: end it",
    )


def _leases(tx: Transaction) -> Check:
    """Whether jobs wait for somebody to take them back."""
    row = tx.ask("oldest_stranded").row()
    assert row is not None
    oldest, now = row
    if oldest is None:
        return Check(name="leases", status="ok", detail="every running job belongs to a live session")
    return Check(
        name="leases",
        status="warn",
        detail=f"a job started {max(0, now - oldest) // SECOND} s ago has no live session: it comes back with the next "
        f"sweep (`onward reap` now)",
    )
