"""The log on stderr: lines of text for people, or of JSON for machines.

A message may quote text of a job, so line ends and control characters in it are escaped.
"""

from __future__ import annotations

import copy
import logging
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from onward.cli.text import escaped, escaped_lines, json_text

__all__ = ["FORMATS", "Format", "listen", "log_handler"]

Format = Literal["text", "json"]
FORMATS: tuple[str, ...] = get_args(Format)

# The fields that `logging` sets on every record.
_FACTS = ("event", "job_id", "job", "queue", "attempt", "duration_ms", "trace_id")


def log_handler(log_format: Format, pattern: str | None = None) -> logging.Handler:
    """Return a handler that writes to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines() if log_format == "json" else _TextLines(pattern or _PATTERN))
    return handler


def listen(level: int, log_format: Format) -> None:
    """Write all that this process logs, with the application's own lines, unless the application has set up logging."""
    logging.basicConfig(level=level, handlers=[log_handler(log_format)])


_PATTERN = "%(asctime)s %(levelname)-8s [%(process)d] %(name)s: %(message)s"


class _TextLines(logging.Formatter):
    """Formats a record as one line; only a traceback has more."""

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_text and not record.exc_info:  # text that came with a job
            record = copy.copy(record)  # other handlers format the same record
            record.exc_text = escaped_lines(record.exc_text or "")
        return super().format(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Format with the offset of this machine's zone: lines of two machines can be compared."""
        return datetime.fromtimestamp(record.created, UTC).astimezone().isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return escaped_lines(super().formatException(ei))


class _JsonLines(logging.Formatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": _sound(record.getMessage()),
        }
        line |= {fact: getattr(record, fact) for fact in _FACTS if hasattr(record, fact)}
        exception = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        if exception:
            line["exception"] = _sound(exception)
        return json_text(line)


def _sound(text: str) -> str:
    """Replace lone surrogates, which have no JSON form."""
    return text.encode("utf-8", "backslashreplace").decode()
