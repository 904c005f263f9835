"""Processes whose parent dies: the supervisor adopts them, to wait for their end; or the kernel kills them."""

from __future__ import annotations

import ctypes
import signal
import sys
from contextlib import suppress

__all__ = ["become_subreaper", "end_with_parent", "name_process"]

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Become the parent of orphaned descendants.  Linux only; process 1 of a container is that anyway."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(*, on: bool = True) -> None:
    """Let this process be killed when the thread that started it ends.  Linux only.

    A process that imports an application reads no messages, and one whose handler holds the interpreter's lock cannot.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if on else 0)


def name_process(name: str) -> None:
    """Set the name under which `ps` and `top` show this process, of at most 15 characters.  Linux only."""
    _prctl(_PR_SET_NAME, name.encode())


def _prctl(option: int, argument: int | bytes) -> None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)
