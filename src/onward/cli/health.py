"""``onward health``: what is wrong with a store and the workers on it, and what to type."""

from __future__ import annotations

import textwrap
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from onward.base.wording import counted
from onward.cli import output
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import Exit
from onward.cli.table import StyledLine, measure
from onward.cli.text import escaped

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.backend import Check

__all__ = ["COMMAND", "STATUS_STYLES", "lines"]

STATUS_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_WORST_FIRST = tuple(reversed(STATUS_STYLES))
_STATUS = 8
_NARROWEST = 24  # columns for what a check says; on a narrower terminal it stands below its name


def health(app: Onward, args: Namespace) -> int:
    """Print the checks of the store and of the workers on it, the worst first."""
    checks = _named(app.health(), args.app)
    if args.json:
        for check in checks:
            output.json_line(msgspec.structs.asdict(check))
    else:
        worst_first = sorted(checks, key=lambda check: _WORST_FIRST.index(check.status))
        for line in lines(worst_first, output.width()):
            output.write(line)
        output.say(args, _summary(checks))
    wrong = {"fail", "warn"} if args.strict else {"fail"}
    return Exit.FAILURE if any(check.status in wrong for check in checks) else Exit.OK


def lines(checks: Sequence[Check], width: int | None) -> Iterator[StyledLine]:
    """Yield a table in which every line fits: what a check says is wrapped, and its fix stands below."""
    if not checks:
        return
    first = max(len("CHECK"), *(measure(escaped(check.name)) for check in checks)) + 2
    left = first + _STATUS
    if width is not None and width - left < _NARROWEST:
        left = 2
    yield [("CHECK".ljust(first), "bold"), ("STATUS".ljust(_STATUS), "bold"), ("DETAIL" if left > 2 else "", "bold")]
    for check in checks:
        yield from _lines_of(check, first, left, width)


def _lines_of(check: Check, first: int, left: int, width: int | None) -> Iterator[StyledLine]:
    name = escaped(check.name)
    start: StyledLine = [
        (name + " " * (first - measure(name)), "" if check.status == "ok" else "bold"),
        (check.status.ljust(_STATUS), STATUS_STYLES[check.status]),
    ]
    said = _wrapped(check.detail, left, width)
    if left > 2:
        yield [*start, (said[0] if said else "", "")]
        said = said[1:]
    else:
        yield start
    for part in said:
        yield [(" " * left + part, "")]
    if check.status != "ok" and check.fix:
        for number, part in enumerate(_wrapped(check.fix, left + 2, width)):
            yield [(" " * left + ("  " if number else "→ "), "dim"), (part, "bold cyan")]


def _wrapped(text: str, left: int, width: int | None) -> list[str]:
    """Return a text in lines.  A word that is longer than a line is not cut: it may be a command's."""
    text = escaped(text)
    if width is None:
        return [text]
    return textwrap.wrap(text, max(1, width - left), break_long_words=False, break_on_hyphens=False)


def _named(checks: Sequence[Check], app: str | None) -> list[Check]:
    """Return the checks, with the application that was named in the commands to type."""
    from onward.operate.commands import APPLICATION

    if app is None:
        return list(checks)
    return [msgspec.structs.replace(check, fix=check.fix.replace(APPLICATION, app)) for check in checks]


def _summary(checks: Sequence[Check]) -> StyledLine:
    numbers = {status: sum(check.status == status for check in checks) for status in _WORST_FIRST}
    words = {"fail": ("check fails", "checks fail"), "warn": ("check warns", "checks warn")}
    told = [(counted(numbers[status], *words[status]), STATUS_STYLES[status]) for status in words if numbers[status]]
    if not told:
        return [(f"all {counted(len(checks), 'check')} are fine" if checks else "this store has no checks", "green")]
    line: list[tuple[str, str]] = []
    for span in told:
        line += [(", ", ""), span] if line else [span]
    return [*line, (f", {numbers['ok']} {'is' if numbers['ok'] == 1 else 'are'} fine", "")]


COMMAND = Command(
    "health",
    "check the store and the workers on it; each check that fails names its fix",
    on_store(health),
    (argument("--strict", "let a warning be a failure, too", action="store_true"),),
    about="The exit code is 1 if a check fails; with --strict also if one warns. However much is in the store, the checks "
    "cost it the same: of the jobs that wait they look at the 100 that were enqueued first and the 100 that were enqueued "
    "last, and of the queues at the first 100 by name. With --app the keys of workers are compared with the application's, "
    "and its time-outs count.",
)
