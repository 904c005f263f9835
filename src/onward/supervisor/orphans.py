"""Becoming the parent of processes whose own parent has died, so that their end can be waited for."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

__all__ = ["adopt_orphans"]

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Linux only.  As process 1 of a container we are that parent anyway."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
