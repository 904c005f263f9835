"""Waking workers of other processes: a FIFO beside the file.

Idle workers sleep on it.  Whoever makes a job due writes one byte, unless one lies there already; one sleeper gets it and
goes.  A worker that took all it wanted writes the byte on, so one job wakes one worker and a burst wakes as many as it
needs.  For a job that falls due by itself the byte is written by sleepers who see it.  Who gets it and finds nothing
to do writes it back: it may be for somebody who serves another queue.

The byte is only a hint, and can be lost.  So every sleeper looks into the file now and then.  It goes if it sees work and
still sees some a moment later: whoever was rung for it should have had it by then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import stat
import termios
import threading
import time
from pathlib import Path

from onward import forks
from onward.shield import shield

__all__ = ["Bell", "Watch"]

_LEFT_TO_OTHERS = (0.05, 0.3)  # seconds: whoever was rung has claimed it by then, however busy the machine
_PASSED_ON, _MOMENT = 4, 0.005  # so often, each time with so many seconds for the others to hear it
_NOTHING = b"\0\0\0\0"


class Bell:
    """Rings for one of those who listen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._fd: int | None = None  # -1: there is no FIFO to be had
        forks.watch(self)

    @property
    def rings(self) -> bool:
        """Whether there is a FIFO to be had."""
        with self._lock:
            return self._opened() >= 0

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
            deadline = time.monotonic() + seconds
            while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                with contextlib.suppress(BlockingIOError):  # it wakes all who listen, and somebody else was faster
                    return bool(os.read(fd, 1))
            return False
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


class Watch:
    """One sleeper's turn: whether the work that it sees is its own, or somebody else was rung for it."""

    def __init__(self, bell: Bell, timeout: float) -> None:
        self._bell = bell
        self._deadline = time.monotonic() + timeout
        self._until_due = float("inf")
        self._passed_on = 0
        self.rung = False

    def is_over(self, until_due: float, *, rung_for: bool) -> bool:
        """Whether to go: there is work and it is ours, or the time is up.  ``rung_for``: who made it due has rung."""
        saw_work, self._until_due = self._until_due <= 0, until_due
        if until_due <= 0:
            if self.rung or saw_work or not self._bell.rings:
                return True
            if not rung_for:
                self._bell.ring()  # all who see it do, and one of them is rung
        return time.monotonic() >= self._deadline

    def sleep(self, look_every: float) -> None:
        """Until the bell rings, or it is time to look again."""
        if self._until_due <= 0:
            pause = random.uniform(*_LEFT_TO_OTHERS)
        else:  # with a bell, looking is for what nobody rings for: half as often will do
            pause = min(self._until_due, look_every * (1 + self._bell.rings))
        pause = max(0.0, min(pause, self._deadline - time.monotonic()))
        if self.rung and self._passed_on < _PASSED_ON:
            self._bell.ring()
            self.rung = False
            self._passed_on += 1
            time.sleep(min(pause, _MOMENT))
        else:
            swallowed, self.rung = self.rung, self._bell.listen(pause)
            if swallowed or not self.rung:
                self._passed_on = 0


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
