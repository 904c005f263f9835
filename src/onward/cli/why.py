"""``onward why``: the one reason that holds a job, and what to type."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import msgspec

from onward.cli import output
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import Exit
from onward.cli.ids import find
from onward.cli.times import ago, stamp
from onward.errors import JobNotFound
from onward.operate.commands import APPLICATION

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.operate.why.reason import Reason

__all__ = ["COMMAND", "besides"]

_LABEL = 9


def why(app: Onward, args: Namespace) -> int:
    """Print why a job is where it is."""
    try:
        job_id = find(app, args.id).id
    except JobNotFound:
        job_id = args.id.replace("-", "").lower()
    reason = app.why(job_id)
    if args.json:
        output.json_line({"id": job_id, **msgspec.structs.asdict(reason)})
    else:
        if args.app is not None:
            reason = msgspec.structs.replace(reason, fix=reason.fix.replace(APPLICATION, args.app))
        output.write([(reason.code, "bold"), ("  ", ""), (reason.text, "")])
        for label, value in besides(reason):
            output.write([(label.ljust(_LABEL), "dim"), (value, "")])
    return Exit.NOTHING if reason.code == "gone" else Exit.OK


def besides(reason: Reason) -> list[tuple[str, str]]:
    """Return what is told below the sentence, each with its label."""
    about = "" if reason.exact else "about "
    told = {
        "do": reason.fix,
        "until": "" if reason.until is None else f"{about}{stamp(reason.until)}, {ago(reason.until)}",
        "then": ", ".join(reason.then),
    }
    return [(label, value) for label, value in told.items() if value]


COMMAND = Command(
    "why",
    "say why a job is where it is, and what to type",
    on_store(why),
    (argument("id", "an id, or 8 or more of its first characters", metavar="ID"),),
    about="One word that scripts may rely on, a sentence, the command that helps, and when it passes by itself. `then` "
    "names what would hold the job next. The exit code is 6 if there is no such job.",
)
