"""``onward dead canary`` and ``onward dead edit``: drawing how dead jobs are repaired."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward.base.names import whole
from onward.base.wording import counted
from onward.cli import bulk, output, values
from onward.cli.acting import ACTING, acting
from onward.cli.command import Argument, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.ids import find_dead
from onward.cli.text import json_text

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.operate.canary import CanaryStep
    from onward.operate.editing import Change, Edit

__all__ = ["CANARY", "EDIT", "canary", "edit"]

_STYLES = {"failed": "bold red", "impatient": "bold yellow", "waiting": "dim", "passed": "green", "finished": "green"}


def canary(app: Onward, args: Namespace, text: str) -> int:
    """Replay dead jobs with care; print each step."""
    last: CanaryStep | None = None
    options: dict[str, Any] = {"steps": args.steps, "patience": args.patience, "rate": args.rate}
    with bulk.stopping() as stop:
        for step in app.dead_letters.canary(text, **options, **acting(args)):
            last = step
            _tell(args, step)
            if stop() and step.happened != "finished":
                output.fail(f"stopped with Ctrl-C: {counted(step.replayed, 'job')} replayed, the others stay dead")
                return Exit.INTERRUPTED
    if last is None or last.stopped:
        return Exit.FAILURE
    return Exit.OK if last.replayed else Exit.NOTHING


def _tell(args: Namespace, step: CanaryStep) -> None:
    if args.json:
        if step.text:
            output.json_line(step)
        return
    if step.text:
        output.write([(f"step {step.step}", "dim"), ("  ", ""), (step.text, _STYLES.get(step.happened, ""))])
    if step.why is not None and step.why.fix:
        output.write([("        do ", "dim"), (step.why.fix, "")])
    for job_id, reason in list(step.skipped.items())[:20]:
        output.fail(f"{job_id} was skipped: {reason}")
    if step.stopped:
        output.fail(f"stopped: {counted(step.replayed, 'job')} replayed, the others stay dead")
    sys.stdout.flush()


def edit(app: Onward, args: Namespace) -> int:
    """Enqueue a dead job with other arguments; print the difference."""
    job_id = find_dead(app, args.id).id
    given: dict[str, Any] = {} if args.payload is None else {"payload": _read(args.payload)}
    given |= {"set": dict(args.set or ()), "unset": args.unset or (), "dry_run": args.dry_run}
    made = app.dead_letters.edit(job_id, **given, **acting(args))
    if args.json:
        output.json_line(made)
    else:
        _show(args, made)
    return Exit.OK if made.enqueued or args.dry_run else Exit.FAILURE


def _show(args: Namespace, made: Edit) -> None:
    for change in made.changes:
        before, after = _value(change, before=True), _value(change, before=False)
        output.write([(change.name, "bold"), ("  ", ""), (before, "red"), (" -> ", "dim"), (after, "green")])
    if not made.checked:
        output.say(args, "the arguments were not checked: --app names the application that defines the job")
    if made.doubt:
        output.say(args, f"check the names: {made.doubt}")
    if args.dry_run:
        output.write(f"would enqueue {made.id} in place of {made.edited_from}; nothing was enqueued")
    elif made.repeated:
        output.write(f"{made.id} was enqueued before in place of {made.edited_from}, and not again")
    elif made.enqueued:
        output.write(f"enqueued {made.id} in place of {made.edited_from}, which stays dead")
    else:
        output.fail(f"nothing was enqueued: job {made.held_by} holds the unique key; cancel it, or let it end")


def _value(change: Change, *, before: bool) -> str:
    given, value = (change.was_given, change.before) if before else (change.is_given, change.after)
    return json_text(value) if given else "(none)"


def _read(path: str) -> Any:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        return values.json_value(text)
    except (ArgumentTypeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}", Exit.USAGE) from None


def _steps(text: str) -> tuple[int | str, ...]:
    """Read the steps of a canary.

    >>> _steps("1,10,all")
    (1, 10, 'all')
    """
    words = [word.strip() for word in text.split(",")]
    steps = tuple(word if word == "all" else whole(word) or 0 for word in words)
    if 0 in steps or "all" in steps[:-1]:
        raise ArgumentTypeError(
            f"{text[:40]!r} are no steps: write numbers, and perhaps all at the end, as in 1,10,all"
        )
    return steps


CANARY: tuple[Argument, ...] = (
    argument("--steps", "how many at a time (1,10,all)", metavar="N,N,all", type=_steps, default=(1, 10, "all")),
    argument(
        "--patience", "how long to wait, if no job ends (10m)", metavar="LENGTH", type=values.duration, default=600.0
    ),
    argument("--rate", "how fast the last step goes (50/s)", metavar="N/s", default="50/s"),
    *ACTING,
)
EDIT: tuple[Argument, ...] = (
    argument("id", "an id, or 8 or more of its first characters", metavar="ID"),
    argument("--set", "give an argument; may be given again", metavar="KEY=VALUE", action="append", type=values.pair),
    argument("--unset", "leave an argument out; may be given again", metavar="KEY", action="append"),
    argument("--payload", "all arguments, as JSON in a file; - reads stdin", metavar="FILE", files=True),
    bulk.DRY_RUN,
    *ACTING,
)
