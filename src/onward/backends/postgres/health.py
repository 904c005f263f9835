"""The health of a database: its version, its durability, and what slows it down."""

from __future__ import annotations

from onward.backend import Check
from onward.backends.postgres import schema
from onward.backends.postgres.connection import Connection, Connections
from onward.backends.postgres.transaction import Transaction
from onward.backends.sql.health import of_leases

__all__ = ["checks"]

_LONG = 300  # seconds: a snapshot older than this keeps vacuum from removing old row versions
_MUCH = 1 << 30  # bytes of the log that a slot without a reader may keep, as while a standby restarts
_NAMED = 3


def checks(connection: Connection, connections: Connections, prefix: str, tx: Transaction) -> list[Check]:
    return [
        _server(connection, connections),
        Check(name="schema", status="ok", detail=f"version {schema.version(connection, prefix)}, tables {prefix}*"),
        _durability(tx),
        _waking(connections),
        _horizon(tx),
        of_leases(*tx.ask("oldest_stranded").rows()[0]),
    ]


def _server(connection: Connection, connections: Connections) -> Check:
    version = connection.info.parameter_status("server_version")
    return Check(name="server", status="ok", detail=f"PostgreSQL {version}, {connections.place}")


def _durability(tx: Transaction) -> Check:
    row = tx.ask("durability").row()
    assert row is not None
    synchronous, fsync, full_page_writes, standby = row
    wrong = [
        (words, fix)
        for words, fix, found in (
            ("a standby: it cannot be written", "export ONWARD_URL=postgresql://PRIMARY/…", standby),
            ("fsync=off: a power cut may destroy the database", _switched_on("fsync"), fsync == "off"),
            (
                "full_page_writes=off: a power cut may damage the database",
                _switched_on("full_page_writes"),
                full_page_writes == "off",
            ),
            (
                "synchronous_commit=off: a crash of the server may undo the last moments, enqueued jobs included",
                _switched_on("synchronous_commit"),
                synchronous == "off",
            ),
        )
        if found
    ]
    if not wrong:
        return Check(name="durability", status="ok", detail=f"synchronous_commit={synchronous}, fsync={fsync}")
    return Check(
        name="durability",
        status="fail" if fsync == "off" or standby else "warn",
        detail="; ".join(words for words, _ in wrong),
        fix=wrong[0][1],
    )


def _switched_on(setting: str) -> str:
    return f"ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf()"


def _waking(connections: Connections) -> Check:
    if connections.pooled:
        return Check(name="waking", status="ok", detail="behind a pooler: idle workers look five times a second")
    return Check(name="waking", status="ok", detail="LISTEN and NOTIFY")


def _horizon(tx: Transaction) -> Check:
    """Check for an old snapshot, which keeps the dead row versions of every job that ran since."""
    row = tx.ask("sees_all").row()
    assert row is not None
    sees_all, role = row
    pins = [found for pin in tx.ask("pins").rows() if (found := _pin(*pin)) is not None]
    if pins:
        others = f"; and {len(pins) - _NAMED} more" if len(pins) > _NAMED else ""
        detail = "; ".join(words for words, _ in pins[:_NAMED]) + others
        return Check(
            name="horizon",
            status="warn",
            detail=f"vacuum cannot remove old rows, and claims get slower: {detail}",
            fix="; ".join(fix for _, fix in pins[:_NAMED]),
        )
    if sees_all:
        detail = "no old transaction holds vacuum back"
    else:
        detail = (
            f"no old transaction of this role holds vacuum back; to see those of others: "
            f"GRANT pg_read_all_stats TO {role}"
        )
    return Check(name="horizon", status="ok", detail=detail)


def _pin(kind: str, name: str, whose: str, seconds: int, kept: int) -> tuple[str, str] | None:
    """Return what holds vacuum back, and how to end it; None if it does no harm."""
    if kind == "slot":
        behind = f"replication slot {name!r} has no reader and keeps {int(kept) >> 20} MB of the log"
        return (behind, f"SELECT pg_drop_replication_slot('{name}')") if kept >= _MUCH else None
    if seconds < _LONG:
        return None
    if kind == "prepared":
        return f"a prepared transaction of {seconds} s (gid {name!r}, {whose})", f"ROLLBACK PREPARED '{name}'"
    return f"a transaction of {seconds} s (pid {name}, {whose})", f"SELECT pg_terminate_backend({name})"
