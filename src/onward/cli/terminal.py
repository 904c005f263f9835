"""Colours, bars and spinners.  Imported only where there is a terminal: importing rich takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Self

from rich.color import ColorSystem
from rich.style import Style

from onward.cli.table import StyledLine

__all__ = ["Bar", "painted", "spinner"]

_PATIENCE = 0.3  # seconds; shorter work needs no bar


def painted(line: StyledLine) -> str:
    """Return a line with its styles as escape sequences, in the terminal's own sixteen colours."""
    return "".join(
        Style.parse(style).render(text, color_system=ColorSystem.STANDARD) if style and text else text
        for text, style in line
    )


def spinner(label: str) -> AbstractContextManager[object]:
    """Show a spinner until the block ends."""
    from rich.console import Console

    return Console(stderr=True).status(label)


class Bar:
    """A bar on stderr that appears if the work takes long, and is removed at the end."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._started = time.monotonic()
        self._stop: AbstractContextManager[object] | None = None
        self._update: Callable[[], None] = _nothing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._stop is not None:
            self._stop.__exit__(None, None, None)

    def advance(self, step: int) -> None:
        self._done += step
        if self._stop is None and time.monotonic() - self._started > _PATIENCE:
            self._show()
        self._update()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task(self._label, total=self._total)
        self._update = lambda: progress.update(task, completed=self._done)
        self._stop = progress
        progress.start()


def _nothing() -> None: ...
