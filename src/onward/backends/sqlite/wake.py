"""Waking workers of other processes: a FIFO beside the file.

Idle workers sleep on it.  Whoever makes a job due writes one byte, unless one lies there already; one sleeper gets it and
goes.  A worker that took all it wanted writes another, so one job wakes one worker and a burst wakes as many as it needs.
For a job that falls due by itself the first sleeper that sees it writes the byte.  Who gets one and finds nothing to do
passes it on: it may be for somebody who serves other queues.

A byte is only a hint, and can be lost.  So every sleeper looks into the file now and then.  It goes if it sees work that is
still there a moment later: whoever was rung for it should have had it by then.
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

from onward.base import forks
from onward.base.interruption import uninterrupted

__all__ = ["Bell", "Watch"]

_LEFT_TO_OTHERS = (0.05, 0.3)  # seconds: whoever was rung has claimed it by then, however busy the machine
_HANDS = 8  # through which a byte goes before nobody wants it
_MOMENT = 0.005  # seconds for others to take what was passed on
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

    def ring(self, *, hand: int = 1) -> None:
        """Ring, or pass it on to the next ``hand``."""
        with uninterrupted(), self._lock, contextlib.suppress(OSError):
            _write(self._opened(), hand)

    def ring_for(self, due: int) -> None:
        """Ring for what fell due by itself: once, however many in however many processes see it."""
        with uninterrupted(), self._lock, contextlib.suppress(OSError):
            fd = self._opened()
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # if it is taken, somebody is ringing this very moment
            try:
                # The mark that all of them see is the FIFO's time of modification.
                if os.fstat(fd).st_mtime_ns != due * 1000:
                    _write(fd, 1)
                    os.utime(fd, ns=(due * 1000, due * 1000))
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)

    def listen(self, seconds: float) -> int:
        """Sleep until it rings for us, at most so long.  0 if it did not; else through how many hands it came."""
        with self._lock:
            # A copy: close() may come from another thread while this one sleeps, and the number may be used anew.
            fd = os.dup(self._opened()) if self._opened() >= 0 else -1
        if fd < 0:
            time.sleep(seconds)
            return 0
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            deadline = time.monotonic() + seconds
            while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                with contextlib.suppress(BlockingIOError):  # it wakes all who listen, and somebody else was faster
                    return os.read(fd, 1)[0]
            return 0
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
        self._due, self._until_due = -1, float("inf")  # as seen at the last look
        self.rung = 0

    def is_over(self, due: int, until_due: float) -> bool:
        """Whether to go: there is work and it is ours, or the time is up.  ``due`` is 0 if who made it so has rung."""
        still_there = self._until_due <= 0 and due == self._due
        self._due, self._until_due = due, until_due
        if until_due <= 0:
            if self.rung or still_there or not self._bell.rings:
                return True
            if due:
                self._bell.ring_for(due)
        return time.monotonic() >= self._deadline

    def sleep(self, look_every: float) -> None:
        """Until the bell rings, or it is time to look again."""
        if self._until_due <= 0:
            pause = random.uniform(*_LEFT_TO_OTHERS)
        else:  # with a bell, looking is for what nobody rings for: half as often will do
            pause = min(self._until_due, look_every * (1 + self._bell.rings))
        pause = max(0.0, min(pause, self._deadline - time.monotonic()))
        if 0 < self.rung < _HANDS:
            self._bell.ring(hand=self.rung + 1)
            self.rung = 0
            time.sleep(min(pause, _MOMENT))
        else:
            self.rung = self._bell.listen(pause)


def _write(fd: int, hand: int) -> None:
    if fd >= 0 and fcntl.ioctl(fd, termios.FIONREAD, _NOTHING) == _NOTHING:
        os.write(fd, bytes([hand]))


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
