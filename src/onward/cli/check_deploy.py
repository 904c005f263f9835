"""``onward check-deploy`` and ``onward job signatures``: whether a build can run what another has enqueued."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from onward import config
from onward.base.wording import counted
from onward.cli import output, values
from onward.cli.application import given, load, on_store, refuse_missing
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.text import json_text
from onward.cli.times import ago, length
from onward.errors import BackendMisconfigured, InvalidName, InvalidTime, OptionError, Unsupported

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.operate.deploy.problem import DeployProblem

__all__ = ["COMMAND", "SIGNATURES"]

_LABEL = 9


def check_deploy(args: Namespace) -> int:
    """Say whether the application can run every job that waits, or all that another build could enqueue."""
    args.app = args.application or args.app
    if args.app is None:
        raise CommandError("name the application: `onward check-deploy shop.jobs:jobs`", Exit.USAGE)
    return _against(args) if args.against is not None else on_store(_check)(args)


def signatures(args: Namespace) -> int:
    """Print what the jobs of an application can be called with."""
    from onward.operate.deploy.signatures import signatures_of

    args.app = args.application or args.app
    with _loaded(args) as app:
        found = signatures_of(app.client.letters.registry)
    for each in found:
        if args.json:
            output.json_line(msgspec.to_builtins(each))
        else:
            known = {} if each.parameters is None else each.parameters
            shown = ", ".join(name if one.required else f"{name}=…" for name, one in known.items())
            output.write(f"{each.job}({shown if each.parameters is not None else 'payload'})  on {each.queue}")
    return Exit.OK


def _check(app: Onward, args: Namespace) -> int:
    _refuse_changing(app)
    try:
        with output.progress(args, "checking jobs", None) as advance:
            report = app.check_deploy(
                queues=args.queues, elsewhere=args.elsewhere, sample=args.sample, dead=args.dead, progress=advance
            )
    except Unsupported as error:
        told = f"{error}; `onward check-deploy --against FILE` needs no store"
        raise CommandError(told, Exit.CONFIG) from error
    _print(args, report.problems)
    checked = f"{counted(report.checked, 'job')} checked{', a sample' if report.sampled else ''}"
    output.say(args, f"{checked}; this build cannot run {report.blocked:,}" if report.blocked else checked)
    if not report.passed:
        return Exit.FAILURE
    return Exit.OK if report.checked else Exit.NOTHING


def _against(args: Namespace) -> int:
    from onward.operate.deploy.signatures import compared, read_signatures

    try:
        old = read_signatures(Path(args.against).read_bytes())
    except OSError as error:
        raise CommandError(f"{args.against} cannot be read: {error.strerror}", Exit.USAGE) from error
    with _loaded(args) as app:
        problems = compared(old, app.client.letters.registry)
    _print(args, problems)
    output.say(args, f"{counted(len(old), 'job')} compared")
    return Exit.FAILURE if problems else Exit.OK if old else Exit.NOTHING


def _loaded(args: Namespace) -> Onward:
    """Import the application; its store is not reached."""
    if args.app is None:
        raise CommandError("name the application, as in shop.jobs:jobs", Exit.USAGE)
    try:
        return load(args.app, given(args))
    except (OptionError, InvalidName, InvalidTime) as error:
        raise CommandError(str(error), Exit.CONFIG) from error


def _refuse_changing(app: Onward) -> None:
    """Raise if opening the store would create it or change its tables: the old workers still use them."""
    from onward.backends.opening import tables_of

    settings = app.settings
    for url in filter(None, (settings.url, settings.store)):
        refuse_missing(config.Origin(url, "the application"))
    try:
        tables = tables_of(settings)
    except BackendMisconfigured:
        return  # it has none
    with closing(tables):
        if tables.pending():
            raise CommandError(
                "the tables are not up to date for this build, and checking changes none: run `onward migrate` first",
                Exit.PENDING,
            )


def _print(args: Namespace, problems: Any) -> None:
    for problem in problems:
        if args.json:
            output.json_line(msgspec.to_builtins(problem))
        else:
            _show(problem)


def _show(problem: DeployProblem) -> None:
    style = "bold red" if problem.blocks else "bold"
    output.write([(problem.code, style), (f"  {problem.subject}  ", "bold"), (problem.text, "")])
    lines = {
        "do": problem.fix,
        "jobs": _jobs(problem) if problem.jobs else "",
        "ids": ", ".join(problem.ids),
        "as in": "" if problem.arguments is None else json_text(problem.arguments)[:200],
    }
    for label, value in lines.items():
        if value:
            output.write([(label.ljust(_LABEL), "dim"), (value, "")])


def _jobs(problem: DeployProblem) -> str:
    oldest = "" if problem.oldest is None else f", the oldest enqueued {ago(problem.oldest)}"
    return f"{problem.jobs:,}{oldest}{_due(problem.next_due, datetime.now(UTC))}"


def _due(when: datetime | None, now: datetime) -> str:
    if when is None:
        return ""
    return f", the next due {ago(when, now)}" if when > now else f", due for {length((now - when).total_seconds())}"


def _names(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


COMMAND = Command(
    "check-deploy",
    "say whether a build can run every job that waits, before it is deployed",
    check_deploy,
    (
        argument("application", "the new build, as in shop.jobs:jobs", metavar="MODULE:ATTRIBUTE", nargs="?"),
        argument(
            "--queues", "the queues that its workers will serve; else those of its jobs", metavar="NAMES", type=_names
        ),
        argument(
            "--elsewhere",
            "queues that another application serves, as in billing,tenant.*: their jobs are not checked",
            metavar="NAMES",
            type=_names,
            default=(),
        ),
        argument(
            "--sample",
            "check only the N oldest and the N newest jobs of each name",
            metavar="N",
            type=values.count,
        ),
        argument("--dead", "check the dead jobs, too: whether they could be replayed", action="store_true"),
        argument(
            "--against",
            "compare with the signatures of another build instead, and reach no store",
            metavar="FILE",
            files=True,
        ),
    ),
    about="Run it with the new code before the old workers stop. It imports the application, opens and decodes every live "
    "job as a worker would, runs no handler, and claims and changes nothing. The exit code is 0 if all can run, 1 if "
    "some cannot, 6 if there is nothing to check.",
)

SIGNATURES = Command(
    "signatures",
    "print what the jobs of an application can be called with, for `check-deploy --against`",
    signatures,
    (argument("application", "the build, as in shop.jobs:jobs; else --app", metavar="MODULE:ATTRIBUTE", nargs="?"),),
    about="It reaches no store. Keep what it prints with --json beside each release.",
)
