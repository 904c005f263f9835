"""``onward top``: the overview of a store, live."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from onward.cli import output, stacks, values
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.ids import find
from onward.cli.picture import Room, clipped, picture
from onward.cli.table import StyledLine
from onward.cli.text import escaped
from onward.cli.watching import StoreWatch, WatchedStore, as_data
from onward.errors import BackendError, JobNotFound

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.cli.screen import KeyPress, Screen

__all__ = ["COMMAND", "has_screen", "watch"]

_HELP = "q quit   ↑ ↓ choose a running job   ⏎ its stack"
_HELP_STACK = "q quit   ⏎ back"
_PATIENCE = 1.0  # seconds: a stack that took longer is not asked for again


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

    with suppress(KeyboardInterrupt), Screen() as screen:
        _View(app, screen, title).run(interval, until)


def _looks(app: Onward, args: Namespace) -> Iterator[WatchedStore]:
    """Yield the second of two looks, for the throughput.  With ``--json`` on a terminal, go on until Ctrl-C."""
    watch = StoreWatch(app)
    watch.look()
    while True:
        time.sleep(watch.pause(args.interval))
        yield watch.look()
        if args.once or not output.is_terminal() or not args.json:
            return


class _View:
    """The contents of the screen: the picture, or the stack of the chosen job."""

    def __init__(self, app: Onward, screen: Screen, title: str) -> None:
        self._app = app
        self._screen = screen
        self._title = title
        self._watch = StoreWatch(app)
        self._look: WatchedStore | None = None
        self._trouble = ""  # why the picture is an old one
        self._chosen: str | None = None
        self._stack: list[StyledLine] | None = None  # of the chosen job, while it is shown
        self._asks_again = False

    def run(self, interval: float, until: Callable[[], bool]) -> None:
        from onward.cli.screen import KeyPress

        while not until():
            self._take_a_look()
            next_look = time.monotonic() + self._watch.pause(interval)
            while (left := next_look - time.monotonic()) > 0:
                self._draw()
                for key in self._screen.keys(left):
                    if key is KeyPress.QUIT:
                        return
                    self._press(key)

    def _take_a_look(self) -> None:
        try:
            self._look = self._watch.look()
            self._trouble = ""
        except BackendError as error:
            self._trouble = f"the store does not answer: {error}"
        if self._asks_again and self._chosen is not None:
            self._ask(self._chosen)

    def _press(self, key: KeyPress) -> None:
        from onward.cli.screen import KeyPress

        match key:
            case KeyPress.UP | KeyPress.DOWN if self._stack is None:
                self._move(-1 if key is KeyPress.UP else 1)
            case KeyPress.ENTER if self._stack is None:
                self._move(0)
                if self._chosen is not None:
                    self._stack = [[("asking the process that runs it", "dim")]]
                    self._draw()
                    self._ask(self._chosen)
            case KeyPress.ENTER | KeyPress.ESCAPE:
                self._stack, self._asks_again = None, False

    def _move(self, by: int) -> None:
        """Choose another running job; the first if none was chosen, or the one that was has ended."""
        ids = [record.id for record in self._look.running] if self._look is not None else []
        if self._chosen in ids:
            self._chosen = ids[max(0, min(ids.index(self._chosen) + by, len(ids) - 1))]
        else:
            self._chosen = ids[0] if ids else None

    def _ask(self, job_id: str) -> None:
        """Ask for the stack once, not at every look: a process that does not answer takes seconds."""
        asked = time.monotonic()
        try:
            record = find(self._app, job_id)
            self._stack = list(stacks.lines(record, stacks.ask(self._app, record)))
        except (CommandError, JobNotFound, BackendError) as error:
            self._stack = [[(str(error), "yellow")]]
        self._asks_again = time.monotonic() - asked < _PATIENCE

    def _draw(self) -> None:
        room = self._screen.room
        above = Room(room.columns, max(1, room.rows - 2))
        lines: Sequence[StyledLine] = []
        if self._stack is not None:
            lines = _shown_stack(self._stack, above)
        elif self._look is not None:
            lines = picture(self._look, title=self._title, room=above, chosen=self._chosen)
        below: StyledLine = [(_HELP if self._stack is None else _HELP_STACK, "dim")]
        if self._trouble:
            below = [(self._trouble, "bold red")]
        empty: list[StyledLine] = [[]] * max(0, room.rows - 1 - len(lines))
        self._screen.draw([*lines, *empty, clipped(below, room.columns)])


def _shown_stack(stack: Sequence[StyledLine], room: Room) -> list[StyledLine]:
    """Return the first lines and as many of the last as there is room for: the innermost frame is the last."""
    if len(stack) == 1:  # an error, in words
        ((text, style),) = stack[0]
        return [[(part, style)] for part in textwrap.wrap(escaped(text), room.columns)]
    head, frames = stack[:3], stack[3:]
    return [clipped(line, room.columns) for line in [*head, *frames[-max(1, room.rows - len(head)) :]]]


def _interval(text: str) -> float:
    seconds = values.duration(text)
    if seconds < 0.1:
        raise ArgumentTypeError(f"{text!r} is too short: at least 0.1s")
    return seconds


COMMAND = Command(
    "top",
    "watch a store at work: throughput, queues, workers, deaths, running jobs and their stacks",
    on_store(top),
    (
        argument("--interval", "how often to look (1s)", metavar="TIME", type=_interval, default=1.0),
        argument("--once", "print one picture and exit", action="store_true"),
    ),
    about="On a terminal it is live: the arrows choose a running job, Enter shows its Python stack, q ends it. Elsewhere it "
    "prints one picture, for which it looks twice. However much is in the store, a look costs it the same: beyond 100,000 "
    "jobs in a state it stops counting, and it looks for the last deaths among the 50 dead jobs that were enqueued last. A "
    "worker that goes away while you watch stays in the list; it has died if it expired, or if one of its jobs crashed.",
)
