"""The one way into the log, which cannot hurt.

A log handler or filter that raises costs its line, never a worker.  What a line quotes stays one line and does nothing to a
terminal, whoever formats it; and it has no password of a URL in it.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import MutableMapping
from textwrap import indent
from typing import Any

from onward.credentials import without_credentials
from onward.failure import escaped, escaped_lines

__all__ = ["QuietLogger", "get_logger"]


class QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs as its logger does, and swallows what that raises; the first time it says so on stderr."""

    complained = False

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            if self.logger.isEnabledFor(level):
                kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
                if extra := kwargs.get("extra"):
                    kwargs["extra"] = {name: _told(name, value) for name, value in extra.items()}
                self.logger.log(level, msg, *map(_clean, args), **kwargs)
        except Exception:  # noqa: BLE001  it is somebody's handler, filter or formatter
            if not QuietLogger.complained and sys.stderr is not None:
                QuietLogger.complained = True
                traceback.print_exc()

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs


def _told(fact: str, value: object) -> object:
    """Only a traceback has lines of its own, and none of them looks like the beginning of an entry."""
    if fact == "traceback":
        return indent(escaped_lines(str(value)).rstrip(), "    ")
    return _clean(value)


def _clean(value: object) -> object:
    """Text, and what errors say, as it may be shown; numbers and the like as they are."""
    if isinstance(value, BaseException):
        value = str(value)
    return escaped(without_credentials(value)) if isinstance(value, str) else value


def get_logger(name: str) -> QuietLogger:
    return QuietLogger(logging.getLogger(name), {})
