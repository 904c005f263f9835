"""What clients have asked for, and what a test wants to go wrong.

A test that kills a client after its k-th command needs to know the k-th command, exactly.  So every command is written down
when it was applied and before it is answered, and an action of the test can run between the two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from tests.servers.servicebus_standin.errors import Refusal

__all__ = ["COMMANDS", "Command", "Journal", "Kind"]

Kind = Literal[
    "send",
    "schedule",
    "cancel",
    "peek",
    "receive-deferred",
    "renew",
    "complete",
    "abandon",
    "release",
    "defer",
    "dead-letter",
    "deliver",
]
COMMANDS: frozenset[Kind] = frozenset(get_args(Kind)) - {"deliver"}
"""What a client asks for; a delivery is what it gets."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a client asked for, or one message that it was sent."""

    kind: Kind
    queue: str
    sequence_numbers: tuple[int, ...] = ()
    refused: str | None = None  # the condition of the answer, where it was an error


@dataclass(slots=True)
class _Rule:
    kinds: frozenset[str]
    condition: str
    description: str
    left: int


@dataclass(slots=True)
class _Trigger:
    kinds: frozenset[str]
    left: int
    action: Callable[[], object]


@dataclass(slots=True)
class Journal:
    """Written by the server's thread, read and waited for by the test's."""

    _written: list[Command] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _rules: list[_Rule] = field(default_factory=list)
    _triggers: list[_Trigger] = field(default_factory=list)

    def commands(self) -> list[Command]:
        with self._news:
            return list(self._written)

    def count(self, *kinds: Kind) -> int:
        wanted = _checked(kinds)
        with self._news:
            return self._count(wanted)

    def wait_for(self, count: int, *kinds: Kind, timeout: float) -> bool:
        wanted = _checked(kinds)
        with self._news:
            return self._news.wait_for(lambda: self._count(wanted) >= count, timeout)

    def refuse(self, kinds: Iterable[Kind], times: int, condition: str, description: str) -> None:
        with self._news:
            self._rules.append(_Rule(_checked(kinds), condition, description, times))

    def after(self, nth: int, kinds: Iterable[Kind], action: Callable[[], object]) -> None:
        if nth < 1:
            raise ValueError(f"commands are counted from 1, not {nth}")
        with self._news:
            self._triggers.append(_Trigger(_checked(kinds), nth, action))

    def clear(self) -> None:
        with self._news:
            self._written, self._rules, self._triggers = [], [], []

    def check(self, kind: Kind) -> None:
        """Raise the refusal that a test has ordered, if it has."""
        with self._news:
            rule = next((rule for rule in self._rules if kind in rule.kinds), None)
            if rule is None:
                return
            rule.left -= 1
            if not rule.left:
                self._rules.remove(rule)
        raise Refusal(rule.description, condition=rule.condition)

    def write(self, command: Command) -> None:
        with self._news:
            self._written.append(command)
            matching = [trigger for trigger in self._triggers if command.kind in trigger.kinds]
            for trigger in matching:
                trigger.left -= 1
            due = [trigger for trigger in matching if not trigger.left]
            self._triggers = [trigger for trigger in self._triggers if trigger not in due]
            self._news.notify_all()
        for trigger in due:  # without the lock: an action may ask the journal
            trigger.action()

    def _count(self, kinds: frozenset[str]) -> int:
        return sum(command.kind in kinds for command in self._written)


def _checked(kinds: Iterable[Kind]) -> frozenset[str]:
    wanted: frozenset[str] = frozenset(kinds) or frozenset(COMMANDS)
    if unknown := wanted - set(get_args(Kind)):
        names = ", ".join(get_args(Kind))
        raise ValueError(f"{', '.join(sorted(unknown))}: no such command; there are {names}")
    return wanted
