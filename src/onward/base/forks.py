"""Preparing objects for ``os.fork``: one hook for the process, weak references to the objects that need it.

``os.register_at_fork`` cannot be undone, so registering objects there would keep every closed application alive.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Protocol, cast

from onward.base.logs import get_logger

__all__ = ["ForkAware", "call_in_child", "watch"]

logger = get_logger("onward")


class ForkAware(Protocol):
    """An object with state that a fork would break: locks held by other threads, open files."""

    def before_fork(self) -> None: ...

    def after_fork(self, *, in_child: bool) -> None: ...


# The oldest first, so that all threads take their locks in one order.
_watched: dict[int, Callable[[], ForkAware | None]] = {}


class _Forking(threading.local):
    """The objects that this thread has prepared: several threads may fork at once."""

    def __init__(self) -> None:
        self.subjects: list[ForkAware] = []


_forking = _Forking()


def watch(subject: ForkAware) -> None:
    """Call ``subject`` around every fork, as long as the object exists."""
    key = id(subject)
    _watched[key] = weakref.ref(subject, lambda _: _watched.pop(key, None))


def call_in_child(begin_anew: Callable[[], object]) -> None:
    """Call a method of an object in the child of every fork, for as long as the object lives.

    For what the parent goes on with and the child begins anew: locks that other threads may hold, threads, connections.
    """
    method = cast("MethodType", begin_anew)
    # No `WeakMethod`: at the end of the interpreter it is called for the method too, when this has dropped it already.
    subject = _InChild(weakref.ref(method.__self__, lambda _: _watched.pop(key, None)), method.__func__)
    key = id(subject)
    _watched[key] = lambda: subject


class _InChild:
    def __init__(self, owner: weakref.ref[object], begin_anew: Callable[..., object]) -> None:
        self._owner = owner
        self._begin_anew = begin_anew

    def before_fork(self) -> None:
        """Do nothing."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child and (owner := self._owner()) is not None:
            self._begin_anew(owner)


def _before() -> None:
    for reference in list(_watched.values()):
        subject = reference()
        if subject is None:
            continue
        try:
            subject.before_fork()
        except Exception:
            logger.exception("%r could not prepare for a fork", subject)  # the others still can
        else:
            _forking.subjects.append(subject)


def _after(*, in_child: bool) -> None:
    while _forking.subjects:
        _forking.subjects.pop().after_fork(in_child=in_child)


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
