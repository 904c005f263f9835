"""POSIX signals that a loop can wait for with a selector."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Signals"]


class Signals:
    """Collects these signals inside its ``with`` block, in the order in which they came; they have no other effect there.

    Signals of ``if_heeded`` that the process ignores stay ignored, as `nohup` and a background shell arrange it.
    """

    def __init__(self, numbers: Sequence[signal.Signals], *, if_heeded: Sequence[signal.Signals] = ()) -> None:
        self._numbers = [*numbers, *(number for number in if_heeded if signal.getsignal(number) is not signal.SIG_IGN)]
        self._before: dict[signal.Signals, Any] = {}
        self._fd_before = -1
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def __enter__(self) -> Self:
        self._fd_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _do_nothing) for number in self._numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        return self._read

    def received(self) -> list[signal.Signals]:
        try:
            return [signal.Signals(number) for number in os.read(self._read, 4096)]
        except BlockingIOError:
            return []


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Let the loop read it: the interpreter has written the number into the pipe."""
