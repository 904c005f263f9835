"""``onward dead groups`` and ``onward dead show --group``: drawing dead jobs that died in the same way."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onward.cli import output
from onward.cli.bulk import sample, shown_payload
from onward.cli.exits import Exit
from onward.cli.table import Column, StyledLine
from onward.cli.times import ago
from onward.operate.commands import canary

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.operate.death_details import DeathDetail
    from onward.operate.deaths import DeathRecord

__all__ = ["list_groups", "show_group"]

_LABEL = 10


def list_groups(app: Onward, args: Namespace) -> int:
    """Print the groups of dead jobs, largest first."""
    groups = app.dead_letters.groups(job=args.job, queues=args.queue, since=args.since)
    output.listing(args, [groups] if groups else [], _COLUMNS, asdict)
    if not groups:
        output.say(args, "no job is dead" if not (args.job or args.queue or args.since) else "no dead job matches")
        return Exit.NOTHING
    return Exit.OK


def show_group(app: Onward, args: Namespace) -> int:
    """Print what the newest jobs of one group tell."""
    detail = app.dead_letters.group(args.group, job=args.job)
    if args.json:
        output.json_line(_as_data(detail))
    else:
        for line in _lines(detail):
            output.write(line)
    return Exit.OK


def _as_data(detail: DeathDetail) -> dict[str, Any]:
    names = ("job", "fingerprint", "reason", "kind", "message", "traceback", "hosts", "builds")
    return {name: getattr(detail, name) for name in names} | {"samples": [sample(each) for each in detail.samples]}


def _lines(detail: DeathDetail) -> Iterator[StyledLine]:
    yield [(detail.job, "bold"), ("  ", ""), (f"group {detail.fingerprint}", "")]
    error = f"{detail.kind}: {detail.message}" if detail.kind else ""
    hosts = ", ".join(f"{host} ({number})" for host, number in detail.hosts.items())
    facts = {"error": error, "reason": detail.reason or "", "hosts": hosts, "builds": ", ".join(detail.builds)}
    for label, value in facts.items():
        if value:
            yield [(label.ljust(_LABEL), "dim"), (value, "red" if label == "error" else "")]
    for record in detail.samples:
        yield [("sample".ljust(_LABEL), "dim"), (f"{record.id}  {shown_payload(record)}", "")]
    for line in detail.traceback.splitlines():
        yield [("    ", ""), (line, "dim")]
    yield [("do".ljust(_LABEL), "dim"), (canary(detail.job, detail.fingerprint), "")]


_COLUMNS: tuple[Column[DeathRecord], ...] = (
    Column("GROUP", lambda group: group.fingerprint),
    Column("JOBS", lambda group: f"{group.count:,}{'+' if group.or_more else ''}", right=True),
    Column("JOB", lambda group: group.job, flexible=True),
    Column("ERROR", lambda group: group.kind, style="red", flexible=True),
    Column("FIRST", lambda group: ago(group.first)),
    Column("LAST", lambda group: ago(group.last)),
    Column("PLACE", lambda group: group.place or "", flexible=True, useful=True),
    Column("BUILDS", lambda group: ", ".join(group.builds), useful=True),
)
