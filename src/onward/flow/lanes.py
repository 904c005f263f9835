"""The names of lanes.  A lane is one line of jobs inside a queue, of one job and one key:

    None                a plain job: the line that every queue has
    render/             a job that has a limit or a breaker of its own
    render/822bacme     … and a key: four hex digits of the key's digest, and the key
    /822bacme           a job without a limit, by the key of ``fair_by``

No job's name has a slash in it, so all lanes of a job stand side by side where lanes are sorted by their bytes, and a walk
steps over them at once.  The digits spread the keys: a process that begins at a random place begins at a random key.
"""

from __future__ import annotations

import random

from onward.base.lazy import hashlib
from onward.errors import ArgumentError

__all__ = [
    "LONGEST_KEY",
    "ahead_of",
    "behind",
    "group_of",
    "is_lane",
    "key_of",
    "lane_key",
    "lane_of",
    "random_start",
    "shown",
]

LONGEST_KEY = 200
_DIGITS = 4
_LAST = chr(0x10FFFF)
_BEGIN, _END = chr(ord("/") - 1), chr(ord("/") + 1)


def lane_key(value: object, job: str, place: str) -> str | None:
    """Return the key that a value stands for; None if the value is None: such a job has no key."""
    if value is None:
        return None
    if isinstance(value, bool | float | dict | list | bytes) or not str(value).isprintable():
        raise ArgumentError(
            f"{job}: the key of its lane, {place}, must be printable text, a whole number or an id, not {value!r:.60}"
        )
    key = str(value)
    if len(key) > LONGEST_KEY:
        raise ArgumentError(
            f"{job}: the key of its lane, {place}, has {len(key)} characters, and the limit is {LONGEST_KEY}: "
            f"give an id instead"
        )
    return key


def lane_of(job: str, key: str | None) -> str | None:
    """Return the lane of a job, ``""`` for one without a limit of its own, and of a key.

    >>> lane_of("render", "acme"), lane_of("render", None), lane_of("", None)
    ('render/822bacme', 'render/', None)
    """
    if key is None:
        return f"{job}/" if job else None
    return f"{job}/{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}{key}"


def group_of(lane: str) -> str:
    """Return what all lanes of a job begin with.

    >>> group_of("render/822bacme"), group_of("/822bacme")
    ('render/', '/')
    """
    return lane.partition("/")[0] + "/"


def is_lane(text: str) -> bool:
    r"""Return whether a walk would find jobs of this lane; a person may have written another text.

    >>> is_lane("render/822bacme"), is_lane("/822bacme"), is_lane("render"), is_lane("a/\0")
    (True, True, False, False)
    """
    return "/" in text and "\0" not in text and text < _LAST


def key_of(lane: str) -> str | None:
    """Return the key of a lane; None if it has none.

    >>> key_of("render/822ba/b"), key_of("render/")
    ('a/b', None)
    """
    digits = lane.partition("/")[2]
    return digits[_DIGITS:] if digits else None


def ahead_of(group: str) -> str:
    """Return a text that sorts before all lanes of a group, and behind those of jobs whose names go on, as `render.all`.

    >>> "render.all/ffffzz" < ahead_of("render/") < "render/"
    True
    """
    return group[:-1] + _BEGIN + _LAST


def behind(group: str) -> str:
    """Return the first text that sorts behind all lanes of a group.

    >>> "render/" < "render/ffffzz" < behind("render/"), behind("render/") <= "render0/"
    (True, True)
    """
    return group[:-1] + _END


def random_start(group: str) -> str:
    """Return a place among the lanes of a group: every process begins its walk at another one."""
    return f"{group}{random.randrange(16**_DIGITS):0{_DIGITS}x}"


def shown(lane: str | None) -> str:
    """Return a lane as people read it.

    >>> shown("render/822bacme"), shown("/822bacme"), shown("render/"), shown(None)
    ('render/acme', '/acme', 'render', '')
    """
    if lane is None:
        return ""
    key = key_of(lane)
    return group_of(lane)[:-1] if key is None else group_of(lane) + key
