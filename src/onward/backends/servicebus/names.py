"""A queue is a Service Bus queue, named so that a namespace's queues are known by their beginning."""

from __future__ import annotations

import re

from onward.base.names import namespace_name
from onward.errors import BackendRefused, InvalidName

__all__ = ["Names"]

_LONGEST = 260
# Names there know no case, end with a letter or a digit, and have few signs.  What else a name has is written as its number;
# so is a dash that could be taken for the beginning of one.
_UNSAFE = re.compile(rb"[^a-z0-9._-]|-(?=x)|[._-]$")
_ESCAPED = re.compile(r"-x([0-9a-f]{2})")


class Names:
    """The names of one namespace of ours."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"onward.{namespace_name(namespace)}."
        self._known: dict[str, str] = {}

    def of(self, queue: str) -> str:
        r"""
        >>> Names("shop").of("mail"), Names("shop").of("Mail to-xy"), Names("shop").of("a.")
        ('onward.shop.mail', 'onward.shop.-x4dail-x20to-x2dxy', 'onward.shop.a-x2e')
        """
        entity = self._known.get(queue)
        if entity is None:
            entity = self._prefix + _escaped(queue)
            if len(entity) > _LONGEST:
                raise InvalidName(
                    f"queue name {queue!r:.60} is too long for Service Bus: a queue's may have {_LONGEST} characters"
                )
            self._known[queue] = entity
        return entity

    def queue(self, entity: str) -> str | None:
        """The queue of a name, if it is of this namespace.

        >>> Names("shop").queue("onward.shop.-x4dail-x20to-x2dxy"), Names("shop").queue("orders")
        ('Mail to-xy', None)
        """
        return _read(entity[len(self._prefix) :]) if entity.startswith(self._prefix) else None


def _escaped(queue: str) -> str:
    try:
        return _UNSAFE.sub(lambda found: b"-x%02x" % found[0][0], queue.encode()).decode()
    except UnicodeEncodeError:
        raise BackendRefused(f"queue name {queue!r:.60} cannot be written down") from None


def _read(escaped: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), escaped).encode("latin-1").decode(errors="replace")
