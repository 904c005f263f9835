"""Marking tests with the capabilities that they need: on a backend without one of them, the test is skipped.

    @needs("priorities")
    def test_…(self, backend): ...

The words are the fields of `onward.backend.Capabilities`, and ``inspection``, ``transacts``, ``transferable``, ``companion``
and ``emptying`` for backends with those protocols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from onward.backend import Capabilities, Emptying, Inspection
from onward.contract.companion import Companion
from onward.contract.transactions import Transacts
from onward.contract.transfer import Transferable

__all__ = ["missing", "needs"]

Item = TypeVar("Item", bound=Callable[..., Any])

_PROTOCOLS: dict[str, Any] = {
    "inspection": Inspection,
    "transacts": Transacts,
    "transferable": Transferable,
    "companion": Companion,
    "emptying": Emptying,
}
_WORDS = {*Capabilities.__struct_fields__, *_PROTOCOLS}
_ATTRIBUTE = "__onward_needs__"


def needs(*words: str) -> Callable[[Item], Item]:
    """Mark a test, or every test of a class, as one that needs these capabilities."""
    if unknown := set(words) - _WORDS:
        raise ValueError(f"no such capability: {', '.join(sorted(unknown))}")

    def mark(item: Item) -> Item:
        # On the functions, not on the class: a suite is mixed from many classes and would inherit the mark for all.
        tests = (
            [test for name, test in vars(item).items() if name.startswith("test")] if isinstance(item, type) else [item]
        )
        for test in tests:
            setattr(test, _ATTRIBUTE, {*words, *getattr(test, _ATTRIBUTE, ())})
        return item

    return mark


def missing(test: object, backend: Any) -> list[str]:
    """Return the capabilities that this test needs and this backend lacks."""
    return [word for word in sorted(getattr(test, _ATTRIBUTE, ())) if not _has(backend, word)]


def _has(backend: Any, word: str) -> bool:
    if word in _PROTOCOLS:
        return isinstance(backend, _PROTOCOLS[word])
    return bool(getattr(backend.capabilities, word))
