"""Emptying a store between two tests."""

from __future__ import annotations

from onward.app import Onward
from onward.backend import Emptying
from onward.errors import Unsupported

__all__ = ["empty_store"]


def empty_store(jobs: Onward) -> None:
    """Remove every job of an application, finished ones too, with all keys that they hold; and resume every queue.

    The store's other namespaces are left alone.  For tests: the jobs cannot be restored.
    """
    if not isinstance(jobs.backend, Emptying):
        raise Unsupported("a broker cannot be emptied from here: let tests use memory://, or a database")
    jobs.backend.empty()
