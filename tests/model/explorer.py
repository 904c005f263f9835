"""Visit every state a machine can be in, nearest first, and tell the shortest way to what should not be.

A machine is its first state and a function from a state to its steps.  Safety: every invariant holds in every state.
Liveness: from every state the end can be reached by steps that are no faults.  Where that holds in a finite world nothing
is ever stranded, for a run that never ends would have to avoid for ever a step that is always possible again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

__all__ = ["STRANDED", "Exploration", "Step", "explore"]

STRANDED = "the end can be reached without another fault"

S = TypeVar("S", bound=Hashable)


class Step(NamedTuple):
    name: str
    after: Hashable
    fault: bool = False


@dataclass
class Exploration:
    """How much was visited, and the shortest way to the first state in which something does not hold."""

    states: int
    steps: int
    broken: str | None = None
    path: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.broken is None:
            return f"{self.states:,} states, {self.steps:,} steps: holds"
        return f"breaks “{self.broken}” in {len(self.path)} steps: {'; '.join(self.path)}"


def explore(
    start: S,
    steps: Callable[[S], Iterable[Step]],
    invariants: Mapping[str, Callable[[S], bool]],
    is_over: Callable[[S], bool],
) -> Exploration:
    graph = _Graph(start)
    with _collector_off():
        for at, state in enumerate(graph.states):  # the list grows while it is walked
            for name, holds in invariants.items():
                if not holds(state):
                    return graph.found(name, at)
            for step in steps(state):
                graph.add(at, step)
    stranded = graph.first_that_cannot_reach([at for at, state in enumerate(graph.states) if is_over(state)])
    return graph.found(None if stranded is None else STRANDED, stranded or 0)


@contextmanager
def _collector_off() -> Iterator[None]:
    """States are tuples without cycles: to walk millions of them takes the garbage collector a sixth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Graph(Generic[S]):
    def __init__(self, start: S) -> None:
        self.states = [start]
        self._number = {start: 0}
        self._came_by: list[tuple[int, str]] = [(0, "")]
        self._back: list[list[int]] = [[]]  # over steps that are no faults
        self._steps = 0

    def add(self, at: int, step: Step) -> None:
        self._steps += 1
        to = self._number.setdefault(step.after, len(self.states))
        if to == len(self.states):
            self.states.append(step.after)
            self._came_by.append((at, step.name))
            self._back.append([])
        if not step.fault:
            self._back[to].append(at)

    def first_that_cannot_reach(self, ends: list[int]) -> int | None:
        can = set(ends)
        walk = list(ends)
        while walk:
            for before in self._back[walk.pop()]:
                if before not in can:
                    can.add(before)
                    walk.append(before)
        return next((at for at in range(len(self.states)) if at not in can), None)

    def found(self, broken: str | None, at: int) -> Exploration:
        path = []
        while at:
            at, name = self._came_by[at]
            path.append(name)
        return Exploration(len(self.states), self._steps, broken, path[::-1])
