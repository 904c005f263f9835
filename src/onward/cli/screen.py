"""A screen on a terminal: draws lines in place, reads keys one by one, and restores the terminal at the end."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Sequence
from contextlib import ExitStack
from enum import Enum, auto
from types import FrameType
from typing import Any, NoReturn, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from onward.cli.picture import Room
from onward.cli.table import StyledLine
from onward.cli.text import escaped

__all__ = ["KeyPress", "Screen"]

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class KeyPress(Enum):
    """A key that is no character."""

    UP = auto()
    DOWN = auto()
    PAGE_UP = auto()
    PAGE_DOWN = auto()
    ENTER = auto()
    ESCAPE = auto()
    TAB = auto()
    BACKSPACE = auto()
    CLOSED = auto()  # the terminal is gone


# Terminals send the arrow keys in one of two ways.
_KEYS = {
    b"\x1b[A": KeyPress.UP,
    b"\x1bOA": KeyPress.UP,
    b"\x1b[B": KeyPress.DOWN,
    b"\x1bOB": KeyPress.DOWN,
    b"\x1b[5~": KeyPress.PAGE_UP,
    b"\x1b[6~": KeyPress.PAGE_DOWN,
    b"\r": KeyPress.ENTER,
    b"\n": KeyPress.ENTER,
    b"\t": KeyPress.TAB,
    b"\x7f": KeyPress.BACKSPACE,
    b"\x08": KeyPress.BACKSPACE,
    b"\x1b": KeyPress.ESCAPE,
}
# One key: what a terminal sends for it, or a character.
_PRESSED = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z~]|\x1bO[A-Za-z]|[\x00-\x7f]|[\xc0-\xff][\x80-\xbf]*|.", re.DOTALL)


class Screen:
    """``with Screen() as screen:`` draws on the terminal, and restores it even if the program is told to end."""

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._keyboard: int | None = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            for number in _ENDING:
                self._stack.callback(signal.signal, number, signal.signal(number, _end))
            if self._keyboard is not None:
                modes: list[Any] = termios.tcgetattr(self._keyboard)
                self._stack.callback(termios.tcsetattr, self._keyboard, termios.TCSADRAIN, modes)
                tty.setcbreak(self._keyboard)
            self._stack.enter_context(self._live)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def room(self) -> Room:
        size = self._console.size
        return Room(size.width, size.height)

    def draw(self, lines: Sequence[StyledLine]) -> None:
        self._live.update(Group(*map(_text, lines)), refresh=True)

    def keys(self, timeout: float) -> list[KeyPress | str]:
        """Wait for a key; return those pressed, a character as text, none after ``timeout``."""
        if self._keyboard is None:
            time.sleep(timeout)
            return []
        if not select.select([self._keyboard], [], [], timeout)[0]:
            return []
        typed = os.read(self._keyboard, 64)
        return _understood(typed) if typed else [KeyPress.CLOSED]


def _understood(typed: bytes) -> list[KeyPress | str]:
    """Return the keys that were pressed, without those that mean nothing here."""
    keys: list[KeyPress | str] = []
    for word in _PRESSED.findall(typed):
        character = word.decode(errors="ignore")
        if word in _KEYS:
            keys.append(_KEYS[word])
        elif len(character) == 1 and character.isprintable():
            keys.append(character)
    return keys


def _text(line: StyledLine) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for part, style in line:
        text.append(escaped(part), style.strip())
    return text


def _end(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
