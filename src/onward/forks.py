"""What must happen around ``os.fork``: one hook for the process, weak references to whoever needs it.

``os.register_at_fork`` cannot be undone, so registering objects there would keep every closed application alive.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["ForkAware", "watch"]


class ForkAware(Protocol):
    """Something with state that a fork would break: locks held by other threads, open files."""

    def before_fork(self) -> None: ...

    def after_fork(self, *, in_child: bool) -> None: ...


_watched: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_forking: list[ForkAware] = []


def watch(subject: ForkAware) -> None:
    """Call ``subject`` around every fork for as long as it lives."""
    _watched.add(subject)


def _before() -> None:
    _forking[:] = list(_watched)
    for subject in _forking:
        subject.before_fork()


def _after(*, in_child: bool) -> None:
    for subject in reversed(_forking):
        subject.after_fork(in_child=in_child)
    _forking.clear()


os.register_at_fork(
    before=_before,
    after_in_parent=lambda: _after(in_child=False),
    after_in_child=lambda: _after(in_child=True),
)
