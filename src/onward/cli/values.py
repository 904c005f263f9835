"""Reading words of a command line as values.  A word that cannot be read is a usage error that says how to write it."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onward.base.durations import seconds
from onward.base.names import suggestion, whole
from onward.errors import InvalidTime
from onward.job.states import State

__all__ = ["address", "count", "duration", "expiry", "instant", "json_value", "moment", "pair", "state"]


# The names of the states in tables.
_OTHER_WORDS = {
    "due": State.AVAILABLE,
    "later": State.SCHEDULED,
    "retry": State.RETRYABLE,
    "running": State.EXECUTING,
    "done": State.COMPLETED,
    "dead": State.DISCARDED,
}

_LAST_PORT = 65535


def address(text: str) -> tuple[str, int]:
    """Read an address to listen on; without a host it is this machine alone.

    >>> address("9464"), address("0.0.0.0:9464"), address("[::1]:0")
    (('127.0.0.1', 9464), ('0.0.0.0', 9464), ('::1', 0))
    """
    host, _, port = text.rpartition(":")
    number = whole(port)
    if number is None or number > _LAST_PORT or (":" in host and not host.startswith("[")):
        raise ArgumentTypeError(
            f"{text[:60]!r} is no address: write it as 127.0.0.1:9464, or 0.0.0.0:9464 for all networks"
        )
    return host.strip("[]") or "127.0.0.1", number


def count(text: str) -> int:
    number = whole(text)
    if not number:
        raise ArgumentTypeError(f"{text[:40]!r} is not a number of at least 1")
    return number


def json_value(text: str) -> Any:
    """Read plain data.

    >>> json_value('{"ok": true}')
    {'ok': True}
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ArgumentTypeError(f"{text[:40]!r} is no JSON ({error}): text is written as '\"text\"'") from None


def duration(text: str) -> float:
    """Read a length of time; a bare number means seconds.

    >>> duration("90"), duration("1h 30m")
    (90.0, 5400.0)
    """
    try:
        return seconds(float(text) if _is_number(text) else text, "duration")
    except InvalidTime as error:
        raise ArgumentTypeError(str(error)) from None


def instant(text: str) -> datetime:
    """Read a point in time, with its zone.

    >>> instant("2030-01-01T12:00+01:00").isoformat()
    '2030-01-01T12:00:00+01:00'
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time: write it as 2030-01-31T12:00Z") from None
    if when.tzinfo is None:
        raise ArgumentTypeError(f"{text!r} has no time zone: add Z for UTC, or an offset such as +01:00")
    return when


def moment(text: str) -> datetime:
    """Read a point in time, or how long ago it was: ``7d``, ``7d ago``."""
    if _is_instant(text):
        return instant(text)
    return datetime.now(UTC) - timedelta(seconds=duration(text.removesuffix("ago").strip()))


def expiry(text: str) -> datetime | float:
    """Read a point in time, or how long from now."""
    return instant(text) if _is_instant(text) else duration(text)


def state(text: str) -> State:
    if text not in list(State):
        meant = _OTHER_WORDS.get(text.lower(), text)
        raise ArgumentTypeError(f"there is no state {text!r}{suggestion(meant, State)}")
    return State(text)


def pair(text: str) -> tuple[str, Any]:
    """Read ``key=value``: the value is a JSON number, text in quotes, true, false or null; any other is plain text.

    >>> pair("user=42"), pair("lang=de"), pair('code="42"'), pair("code=007"), pair("to=[1]")
    (('user', 42), ('lang', 'de'), ('code', '42'), ('code', '007'), ('to', '[1]'))
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text!r} is not key=value")
    return key, _scalar(value)


def _scalar(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, UnicodeError):
        return text
    return text if isinstance(value, list | dict) else value


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_instant(text: str) -> bool:
    """Return whether a text begins with a year and a dash: no length of time does."""
    return text[:4].isdecimal() and text[4:5] == "-"
