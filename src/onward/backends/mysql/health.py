"""The health of a database: its version, its durability, and what slows it down."""

from __future__ import annotations

from onward.backend import Check
from onward.backends.mysql import errors, schema
from onward.backends.mysql.connection import Connection, Connections
from onward.backends.mysql.driver import pymysql
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.health import of_leases
from onward.errors import BackendMisconfigured

__all__ = ["checks"]

_LONG = 300  # seconds: a snapshot older than this keeps the server from removing old row versions


def checks(connection: Connection, connections: Connections, prefix: str, tx: Transaction) -> list[Check]:
    said = {name.lower(): value for name, value in tx.ask("server").rows()}
    return [
        Check(name="server", status="ok", detail=f"{said['version']}, {connections.place}"),
        Check(name="schema", status="ok", detail=f"version {schema.version(connection, prefix)}, tables {prefix}*"),
        _durability(said),
        Check(name="waking", status="ok", detail="idle workers look two to twenty times a second"),
        _horizon(tx),
        _limits(tx),
        of_leases(*tx.ask("oldest_stranded").rows()[0]),
    ]


def _durability(said: dict[str, str]) -> Check:
    flush, logs = said["innodb_flush_log_at_trx_commit"], said.get("log_bin", "OFF").upper() in ("ON", "1")
    wrong = {}
    if flush != "1":
        wrong["innodb_flush_log_at_trx_commit"] = (
            f"innodb_flush_log_at_trx_commit={flush}: a crash may undo the last second, enqueued jobs included"
        )
    if logs and said["sync_binlog"] != "1":
        wrong["sync_binlog"] = f"sync_binlog={said['sync_binlog']}: a crash may undo what the binary log lacks"
    if not wrong:
        detail = f"innodb_flush_log_at_trx_commit=1, {'sync_binlog=1' if logs else 'no binary log'}"
        return Check(name="durability", status="ok", detail=detail)
    fix = f"SET GLOBAL {', GLOBAL '.join(f'{name} = 1' for name in wrong)}  -- and the same in my.cnf"
    return Check(name="durability", status="warn", detail="; ".join(wrong.values()), fix=fix)


def _horizon(tx: Transaction) -> Check:
    """Check for an old snapshot, which keeps the dead row versions of every job that ran since."""
    try:
        row = tx.ask("oldest_snapshot").row()
    except pymysql.err.MySQLError as error:
        if not isinstance(errors.translation(error, ""), BackendMisconfigured):
            raise
        detail = "unknown: only a user with the privilege PROCESS sees others' transactions"
        return Check(name="horizon", status="ok", detail=detail)
    if row is None or row[1] < _LONG:
        return Check(name="horizon", status="ok", detail="no old transaction keeps the server from cleaning up")
    number, seconds = row
    return Check(
        name="horizon",
        status="warn",
        detail=f"a transaction of {seconds} s (connection {number}) keeps the server from cleaning up: claims get slower",
        fix=f"KILL {number}",
    )


def _limits(tx: Transaction) -> Check:
    """Check for the rows that claims of limits lock."""
    missing = tx.ask("left_by_limits").rows()[0][1]
    if not missing:
        return Check(name="limits", status="ok", detail="every limit can be locked")
    return Check(
        name="limits",
        status="fail",
        detail=f"{missing} rows of onward_stripes are missing: limits let no job start",
        fix="onward prune",
    )
