"""The name of a queue on a server that allows few characters, with a prefix for the namespace."""

from __future__ import annotations

import re
from typing import ClassVar

from onward.base.names import namespace_name
from onward.errors import BackendRefused, InvalidName

__all__ = ["QueueNames"]


class QueueNames:
    """The names of one namespace.  A character that the server does not allow is written as its number."""

    _longest: ClassVar[int]
    _rule: ClassVar[str]  # what the error says of a name that is too long
    _unsafe: ClassVar[re.Pattern[bytes]]
    _written: ClassVar[bytes]  # how the number of an unsafe byte is written
    _escaped: ClassVar[re.Pattern[str]]  # the same, to be read

    def __init__(self, namespace: str) -> None:
        self._prefix = f"onward.{namespace_name(namespace)}."
        self._known: dict[str, str] = {}

    def of(self, queue: str) -> str:
        """Return the server's name of a queue."""
        name = self._known.get(queue)
        if name is None:
            name = self._prefix + self._escape(queue)
            if len(name) > self._longest:
                raise InvalidName(f"queue name {queue!r:.60} is too long for {self._rule}")
            self._known[queue] = name
        return name

    def queue(self, name: str) -> str | None:
        """Return the queue of a server's name, if it is of this namespace."""
        if not name.startswith(self._prefix):
            return None
        text = self._escaped.sub(lambda found: chr(int(found[1], 16)), name[len(self._prefix) :])
        return text.encode("latin-1").decode(errors="replace")

    def _escape(self, queue: str) -> str:
        try:
            return self._unsafe.sub(lambda found: self._written % found[0][0], queue.encode()).decode()
        except UnicodeEncodeError:
            raise BackendRefused(f"queue name {queue!r:.60} cannot be written down") from None
