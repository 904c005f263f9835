"""The loggers of Onward: logging never raises.

A log handler or filter that raises loses its line, and ends no worker.  `QuietLogger` escapes control characters and line
ends in quoted text, whatever formats the line, and masks the passwords of URLs.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from textwrap import indent
from typing import Any

from onward.base.credentials import without_credentials
from onward.base.failure import escaped, escaped_lines, message_of

__all__ = ["Once", "QuietLogger", "get_logger"]


class QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs as its logger does, and catches what that raises; the first time it prints the traceback to stderr."""

    complained = False

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        error = kwargs.pop("exc_info", None)
        stacklevel = kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 3

        def log() -> None:
            if extra := kwargs.get("extra"):
                kwargs["extra"] = _clean(extra)
            if error:  # a formatter would take its text from the error itself, and that is not escaped
                text = _traceback_of(error)
                self._handle(level, msg, args, extra=kwargs.get("extra"), traceback=text, stacklevel=stacklevel + 1)
            else:
                self.logger.log(level, msg, *map(_clean, args), **kwargs)

        self._quietly(level, log)

    def log_traceback(self, level: int, msg: object, *args: object, traceback: str, extra: Any = None) -> None:
        """Log with a traceback that is text already.  Every formatter shows it like that of an exception.

        Only the traceback has several lines, and none of them looks like the beginning of an entry.
        """
        self._quietly(level, lambda: self._handle(level, msg, args, extra=extra, traceback=traceback, stacklevel=5))

    def _handle(
        self, level: int, msg: object, args: tuple[object, ...], *, extra: Any, traceback: str, stacklevel: int
    ) -> None:
        file, line, function, _ = self.logger.findCaller(stacklevel=stacklevel)
        told = tuple(map(_clean, args))
        record = self.logger.makeRecord(self.name, level, file, line, msg, told, None, function, _clean(extra))
        record.exc_text = indent(escaped_lines(traceback), "    ")  # where a formatter keeps it
        self.logger.handle(record)

    def _quietly(self, level: int, log: Callable[[], None]) -> None:
        try:
            if self.logger.isEnabledFor(level):
                log()
        except BaseException as error:  # of a log handler, filter or formatter, or of the text of a logged object
            if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # Ctrl-C
            _complain()

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs


def _traceback_of(error: object) -> str:
    """Return the traceback of what `exc_info` names: an error, or True for the one being handled."""
    if not isinstance(error, BaseException):
        error = sys.exc_info()[1]
    return without_credentials("".join(traceback.format_exception(error))) if error is not None else ""


_known: set[str] = set()  # texts that were found to need no mask: names of jobs and queues come again and again
_MOST_KNOWN, _LONGEST_KNOWN = 2_048, 200


def _clean(value: Any) -> Any:
    """Mask text, and the messages of errors; leave numbers and the like as they are."""
    if type(value) is str and value in _known:
        return value
    if isinstance(value, dict):  # the values of a template with names
        return {name: _clean(each) for name, each in value.items()}
    if isinstance(value, BaseException):
        value = message_of(value)
    if not isinstance(value, str):
        return value
    cleaned = escaped(without_credentials(value))
    if cleaned == value and type(value) is str and len(value) <= _LONGEST_KNOWN:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known.add(value)
    return cleaned


class Once:
    """Remembers what was logged: ``if once("resize", "its result"): logger.warning(...)``.  Keeps at most a thousand."""

    _MOST = 1_000

    def __init__(self) -> None:
        self._said: set[tuple[str, ...]] = set()

    def __call__(self, *about: str) -> bool:
        """Return whether this is asked for the first time."""
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
