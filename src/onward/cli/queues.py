"""``onward queue``: looking at queues, pausing and resuming them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.cli import limits, output
from onward.cli.acting import ACTING, acting
from onward.cli.application import on_new_store, on_store
from onward.cli.command import Command, Group, argument
from onward.cli.exits import Exit
from onward.cli.table import Column
from onward.cli.times import ago
from onward.contract.transfer import Transferable
from onward.job.states import State

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.operate.limits import LimitRecord

__all__ = ["GROUP"]

_EVERYWHERE = "(all queues)"


class Queue(NamedTuple):
    name: str
    paused: bool
    counts: dict[State, int]
    oldest_due: datetime | None  # since when the first of its available jobs could have run
    reserved_for: str | None = None  # a transfer that has not ended
    limit: LimitRecord | None = None


def list_queues(app: Onward, args: Namespace) -> int:
    """Print every queue that holds live jobs or is paused, and all of them together."""
    limited = {each.name: each for each in _limits(app) if each.kind == "queue"}
    queues = [
        Queue(
            queue.name,
            queue.paused,
            app.counts(queue.name),
            _oldest_due(app, queue.name),
            queue.reserved_for,
            limited.get(queue.name),
        )
        for queue in app.queues()
    ]
    if not args.json:
        queues.append(Queue(_EVERYWHERE, paused=False, counts=app.counts(), oldest_due=None))
    output.listing(args, [queues], (*_COLUMNS, _LIMIT) if limited else _COLUMNS, _as_data)
    return Exit.OK


def pause(app: Onward, args: Namespace) -> int:
    """Stop claims from queues."""
    return _switch(app, args, paused=True)


def resume(app: Onward, args: Namespace) -> int:
    """Allow claims from queues again."""
    if args.force:
        _end_reservations(app, args.names)
    return _switch(app, args, paused=False)


def _switch(app: Onward, args: Namespace, *, paused: bool) -> int:
    known = {queue.name for queue in app.queues()}
    for name in args.names:
        changed = app.pause(name, **acting(args)) if paused else app.resume(name, **acting(args))
        if args.json:
            output.json_line({"queue": name, "paused": paused, "changed": changed})
        else:
            output.write(f"{name} {'is' if changed else 'was already'} {'paused' if paused else 'open'}")
        if name not in known:
            output.say(args, f"note: nothing waits in {name}")
    return Exit.OK


def _end_reservations(app: Onward, names: Sequence[str]) -> None:
    """End transfers that cannot be continued."""
    backend = app.backend
    for queue in app.queues():
        if queue.name in names and queue.reserved_for is not None and isinstance(backend, Transferable):
            backend.reserve(queue.name, None, was=queue.reserved_for)


def _oldest_due(app: Onward, queue: str) -> datetime | None:
    first = app.list(state=State.AVAILABLE, queue=queue, limit=1)
    return first[0].available_at if first else None


def _limits(app: Onward) -> Sequence[LimitRecord]:
    return app.limits.list() if app.backend.capabilities.lanes else ()


def _as_data(queue: Queue) -> dict[str, Any]:
    counts = {state.value: number for state, number in queue.counts.items()}
    paused = {"paused": queue.paused, "reserved_for": queue.reserved_for}
    limit = None if queue.limit is None else limits.as_data(queue.limit)
    return {"queue": queue.name, **paused, **counts, "oldest_due": queue.oldest_due, "limit": limit}


def _paused(queue: Queue) -> str:
    return "reserved" if queue.reserved_for is not None else "paused" if queue.paused else ""


def _count(state: State, heading: str) -> Column[Queue]:
    def style(queue: Queue) -> str:
        return output.STATE_STYLES[state] if queue.counts[state] else "dim"

    return Column(heading, lambda queue: str(queue.counts[state]), style=style, right=True)


_COLUMNS: tuple[Column[Queue], ...] = (
    Column("QUEUE", lambda queue: queue.name, flexible=True),
    Column("PAUSED", _paused, style="bold yellow"),
    _count(State.AVAILABLE, "DUE"),
    _count(State.SCHEDULED, "LATER"),
    _count(State.RETRYABLE, "RETRY"),
    _count(State.EXECUTING, "RUNNING"),
    _count(State.COMPLETED, "DONE"),
    _count(State.DISCARDED, "DEAD"),
    _count(State.CANCELLED, "CANCELLED"),
    Column("OLDEST", lambda queue: ago(queue.oldest_due) if queue.oldest_due else "", useful=True),
)
_LIMIT: Column[Queue] = Column(
    "LIMIT", lambda queue: "" if queue.limit is None else limits.in_short(queue.limit), style="yellow", flexible=True
)

_NAMES = argument("names", "a queue", metavar="NAME", nargs="+")

GROUP = Group(
    "queue",
    "look at queues, pause and resume them",
    (
        Command(
            "list",
            "list the queues that hold live jobs or are paused, with their jobs by state",
            on_store(list_queues),
        ),
        Command(
            "pause",
            "stop claims from queues, everywhere and across restarts; running jobs go on",
            on_new_store(pause),
            (_NAMES, *ACTING),
        ),
        Command(
            "resume",
            "allow claims from queues again",
            on_store(resume),
            (
                _NAMES,
                argument(
                    "--force",
                    "end an unfinished `onward move` whose other store is gone for good: what is in both could run in both",
                    action="store_true",
                ),
                *ACTING,
            ),
        ),
    ),
)
