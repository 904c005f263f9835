"""Redis's errors in Onward's words: what may be tried again, what is refused, what has to be changed.

By the code that an error begins with.  Servers before 7 wrap the error of a script's command in a sentence of their own, so
the code is looked for anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from onward.backends.redis.driver import redis
from onward.backends.unreachable import unreachable_error
from onward.errors import (
    BackendError,
    BackendMisconfigured,
    BackendRefused,
    BackendUnavailable,
    StoreFull,
)

__all__ = ["FOREIGN", "is_read_only", "moved_to", "translated", "translation", "unreachable"]

_CODE = re.compile(r"(?:^|[ -])([A-Z]{4,})\b")
_AWAY = {
    "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "ASK", "NOREPLICAS", "MISCONF", "UNKILLABLE", "READONLY",
    "UNBLOCKED",
}  # fmt: skip
_MISCONFIGURED = {"NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "NOPROTO"}
_CODES = {
    "OOM": redis.exceptions.OutOfMemoryError,
    "READONLY": redis.exceptions.ReadOnlyError,
    "LOADING": redis.exceptions.BusyLoadingError,
    "MASTERDOWN": redis.exceptions.MasterDownError,
    "NOPERM": redis.exceptions.NoPermissionError,
    "NOAUTH": redis.exceptions.AuthenticationError,
}
# Values that the driver cannot send: lone surrogates, numbers of more than 64 bits.
_UNPACKABLE = (OverflowError, UnicodeEncodeError, msgspec.MsgspecError)
FOREIGN = (redis.RedisError, OSError, *_UNPACKABLE)
_LOST = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise the errors of the driver as Onward's."""
    try:
        yield
    except FOREIGN as error:
        raise translation(error, place) from error


def is_read_only(error: BaseException) -> bool:
    """Return whether a replica refused to write: it wrote nothing."""
    return _code(error) == "READONLY"


def moved_to(error: BaseException) -> tuple[str, int] | None:
    """Return the node that has the namespace's keys, if the server says that it is another: then nothing was done."""
    found = re.search(r"(?:MOVED )?\b\d+ (\S*):(\d+)", str(error))
    return (found[1], int(found[2])) if isinstance(error, redis.exceptions.MovedError) and found else None


def translation(error: Exception, place: str) -> BackendError:
    """Return the error to raise for one of the driver."""
    if isinstance(error, _UNPACKABLE):
        return BackendRefused(f"{place}: these values are refused, nothing of the call was applied: {_text(error)}")
    code = _code(error)
    if code == "OOM":
        return StoreFull(
            f"{place}: its memory is full: let workers finish what is there, raise maxmemory, or prune; nothing of this "
            f"call was kept"
        )
    if code in _MISCONFIGURED:
        return BackendMisconfigured(f"{place}: {_text(error)}: look at the user and the password in the URL")
    if isinstance(error, redis.exceptions.MovedError) or code in ("MOVED", "CROSSSLOT"):
        return BackendMisconfigured(f"{place}: this is a node of a cluster: write redis+cluster://")
    if code in _AWAY:
        return BackendUnavailable(f"{place}: {code}: {_text(error)}")
    if isinstance(error, _LOST):
        return BackendUnavailable(f"{place}: {_text(error)}: whether the call was applied is unknown")
    if "unknown command" in str(error).lower():
        return BackendMisconfigured(f"{place}: {_text(error)}: Onward needs scripts, and Redis 6.2 or newer")
    return BackendError(f"{place}: {_text(error)}")


def unreachable(error: Exception, place: str) -> Exception:
    """Return the error to raise instead if no connection could be opened."""
    if isinstance(error, _LOST) and not _code(error):
        return unreachable_error(place, _text(error))
    return error


def _code(error: BaseException) -> str:
    for code, kind in _CODES.items():
        if isinstance(error, kind):
            return code
    if not isinstance(error, redis.RedisError):
        return ""
    if "OOM command not allowed" in str(error):
        return "OOM"
    known = (
        code for code in _CODE.findall(str(error)[:200]) if code in _AWAY | _MISCONFIGURED | {"MOVED", "CROSSSLOT"}
    )
    return next(known, "")


def _text(error: BaseException) -> str:
    """Return the first line: the rest may be the script."""
    return str(error).strip().split("\n", 1)[0][:300]
