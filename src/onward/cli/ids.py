"""Finding a job by its whole id, or by a beginning that no other id has.

Ids begin with the time in milliseconds, so the ids with the same beginning follow each other in the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onward.cli.exits import CommandError, Exit
from onward.errors import JobNotFound, Unsupported

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.record import JobRecord

__all__ = ["find", "find_dead"]

_LENGTH = 32
_SHORTEST = 8
_NAMED = 5
_BEGINNING = re.compile(r"[0-9a-f]{1,32}")


def find(app: Onward, given: str) -> JobRecord:
    """Return the job with this id, or the only one whose id begins so."""
    return _find(given, app.get, app.list)


def find_dead(app: Onward, given: str) -> JobRecord:
    """Return the job with this id or beginning; among the dead only, where a store can list no others."""
    try:
        return find(app, given)
    except Unsupported:
        return _find(given, app.dead_letters.get, app.dead_letters.list)


def _find(given: str, get: Callable[[str], JobRecord | None], page_of: Callable[..., Sequence[JobRecord]]) -> JobRecord:
    wanted = given.replace("-", "").lower()
    if _BEGINNING.fullmatch(wanted) is None:
        raise _not_found(given)
    if len(wanted) < _SHORTEST:
        raise CommandError(f"{given!r} is too short: give {_SHORTEST} characters of the id or more", Exit.USAGE)
    if len(wanted) >= _LENGTH:
        return _only(given, [record] if (record := get(wanted)) else [])
    page = page_of(after=_before(wanted), limit=_NAMED + 1)
    return _only(given, [each for each in page if each.id.startswith(wanted)])


def _before(beginning: str) -> str | None:
    """Return the id just before the first with this beginning."""
    first = int(beginning.ljust(_LENGTH, "0"), 16)
    return f"{first - 1:0{_LENGTH}x}" if first else None


def _only(given: str, found: list[JobRecord]) -> JobRecord:
    if not found:
        raise _not_found(given)
    if len(found) > 1:
        named = ", ".join(each.id for each in found[:_NAMED]) + (", …" if len(found) > _NAMED else "")
        raise CommandError(f"more than one id begins with {given}: {named}; give more of it", Exit.USAGE)
    return found[0]


def _not_found(given: str) -> JobNotFound:
    return JobNotFound(
        f"there is no job {given}: it was pruned or purged, it is in another store or namespace, or the transaction that "
        f"enqueued it is not committed"
    )
