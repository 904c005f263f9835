"""``onward worker list``: the workers of a store."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from onward.cli import output
from onward.cli.application import on_store
from onward.cli.command import Command
from onward.cli.exits import Exit
from onward.cli.table import Column
from onward.cli.times import ago

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.record import SessionRecord

__all__ = ["COLUMNS", "COMMAND", "short"]

_SHORT = 8


def list_workers(app: Onward, args: Namespace) -> int:
    """Print every session in the store."""
    workers = app.sessions()
    output.listing(args, [workers], COLUMNS, asdict)
    if not workers:
        output.say(args, "this store has no workers")
    return Exit.OK


def short(owner: str | None) -> str:
    """Shorten a session's random name."""
    return (owner or "")[:_SHORT]


COLUMNS: tuple[Column[SessionRecord], ...] = (
    Column("WORKER", lambda worker: short(worker.owner)),
    Column("HOST", lambda worker: worker.host, flexible=True),
    Column("PID", lambda worker: str(worker.pid), right=True),
    Column("JOBS", lambda worker: str(worker.leases), right=True),
    Column("RENEWED", lambda worker: ago(worker.renewed_at)),
    Column(
        "STATE",
        lambda worker: "alive" if worker.alive else "expired",
        style=lambda worker: "green" if worker.alive else "bold red",
    ),
    Column("VERSION", lambda worker: worker.version, useful=True),
)

COMMAND = Command(
    "list",
    "list the workers of a store: where they run, how many jobs each holds, when it last renewed its session",
    on_store(list_workers),
    about="A worker process, and a program with a worker inside, has a session that it renews every ten seconds. One that "
    "has expired belongs to a process that died or cannot reach the store; the other workers give its jobs back, or "
    "`onward reap` does.",
)
