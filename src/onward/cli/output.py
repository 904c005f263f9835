"""What a command prints, and where: data to stdout, talk to stderr; for people in columns, for machines as JSON lines."""

from __future__ import annotations

import io
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, NamedTuple, TextIO, TypeVar

from onward.base.credentials import without_credentials
from onward.base.numerals import whole
from onward.cli.table import Column, Line, Table
from onward.cli.text import escaped, json_text
from onward.job.states import State

__all__ = [
    "STATE_STYLES",
    "Shown",
    "fail",
    "is_terminal",
    "json_line",
    "listing",
    "progress",
    "quietly_closed",
    "say",
    "style_of",
    "survive_any_text",
    "width",
    "working",
    "write",
]

Row = TypeVar("Row")

STATE_STYLES = {
    State.SCHEDULED: "blue",
    State.AVAILABLE: "cyan",
    State.EXECUTING: "bold cyan",
    State.RETRYABLE: "yellow",
    State.COMPLETED: "green",
    State.DISCARDED: "red",
    State.CANCELLED: "magenta",
}


def style_of(state: State) -> str:
    """Of a word that is no state of ours, that of an alarm."""
    return STATE_STYLES.get(state, "bold red")


def json_line(value: Any) -> None:
    sys.stdout.write(f"{json_text(value)}\n")


def write(line: Line | str) -> None:
    """A line for people, on stdout."""
    sys.stdout.write(f"{_painted(line, sys.stdout)}\n")


def say(args: Namespace, line: Line | str) -> None:
    """Talk, which ``--quiet`` silences."""
    if not args.quiet:
        sys.stderr.write(f"{_painted(line, sys.stderr)}\n")


def fail(message: str) -> None:
    """An error, in one line."""
    told = without_credentials(" ".join(message.split("\n")))
    sys.stderr.write(f"{_painted([('error:', 'bold red'), (f' {told}', '')], sys.stderr)}\n")


class Shown(NamedTuple, Generic[Row]):
    """How many rows were printed, and the last of them."""

    number: int
    last: Row | None


def listing(
    args: Namespace,
    pages: Iterable[Sequence[Row]],
    columns: Sequence[Column[Row]],
    as_data: Callable[[Row], Any],
) -> Shown[Row]:
    """Print page after page."""
    table = Table(columns, width=width())
    count, last = 0, None
    for page in pages:
        if args.json:
            for row in page:
                json_line(as_data(row))
        else:
            for line in table.page(page):
                write(line)
        sys.stdout.flush()
        count, last = count + len(page), page[-1] if page else last
    return Shown(count, last)


@contextmanager
def progress(args: Namespace, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """How far long work has come, on a terminal: ``advance(500)`` after each batch."""
    if args.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from onward.cli.terminal import Bar

    with Bar(label, total) as bar:
        yield bar.advance


def working(args: Namespace, label: str) -> AbstractContextManager[object]:
    """That something is being done, on a terminal, for as long as it takes."""
    if args.quiet or not sys.stderr.isatty():
        return nullcontext()
    from onward.cli.terminal import spinner

    return spinner(label)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def survive_any_text() -> None:
    """A locale that cannot say a character is no reason to fail: it is written out."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def quietly_closed() -> None:
    """The reader has gone: let the interpreter's own last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _painted(line: Line | str, stream: TextIO) -> str:
    """The one way to a terminal, so that nothing gets there that could do more than be read."""
    spans = [(escaped(text), style) for text, style in ([(line, "")] if isinstance(line, str) else line)]
    if not _has_colours(stream):
        return "".join(text for text, _ in spans)
    from onward.cli.terminal import painted

    return painted(spans)


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def width() -> int | None:
    """The columns of the terminal; None if there is none, and nothing is to be cut."""
    if not is_terminal():
        return None
    return whole(os.environ.get("COLUMNS", "")) or os.get_terminal_size(sys.stdout.fileno()).columns or 80
