"""``onward top``: the overview of a store, live."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from onward.cli import output, values
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import Exit
from onward.cli.look_data import as_data
from onward.cli.picture import picture
from onward.operate.watching import StoreWatch

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.operate.watching import WatchedStore

__all__ = ["COMMAND", "has_screen", "watch"]


def top(app: Onward, args: Namespace) -> int:
    """Draw live on a terminal; else print one picture."""
    title = f"onward top  {app.settings.url}"
    if args.json:
        for look in _looks(app, args):
            output.json_line(as_data(look))
            sys.stdout.flush()
    elif has_screen() and not args.once:
        watch(app, title=title, interval=args.interval)
    else:
        (look,) = _looks(app, args)
        for line in picture(look, title=title, width=output.width()):
            output.write(line)
    return Exit.OK


def has_screen() -> bool:
    """Return whether there is a terminal to draw on."""
    return output.is_terminal() and os.environ.get("TERM", "dumb") != "dumb"


def watch(app: Onward, *, title: str, interval: float, until: Callable[[], bool] = lambda: False) -> None:
    """Draw until ``q`` or Ctrl-C, or until ``until()``."""
    from onward.cli.screen import Screen
    from onward.cli.top_view import TopView

    with suppress(KeyboardInterrupt), Screen() as screen:
        TopView(app, screen, title).run(interval, until)


def _looks(app: Onward, args: Namespace) -> Iterator[WatchedStore]:
    """Yield the second of two looks, for the throughput.  With ``--json`` on a terminal, go on until Ctrl-C."""
    watch = StoreWatch(app)
    watch.look()
    while True:
        time.sleep(watch.pause(args.interval))
        yield watch.look()
        if args.once or not output.is_terminal() or not args.json:
            return


def _interval(text: str) -> float:
    seconds = values.duration(text)
    if seconds < 0.1:
        raise ArgumentTypeError(f"{text!r} is too short: at least 0.1s")
    return seconds


COMMAND = Command(
    "top",
    "watch a store at work: throughput, checks, queues, workers, deaths, running jobs and their stacks",
    on_store(top),
    (
        argument("--interval", "how often to look (1s)", metavar="TIME", type=_interval, default=1.0),
        argument("--once", "print one picture and exit", action="store_true"),
    ),
    about="On a terminal it is live: the arrows choose a running job or, after tab, a queue; Enter shows the job's Python "
    "stack, w why it is where it is, h the checks with what to type, d the dead, / filters, p pauses a queue, ? lists the "
    "keys, q ends it. Elsewhere it prints one picture, for which it looks twice. However much is in the store, a look costs "
    "it the same: beyond 100,000 jobs in a state it stops counting, and it looks for the last deaths among the 50 dead jobs "
    "that were enqueued last. A worker that goes away while you watch stays in the list; it has died if it expired, or if "
    "one of its jobs crashed.",
)
