"""The result of a handler as it is stored, and a log line where it would come back as another type.

Arguments that change on their way are refused where they are enqueued.  A result cannot be refused: the work is done.  A
result that cannot be stored does not undo the success, and one that comes back as another type is stored all the same.
`Results` logs both, once for each job, with what to do about it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from onward.base.failure import kind_of, message_of, storable
from onward.base.logs import Once, get_logger
from onward.job.arguments import decode_result, encode_result
from onward.job.registry import Registry
from onward.job.scrubbing import Scrub

__all__ = ["NO_RESULT", "Results"]

logger = get_logger("onward.job")

NO_RESULT = "no result: "  # how the reason of a completed job begins that has returned what cannot be stored

_PLAIN = frozenset({bool, int, float, str, type(None)})
_TEXT = frozenset({str})


class Results:
    """Encodes the results of an application's jobs."""

    def __init__(self, registry: Registry, limit: int) -> None:
        self._registry = registry
        self._limit = limit
        self._once = Once()

    def encode(self, job: str, value: Any, scrub: Scrub) -> tuple[bytes | None, str | None]:
        """Return the result as it is stored; or None, and why there is none.  ``scrub`` removes secrets from log lines."""
        if value is None:
            return None, None
        try:
            encoded = encode_result(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  a result may raise anything while it is encoded
            return None, self._no_result(job, f"{kind_of(error, scrub)}: {message_of(error, scrub)}")
        if len(encoded) > self._limit:
            return None, self._no_result(job, f"it takes {len(encoded):,} bytes and the limit is {self._limit:,}")
        if not _is_plain(value):
            with suppress(Exception):  # comparing runs code of the value's class, and only a warning depends on it
                self._compare(job, value, encoded, scrub)
        return encoded, None

    def _no_result(self, job: str, why: str) -> str:
        note = storable(f"{NO_RESULT}{why}", 500)
        if self._once(job, "none"):
            logger.warning("job %s is completed with %s (return plain data, or a reference to it)", job, note)
        return note

    def _compare(self, job: str, value: Any, encoded: bytes, scrub: Scrub) -> None:
        entry = self._registry.find(job)
        arrived = decode_result(encoded, Any if entry is None else entry.returns)
        change = _change(value, arrived, "what it returns")
        if change is not None and self._once(job, "changed"):
            logger.warning(
                "job %s: %s is of type %s and comes back as %s: annotate the function with the type that it returns, or "
                "return plain data",
                job,
                storable(scrub(change.place), 200),
                change.given,
                change.arrived,
            )


class _Change(NamedTuple):
    place: str
    given: str
    arrived: str


def _is_plain(value: Any) -> bool:
    """Return whether JSON carries a value unchanged, judged by types alone: nearly every value is of such a type."""
    kind = type(value)
    if kind is list:
        return _PLAIN.issuperset(map(type, value))
    if kind is dict:
        return _PLAIN.issuperset(map(type, value.values())) and _TEXT.issuperset(map(type, value))
    return kind in _PLAIN


def _change(given: Any, arrived: Any, place: str) -> _Change | None:
    """Return the first part of a result that comes back as another type; None if all of it is what it was."""
    try:
        if given == arrived:
            return None
    except Exception:  # noqa: BLE001  a comparison of the handler's own may raise anything
        return None
    if type(given) is not type(arrived):
        return _Change(place, type(given).__name__, type(arrived).__name__)
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(given, dict):
        for key in given:
            if key not in arrived:
                return _Change(f"a key of {place}", type(key).__name__, "str")
            parts.append((given[key], arrived[key], f"{place}[{key!r}]"))
    elif isinstance(given, list | tuple):
        parts += [(*pair, f"{place}[{at}]") for at, pair in enumerate(zip(given, arrived, strict=True))]
    return next((change for part in parts if (change := _change(*part)) is not None), None)
