"""A mailbox for calls that other threads ask the supervisor's loop to make."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["Mailbox"]


def _nothing() -> None:
    """Do nothing: the loop only has to wake."""


class Mailbox:
    """Calls for one thread, posted by others; a selector can wait for them."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._closed = False

    def fileno(self) -> int:
        return self._read

    @property
    def waiting(self) -> bool:
        return bool(self._calls)

    def post(self, call: Callable[[], None] = _nothing) -> None:
        self._calls.append(call)
        with suppress(BlockingIOError):  # the pipe is full: the loop is about to wake
            if not self._closed:
                os.write(self._write, b"\0")

    def deliver(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._read, 4096)
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        self._closed = True
        os.close(self._read)
        os.close(self._write)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
