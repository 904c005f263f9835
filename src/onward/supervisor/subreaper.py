"""Processes whose parent dies: becoming their parent, so that their end can be waited for; or ending with it."""

from __future__ import annotations

import ctypes
import signal
import sys
from contextlib import suppress

__all__ = ["become_subreaper", "end_with_parent"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Linux only.  As process 1 of a container we are that parent anyway."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(*, on: bool = True) -> None:
    """Linux only: be killed when the thread that started this process ends, whatever we do then.

    A process that imports an application does not listen, and one whose handler holds the interpreter's lock cannot.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if on else 0)


def _prctl(option: int, argument: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)
