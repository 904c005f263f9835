"""Queues by pattern: ``tenant.*`` stands for every queue whose name fits, also for queues that come later.

The pump asks the store which queues have work, by name and page by page (`Inspection.queues_with_work`): before a claim, if
the last answer is older than half a second or its queues are empty.  An idle worker looks about once a second, and a queue
that it has served lately wakes it at once.  A worker without patterns asks nothing.

A pattern has one place in the order, or one weight.  Its queues take turns: each claim begins with another of them, and
names at most a hundred.  A limit of a pattern holds for each of its queues.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from onward.backend import Backend, Inspection
from onward.base.names import is_pattern, matcher
from onward.errors import Unsupported
from onward.worker.options import QueuePlan, WorkerOptions

__all__ = ["plan_of"]

_FRESH = 0.5  # seconds for which the last answer counts while a queue of it has work
_WINDOW = 100  # queues of a pattern in one claim
_WALK = 500  # queues that one answer covers
_REMEMBERED = 100  # queues of all patterns that are listened to


def plan_of(options: WorkerOptions, backend: Backend) -> QueuePlan:
    """Make the plan for these options.  Refuses patterns where the store cannot name its queues."""
    patterns = [queue for queue in options.queues if is_pattern(queue)]
    if not patterns:
        return QueuePlan(options.queues, options.weights, options.per_process)
    if not (backend.capabilities.lists_queues and isinstance(backend, Inspection)):
        raise Unsupported(
            f"{type(backend).__name__} cannot say which queues have work, so no worker can serve {patterns[0]!r}: name the "
            f"queues, or use a database as the url"
        )
    return PatternPlan(options.queues, options.weights, options.per_process)


class _Pattern:
    """One pattern, and which of its queues were seen to have work."""

    def __init__(self, pattern: str) -> None:
        self._matches = matcher(pattern)
        self._prefix = pattern.partition("*")[0]
        self._after = ""  # where the next answer starts, if the last one did not cover all queues
        self._turn = 0
        self._window: list[str] = []  # which the last claim could have named
        self._more = False  # whether the walk goes on
        self.queues: list[str] = []

    def look(self, inspection: Inspection) -> None:
        page = inspection.queues_with_work(self._prefix, after=self._after, limit=_WALK)
        self._after = page.next or ""
        self._more = page.next is not None
        self.queues = [queue for queue in page.names if self._matches(queue)]

    def in_turn(self) -> list[str]:
        """Return the queues to claim from, beginning with another each time."""
        self._turn += 1
        start = self._turn % len(self.queues) if self.queues else 0
        self._window = [*self.queues[start:], *self.queues[:start]][:_WINDOW]
        return self._window

    def emptied(self, claimed: Sequence[str]) -> bool:
        """Forget these queues.  Returns whether others may have work, those at their limit left out."""
        gone, seen = set(claimed), set(self._window)
        self.queues = [queue for queue in self.queues if queue not in gone]
        return self._more or any(queue not in seen for queue in self.queues)


class PatternPlan(QueuePlan):
    """A plan with patterns."""

    open_ended = True

    def __init__(self, queues: Sequence[str], weights: Mapping[str, int], limits: Mapping[str, int]) -> None:
        super().__init__(queues, weights, {queue: limit for queue, limit in limits.items() if not is_pattern(queue)})
        self._given_order, self.fixed_order = self.fixed_order, ()
        self._patterns = {queue: _Pattern(queue) for queue in self.queues if is_pattern(queue)}
        self._each = [(matcher(queue), limit) for queue, limit in limits.items() if is_pattern(queue)]
        self.limited = bool(limits)
        self._looked = float("-inf")
        self._remembered: dict[str, None] = {}  # the queues that had work, the latest last

    def look(self, backend: Backend) -> None:
        assert isinstance(backend, Inspection)
        now = time.monotonic()
        if now - self._looked < _FRESH and any(pattern.queues for pattern in self._patterns.values()):
            return
        for pattern in self._patterns.values():
            pattern.look(backend)
            for queue in pattern.queues:
                self._remembered.pop(queue, None)
                self._remembered[queue] = None
        for queue in list(self._remembered)[:-_REMEMBERED]:
            del self._remembered[queue]
        self._looked = now

    def order(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._expanded()))

    def _expanded(self) -> Iterator[str]:
        for queue in self._given_order or super().order():
            pattern = self._patterns.get(queue)
            if pattern is None:
                yield queue
            else:
                yield from pattern.in_turn()

    def emptied(self, claimed: Sequence[str]) -> bool:
        self._looked = float("-inf")
        return sum(pattern.emptied(claimed) for pattern in self._patterns.values()) > 0

    def listened(self, queues: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*queues, *self._remembered)))

    def room(self, inflight: Mapping[str, int]) -> dict[str, int]:
        room = super().room(inflight)
        for queue in {
            *inflight,
            *(name for pattern in self._patterns.values() for name in pattern.queues),
        } - room.keys():
            limit = next((limit for fits, limit in self._each if fits(queue)), None)
            if limit is not None:
                room[queue] = max(0, limit - inflight.get(queue, 0))
        return room
