"""``onward audit``: what people did by hand, the newest first."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from onward.cli import output, values
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import Exit
from onward.cli.ids import find
from onward.cli.table import Column
from onward.cli.times import stamp
from onward.contract.audit import ACTS
from onward.errors import JobNotFound

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.auditing import AuditRecord

__all__ = ["COMMAND", "TRUST"]

TRUST = {"altered": "ALTERED", "unknown": "signed with a key that is not known here", "unsigned": "", "verified": ""}


def audit(app: Onward, args: Namespace) -> int:
    """Print a page of the audit trail."""
    entries = app.audit(
        job=_job(app, args.job), who=args.who, ref=args.ref, act=args.act, before=args.before, limit=args.limit
    )
    signed = any(entry.trust in ("verified", "altered") for entry in entries)
    output.listing(args, [entries], (*_COLUMNS, _TRUST) if signed else _COLUMNS, asdict)
    if not entries:
        output.say(args, "no entries: no act that matches was made with --by, by=… or on the command line")
    elif len(entries) == args.limit:
        output.say(args, f"there may be more: --before {entries[-1].place}")
    return Exit.OK


def _job(app: Onward, given: str | None) -> str | None:
    """Return the id of a job that is named by its beginning; one that is gone has no entries either."""
    if given is None:
        return None
    try:
        return find(app, given).id
    except JobNotFound:
        return given.replace("-", "").lower()


def _style(entry: AuditRecord) -> str:
    return "bold red" if entry.trust == "altered" else ""


_COLUMNS: tuple[Column[AuditRecord], ...] = (
    Column("WHEN", lambda entry: stamp(entry.at), style="dim"),
    Column("WHO", lambda entry: entry.who, flexible=True),
    Column("ACT", lambda entry: entry.act, style="bold"),
    Column("JOB", lambda entry: entry.job_id),
    Column("ABOUT", lambda entry: entry.ref, flexible=True, useful=True),
    Column("REASON", lambda entry: entry.detail, flexible=True),
)
_TRUST: Column[AuditRecord] = Column("SIGNATURE", lambda entry: TRUST[entry.trust] or entry.trust, style=_style)

COMMAND = Command(
    "audit",
    "list what people did by hand: who, what, when and why",
    on_store(audit),
    (
        argument("--job", "only about this job: an id, or 8 or more of its first characters", metavar="ID"),
        argument("--who", "only by this person", metavar="NAME"),
        argument("--ref", "only about this queue, schedule, flow or larger act", metavar="NAME"),
        argument("--act", "only of this kind", metavar="ACT", choices=ACTS),
        argument("--before", "begin before this entry, the last of the page before", metavar="PLACE"),
        argument("--limit", "at most this many (50)", metavar="N", type=values.count, default=50),
    ),
    about="The newest come first. Entries live as long as their job; those of no job are kept for 90 days. Where there is a "
    "key, an entry that was changed is shown as altered.",
)
