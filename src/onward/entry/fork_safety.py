"""Whether a process that has imported an application may be forked, and what a fork of it does first.

A fork has the threads of its parent no more, while their locks stay locked; and it shares open sockets, files and memory,
which two processes must not use.
"""

from __future__ import annotations

import fcntl
import gc
import os
import stat
import sys
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["begin_anew", "open_files", "prepare_to_fork", "why_not_fork"]


def prepare_to_fork() -> None:
    """Leave nothing that each fork would do again, and memory that stays shared."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()  # or each fork would write again what the import has printed
    gc.collect()
    gc.freeze()  # a collection in a fork leaves these objects alone, so that their memory stays shared


def begin_anew() -> None:
    """Give a forked process its own random numbers, as Python does with those of `random`."""
    numpy_random = sys.modules.get("numpy.random")
    with suppress(Exception):  # an application may have replaced it
        if numpy_random is not None:
            numpy_random.seed()


def why_not_fork(open_before: dict[int, str]) -> str | None:
    """Return what the import has left behind that a fork must not inherit, or what the system lacks; None: nothing."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"the system has no files that refer to processes (pidfd): {error}"
    threads = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
    tasks = len(list(Path("/proc/self/task").iterdir())) - 1
    if threads or tasks:
        named = f" ({', '.join(threads)})" if threads else ", not of Python's"
        return f"the import of the application leaves {max(tasks, len(threads))} threads running{named}"
    for file, target in open_files().items():
        if open_before.get(file) != target and _must_not_be_shared(file, target):
            return f"the import of the application leaves {target} open"
    if _shares_memory():
        return "the import of the application leaves memory that a fork would share"
    return None


def _shares_memory() -> bool:
    """Return whether memory is mapped that two processes would both write: not a copy, and not only to be read."""
    with Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as maps:
        return any(fields[1][1] == "w" and fields[1][3] == "s" for fields in map(str.split, maps))


def _must_not_be_shared(file: int, target: str) -> bool:
    """Tell sockets, event loops and files that are read from log files and pipes: what one fork reads moves on for all."""
    if target.startswith(("socket:", "anon_inode:")):
        return True
    with suppress(OSError):
        access = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
        is_read = access == os.O_RDONLY and stat.S_ISREG(os.fstat(file).st_mode)
        return target != os.devnull and (is_read or access == os.O_RDWR)
    return False


def open_files() -> dict[int, str]:
    found: dict[int, str] = {}
    for link in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # the folder itself, which is closed by now
            found[int(link.name)] = str(link.readlink())
    return found
