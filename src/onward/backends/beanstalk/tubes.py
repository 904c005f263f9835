"""A queue is a tube, named so that a namespace's tubes are known by their beginning."""

from __future__ import annotations

import re

from onward.base.names import namespace_name
from onward.errors import BackendRefused, InvalidName

__all__ = ["Tubes", "urgency"]

_FIRST = 100  # our highest priority
_LONGEST = 200
_UNSAFE = re.compile(rb"[^A-Za-z0-9._-]")
_ESCAPED = re.compile(r"\(([0-9a-f]{2})\)")


class Tubes:
    """The tubes of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"onward.{namespace_name(namespace)}."
        self._known: dict[str, str] = {}

    def of(self, queue: str) -> str:
        r"""The tube's name.  It becomes part of a line: what could end a word or the line is written as its number.

        >>> Tubes("shop").of("mail"), Tubes("shop").of("a b\r\n")
        ('onward.shop.mail', 'onward.shop.a(20)b(0d)(0a)')
        """
        tube = self._known.get(queue)
        if tube is None:
            tube = self._prefix + _escaped(queue)
            if len(tube) > _LONGEST:
                raise InvalidName(
                    f"queue name {queue!r:.60} is too long for beanstalkd: a tube's may have {_LONGEST} bytes"
                )
            self._known[queue] = tube
        return tube

    def queue(self, tube: str) -> str | None:
        """The queue of a tube, if it is of this namespace."""
        return _read(tube[len(self._prefix) :]) if tube.startswith(self._prefix) else None


def urgency(priority: int) -> int:
    """The server's priority: 0 comes first.

    >>> urgency(100), urgency(0), urgency(-100)
    (0, 100, 200)
    """
    return max(0, _FIRST - priority)


def _escaped(queue: str) -> str:
    try:
        return _UNSAFE.sub(lambda found: b"(%02x)" % found[0][0], queue.encode()).decode()
    except UnicodeEncodeError:
        raise BackendRefused(f"queue name {queue!r:.60} cannot be written down") from None


def _read(escaped: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), escaped).encode("latin-1").decode(errors="replace")
