"""The screen of ``onward top``: the picture or a panel, a line for what is typed, and what each key does."""

from __future__ import annotations

import textwrap
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from onward.cli.acting import who_acts
from onward.cli.panels import KEYS, Panel, checks_panel, deaths_panel, keys_panel, stack_panel, why_panel
from onward.cli.picture import Choice, Room, picture, shown_jobs, shown_queues
from onward.cli.screen import KeyPress, Screen
from onward.cli.table import StyledLine, clipped, measure
from onward.cli.text import escaped
from onward.errors import BackendError, OnwardError
from onward.job.states import LIVE
from onward.operate.watching import StoreWatch

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.operate.watching import WatchedStore

__all__ = ["TopView"]

_PATIENCE = 1.0  # seconds: a panel that took longer is not asked for again
_SAID_FOR = 5.0  # seconds for which an answer is shown
_LOOKED_THROUGH = 100  # waiting jobs, for the first of a queue

Table = Literal["queues", "running"]


class Question(NamedTuple):
    """Something to be confirmed with ``y``."""

    text: str
    act: Callable[[], str]  # what is then said


class TopView:
    """What is on the screen, and what keys do to it."""

    def __init__(self, app: Onward, screen: Screen, title: str) -> None:
        self._app = app
        self._screen = screen
        self._title = title
        self._watch = StoreWatch(app)
        self._look: WatchedStore | None = None
        self._trouble = ""  # why the picture is an old one
        self._table: Table = "running"
        self._choice = Choice()
        self._panel: Panel | None = None
        self._make_panel: Callable[[], Panel] | None = None  # again at every look
        self._typing = False  # whether keys go to the filter
        self._question: Question | None = None
        self._said: tuple[str, float] = ("", 0.0)  # and until when
        self._panels: dict[str, Callable[[], Panel]] = {
            "h": lambda: checks_panel(None if self._look is None else self._look.checks),
            "d": lambda: deaths_panel(self._app, self._look),
            "?": keys_panel,
        }

    def run(self, interval: float, until: Callable[[], bool]) -> None:
        """Look and draw, until ``q``, or until ``until()``."""
        self._draw()
        while not until():
            self._take_a_look()
            next_look = time.monotonic() + self._watch.pause(interval)
            while (left := next_look - time.monotonic()) > 0:
                self._draw()
                for key in self._screen.keys(left):
                    if key is KeyPress.CLOSED or (key == "q" and not self._typing and self._question is None):
                        return
                    self._press(key)

    def _take_a_look(self) -> None:
        try:
            self._look = self._watch.look()
            self._trouble = ""
        except BackendError as error:
            self._trouble = str(error)
        if self._make_panel is not None and not self._trouble:
            self._show(self._make_panel)

    # Keys

    def _press(self, key: KeyPress | str) -> None:
        if self._question is not None:
            self._answer(key)
        elif self._typing:
            self._type(key)
        elif self._panel is not None:
            self._press_in_panel(self._panel, key)
        else:
            self._press_in_picture(key)

    def _press_in_panel(self, panel: Panel, key: KeyPress | str) -> None:
        match key:
            case KeyPress.UP | "k":
                panel.scroll(-1)
            case KeyPress.DOWN | "j":
                panel.scroll(1)
            case KeyPress.PAGE_UP:
                panel.scroll(-self._screen.room.rows + 4)
            case KeyPress.PAGE_DOWN:
                panel.scroll(self._screen.room.rows - 4)
            case KeyPress.ENTER | KeyPress.ESCAPE:
                self._panel = self._make_panel = None

    def _press_in_picture(self, key: KeyPress | str) -> None:
        match key:
            case KeyPress.UP | "k":
                self._move(-1)
            case KeyPress.DOWN | "j":
                self._move(1)
            case KeyPress.TAB:
                self._table = "queues" if self._table == "running" else "running"
                self._choice = self._choice._replace(queue=None, job=None)
                self._move(0)
            case KeyPress.ENTER | "w":
                self._explain(stack=key is KeyPress.ENTER and self._table == "running")
            case KeyPress.ESCAPE:
                self._choice = Choice()
            case "/":
                self._typing = True
            case "p":
                self._ask_to_pause()
            case str() if key in self._panels:
                self._show(self._panels[key])

    def _type(self, key: KeyPress | str) -> None:
        typed = self._choice.filter
        match key:
            case KeyPress.ENTER:
                self._typing = False
            case KeyPress.ESCAPE:
                self._typing, typed = False, ""
            case KeyPress.BACKSPACE:
                typed = typed[:-1]
            case str():
                typed += key
        self._choice = self._choice._replace(filter=typed)

    def _answer(self, key: KeyPress | str) -> None:
        question, self._question = self._question, None
        if question is None or key not in ("y", "Y"):
            self._say("nothing was changed")
            return
        try:
            self._say(question.act())
        except OnwardError as error:
            self._say(str(error))
        self._take_a_look()

    # What they do

    def _move(self, by: int) -> None:
        """Choose another row; the first if none was chosen, or the one that was is gone."""
        if self._look is None:
            return
        if self._table == "queues":
            names = [row.name for row in shown_queues(self._look, self._choice)]
            self._choice = self._choice._replace(queue=_next_of(names, self._choice.queue, by))
        else:
            ids = [record.id for record in shown_jobs(self._look, self._choice)]
            self._choice = self._choice._replace(job=_next_of(ids, self._choice.job, by))

    def _explain(self, *, stack: bool) -> None:
        """Show the stack of the chosen job, or why it is where it is; of a queue, that of its first job."""
        self._move(0)
        if self._table == "queues":
            queue = self._choice.queue
            job_id = None if queue is None else self._first_of(queue)
            if job_id is None:
                self._say(
                    "no queue is there" if queue is None else f"no job of queue {queue} waits among the first hundred"
                )
                return
        else:
            job_id = self._choice.job
            if job_id is None:
                self._say("no job runs; tab chooses among the queues")
                return
        self._say("asking the process that runs it" if stack else "asking the store", draw=True)
        make = stack_panel if stack else why_panel
        self._show(lambda: make(self._app, job_id))
        self._say("")

    def _first_of(self, queue: str) -> str | None:
        """Return the first waiting job of a queue, among those that were enqueued first."""
        try:
            waiting = self._app.list(state=sorted(LIVE), limit=_LOOKED_THROUGH)
        except OnwardError as error:
            self._say(str(error))
            return None
        found = [record for record in waiting if record.queue == queue and record.started_at is None]
        return min(found, key=lambda record: record.available_at).id if found else None

    def _ask_to_pause(self) -> None:
        if self._table == "running":
            self._table = "queues"
            self._choice = self._choice._replace(job=None)
        self._move(0)
        queue = self._choice.queue
        if queue is None or self._look is None:
            self._say("there is no queue to pause")
            return
        paused = any(each.name == queue and each.paused for each in self._look.overview.queues)
        change = self._app.resume if paused else self._app.pause
        text = f"resume queue {queue}?" if paused else f"pause queue {queue}? No job of it starts until it is resumed."

        def act() -> str:
            change(queue, by=who_acts(Namespace(by=None)), reason="onward top")
            return f"queue {queue} is {'resumed' if paused else 'paused'}"

        self._question = Question(f"{text}  y, or any other key for no", act)

    def _show(self, make: Callable[[], Panel]) -> None:
        """Show a panel; ask for it again at every look, unless that takes long."""
        asked, before = time.monotonic(), self._panel
        panel = make()
        if before is not None and before.title == panel.title:
            panel.take_place_of(before)
        self._panel = panel
        self._make_panel = make if time.monotonic() - asked < _PATIENCE else None

    def _say(self, text: str, *, draw: bool = False) -> None:
        self._said = (text, time.monotonic() + _SAID_FOR)
        if draw:
            self._draw()

    # Drawing

    def _draw(self) -> None:
        room = self._screen.room
        below = self._below(room.columns)
        above = Room(room.columns, max(1, room.rows - 1 - len(below)))
        lines: Sequence[StyledLine] = [[(self._title, "bold")], [], [("looking at the store", "dim")]]
        if self._panel is not None:
            lines = self._panel.drawn(above)
        elif self._look is not None:
            lines = picture(self._look, title=self._title, room=above, choice=self._choice)
        elif self._trouble:
            lines = lines[:1]
        lines = [clipped(line, room.columns) for line in lines]
        empty: list[StyledLine] = [[]] * max(0, room.rows - len(below) - len(lines))
        self._screen.draw([*lines, *empty, *below][-room.rows :])

    def _below(self, width: int) -> list[StyledLine]:
        """Return the last lines of the screen: what is wrong, asked or said, else what keys do."""
        text, until = self._said
        if self._question is not None:
            return _lines(self._question.text, "bold yellow", width)
        if self._trouble:
            seen = "" if self._look is None else f", and this is what there was at {self._look.at:%H:%M:%S}Z"
            return _lines(f"the store does not answer{seen}: {self._trouble}", "bold red", width)
        if text and time.monotonic() < until:
            return _lines(text, "bold", width)
        return [clipped(self._last_line(width), width)]

    def _last_line(self, width: int) -> StyledLine:
        if self._typing:
            return [
                ("/", "bold cyan"),
                (self._choice.filter, "bold"),
                ("▏", "dim"),
                ("  ⏎ keeps it   esc clears it", "dim"),
            ]
        if self._panel is not None:
            return _help((("↑ ↓", "scroll", ""), ("⏎", "back", ""), ("q", "quit", "")), width)
        told = f"/{self._choice.filter}  " if self._choice.filter else ""
        return [(told, "bold cyan"), *_help(KEYS, width - measure(told))]


def _lines(text: str, style: str, width: int) -> list[StyledLine]:
    """Return a text in lines, four at most."""
    found = textwrap.wrap(escaped(text), max(8, width), max_lines=4, placeholder=" …", break_on_hyphens=False)
    return [[(line, style)] for line in found]


def _help(keys: Sequence[tuple[str, str, str]], width: int) -> list[tuple[str, str]]:
    """Return as many keys as there is room for; ``?`` and ``q`` always."""
    shown = list(keys)
    while len(shown) > 2 and sum(measure(key) + measure(word) + 4 for key, word, _ in shown) > width:
        del shown[-3]
    return [span for key, word, _ in shown for span in ((key, "bold"), (f" {word}   ", "dim"))]


def _next_of(names: Sequence[str], chosen: str | None, by: int) -> str | None:
    if chosen in names:
        return names[max(0, min(names.index(chosen) + by, len(names) - 1))]
    return names[0] if names else None
