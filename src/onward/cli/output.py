"""Printing: data to stdout, messages to stderr; for people in columns, for machines as JSON lines."""

from __future__ import annotations

import io
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, NamedTuple, TextIO, TypeVar

from onward.base.credentials import without_credentials
from onward.base.names import whole
from onward.cli.table import Column, StyledLine, Table
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
    """Return the style of a state; for an unknown one, that of an alarm."""
    return STATE_STYLES.get(state, "bold red")


def json_line(value: Any) -> None:
    sys.stdout.write(f"{json_text(value)}\n")


def write(line: StyledLine | str) -> None:
    """Print a line for people, on stdout."""
    sys.stdout.write(f"{_painted(line, sys.stdout)}\n")


def say(args: Namespace, line: StyledLine | str) -> None:
    """Print a message on stderr, unless ``--quiet`` is given."""
    if not args.quiet:
        sys.stderr.write(f"{_painted(line, sys.stderr)}\n")


def fail(message: str) -> None:
    """Print an error on stderr, in one line."""
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
    """Show a bar on a terminal: ``advance(500)`` after each batch."""
    if args.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from onward.cli.terminal import Bar

    with Bar(label, total) as bar:
        yield bar.advance


def working(args: Namespace, label: str) -> AbstractContextManager[object]:
    """Show a spinner on a terminal, until the block ends."""
    if args.quiet or not sys.stderr.isatty():
        return nullcontext()
    from onward.cli.terminal import spinner

    return spinner(label)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def survive_any_text() -> None:
    """Escape characters that the locale cannot encode, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def quietly_closed() -> None:
    """Discard what the interpreter flushes at its end: the reader of the pipe has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _painted(line: StyledLine | str, stream: TextIO) -> str:
    """Escape and colour a line.  All output passes here, so no control character of a job reaches a terminal."""
    spans = [(escaped(text), style) for text, style in ([(line, "")] if isinstance(line, str) else line)]
    if not _has_colours(stream):
        return "".join(text for text, _ in spans)
    from onward.cli.terminal import painted

    return painted(spans)


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def width() -> int | None:
    """Return the width of the terminal; None if there is none, and nothing is cut."""
    if not is_terminal():
        return None
    return whole(os.environ.get("COLUMNS", "")) or os.get_terminal_size(sys.stdout.fileno()).columns or 80
