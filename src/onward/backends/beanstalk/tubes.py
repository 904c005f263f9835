"""A queue is a tube, named so that a namespace's tubes are known by their beginning."""

from __future__ import annotations

from onward.names import namespace_name, queue_name

__all__ = ["Tubes", "urgency"]

_FIRST = 100  # our highest priority


class Tubes:
    """The tubes of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"onward.{namespace_name(namespace)}."
        self._known: dict[str, str] = {}

    def of(self, queue: str) -> str:
        """The tube's name.  Checked: it becomes part of a line, which a control character would end.

        >>> Tubes("shop").of("mail")
        'onward.shop.mail'
        """
        tube = self._known.get(queue)
        if tube is None:
            tube = self._known[queue] = self._prefix + queue_name(queue)
        return tube

    def queue(self, tube: str) -> str | None:
        """The queue of a tube, if it is of this namespace."""
        return tube[len(self._prefix) :] if tube.startswith(self._prefix) else None


def urgency(priority: int) -> int:
    """The server's priority: 0 comes first.

    >>> urgency(100), urgency(0), urgency(-100)
    (0, 100, 200)
    """
    return max(0, _FIRST - priority)
