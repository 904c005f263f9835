"""The log on stderr: lines of text for people, or of JSON for machines.

A message may quote what a job said, so it stays one line whatever is in it, and does nothing to a terminal.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from onward.cli.text import escaped, escaped_lines, json_text

__all__ = ["FORMATS", "Format", "listen", "log_handler"]

Format = Literal["text", "json"]
FORMATS: tuple[str, ...] = get_args(Format)

# What the library says beside the message of a line.
_FACTS = ("event", "job_id", "job", "queue", "attempt", "duration_ms")


def log_handler(log_format: Format, pattern: str | None = None) -> logging.Handler:
    """Writes to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines() if log_format == "json" else _TextLines(pattern or _PATTERN))
    return handler


def listen(level: int, log_format: Format) -> None:
    """Write all that this process logs, its application's lines among them, unless the application does so itself."""
    logging.basicConfig(level=level, handlers=[log_handler(log_format)])


_PATTERN = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class _TextLines(logging.Formatter):
    """Only a traceback has lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        traceback = getattr(record, "traceback", None)
        return super().format(record) + (f"\n{escaped_lines(str(traceback))}" if traceback else "")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return escaped_lines(super().formatException(ei))


class _JsonLines(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": _sound(record.getMessage()),
        }
        line |= {fact: getattr(record, fact) for fact in _FACTS if hasattr(record, fact)}
        if traceback := getattr(record, "traceback", None):
            line["exception"] = _sound(str(traceback))
        if record.exc_info:
            line["exception"] = _sound(self.formatException(record.exc_info))
        return json_text(line)


def _sound(text: str) -> str:
    """Text that has a JSON form: lone surrogates have none."""
    return text.encode("utf-8", "backslashreplace").decode()
