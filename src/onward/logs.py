"""Loggers that cannot hurt: a log handler or filter that raises costs its line, never a worker."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any

__all__ = ["Once", "QuietLogger", "get_logger"]


class QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs as its logger does, and swallows what that raises; the first time it says so on stderr."""

    complained = False

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 3
        self._quietly(level, lambda: self.logger.log(level, msg, *args, **kwargs))

    def log_traceback(self, level: int, msg: object, *args: object, traceback: str, extra: Any = None) -> None:
        """With a traceback that is text already, which every formatter shows as it shows that of an exception."""

        def log() -> None:
            file, line, function, _ = self.logger.findCaller(stacklevel=4)
            record = self.logger.makeRecord(self.name, level, file, line, msg, args, None, function, extra)
            record.exc_text = traceback  # where a formatter keeps it
            self.logger.handle(record)

        self._quietly(level, log)

    def _quietly(self, level: int, log: Callable[[], None]) -> None:
        try:
            if self.logger.isEnabledFor(level):
                log()
        except BaseException as error:  # it is somebody's handler, filter or formatter, or the text of what it logs
            if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # Ctrl-C
            _complain()

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs


class Once:
    """Remembers what was said: ``if once("resize", "its result"): logger.warning(...)``.  It forgets all of too much."""

    _MOST = 1_000

    def __init__(self) -> None:
        self._said: set[tuple[str, ...]] = set()

    def __call__(self, *about: str) -> bool:
        """Whether this was not asked before."""
        if about in self._said:
            return False
        if len(self._said) >= self._MOST:
            self._said.clear()
        self._said.add(about)
        return True


def _complain() -> None:
    if not QuietLogger.complained and sys.stderr is not None:
        QuietLogger.complained = True
        with suppress(BaseException):
            traceback.print_exc()


def get_logger(name: str) -> QuietLogger:
    return QuietLogger(logging.getLogger(name), {})
