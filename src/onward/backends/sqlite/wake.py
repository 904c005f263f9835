"""Waking workers of other processes: a FIFO beside the file.

Idle workers sleep on it.  Whoever makes a job due writes one byte, unless one lies there already; one worker gets it.  A
worker that took all it wanted writes the byte on, so one job wakes one worker and a burst wakes as many as it needs.  The
byte is only a hint: who misses it looks every 50 ms whether the file has changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import termios
import threading
import time
from pathlib import Path

from onward import forks
from onward.shield import shield

__all__ = ["Bell"]

_NOTHING = b"\0\0\0\0"


class Bell:
    """Rings for one of those who listen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._fd: int | None = None  # -1: there is no FIFO to be had
        forks.watch(self)

    def ring(self) -> None:
        with shield(), self._lock, contextlib.suppress(OSError):
            fd = self._opened()
            if fd >= 0 and fcntl.ioctl(fd, termios.FIONREAD, _NOTHING) == _NOTHING:
                os.write(fd, b"!")

    def listen(self, seconds: float) -> bool:
        """Sleep until it rings for us, at most so long."""
        with self._lock:
            # A copy: close() may come from another thread while this one sleeps, and the number may be used anew.
            fd = os.dup(self._opened()) if self._opened() >= 0 else -1
        if fd < 0:
            time.sleep(seconds)
            return False
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            return bool(poll.poll(seconds * 1000)) and bool(os.read(fd, 1))
        except BlockingIOError:
            return False  # it rang, and somebody else was faster
        finally:
            os.close(fd)

    def close(self) -> None:
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd is not None and fd >= 0:
                os.close(fd)

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        self._lock.release()

    def _opened(self) -> int:
        if self._fd is None:
            self._fd = _open_fifo(self._path)
        return self._fd


def _open_fifo(path: Path) -> int:
    try:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Read and write, so that opening never waits for the other end and closing one never ends it for others.
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except (AttributeError, OSError):  # a system or a file system without FIFOs: looking every 50 ms has to do
        return -1
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1
