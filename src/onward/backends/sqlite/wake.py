"""Waking idle workers of other processes: a FIFO beside the file.

Idle workers, called *sleepers*, wait for a byte in the FIFO.  A process that makes a job due writes one byte, unless the
FIFO has one already; one sleeper reads it and claims.  A worker that has left jobs behind writes another, so one job wakes
one worker and many jobs wake as many as they need.  For a job that falls due by itself the first sleeper that sees it
writes the byte.  A sleeper that reads one and finds no work passes it on: it may be meant for a worker of other queues.

A byte is only a hint, and can be lost.  So every sleeper also polls the file.  It claims if it sees work that is still
there a moment later: the worker that was woken for it should have claimed it by then.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import stat
import sys
import threading
import time
from pathlib import Path

from onward.base import forks
from onward.base.interruption import uninterrupted

if sys.platform != "win32":
    import fcntl
    import termios

__all__ = ["Sleeper", "WakePipe"]

_LEFT_TO_OTHERS = (0.05, 0.3)  # seconds: a worker that was woken has claimed by then, however busy the machine
_READERS = 8  # how many sleepers read a byte before it is dropped
_MOMENT = 0.005  # seconds for others to take what was passed on
_NOTHING = b"\0\0\0\0"


class WakePipe:
    """A FIFO whose bytes wake one sleeper each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()  # a signal handler that interrupts this may enqueue
        self._fd: int | None = None  # -1: the system or the file system has no FIFOs
        forks.watch(self)

    @property
    def works(self) -> bool:
        """Whether the system and the file system have FIFOs."""
        with self._lock:
            return self._opened() >= 0

    def wake(self, *, reader: int = 1) -> None:
        """Wake one sleeper; ``reader``: how many will have read this byte, with that one."""
        with uninterrupted(), self._lock:
            try:  # noqa: SIM105  every enqueue passes through here
                _write(self._opened(), reader)
            except OSError:
                pass

    def wake_for(self, due: int) -> None:
        """Wake one sleeper for a job that fell due by itself: once, however many sleepers in all processes see it."""
        with uninterrupted(), self._lock, contextlib.suppress(OSError):
            fd = self._opened()
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # if it is taken, another process is writing now
            try:
                # The mark that all of them see is the FIFO's time of modification.
                if os.fstat(fd).st_mtime_ns != due * 1000:
                    _write(fd, 1)
                    os.utime(fd, ns=(due * 1000, due * 1000))
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)

    def sleep(self, seconds: float) -> int:
        """Sleep until woken, at most ``seconds``.  Returns 0 if not woken; else how many sleepers have read this byte."""
        with self._lock:
            # A copy: another thread may call close() while this one sleeps, and the number may be used again.
            fd = os.dup(self._opened()) if self._opened() >= 0 else -1
        if fd < 0:
            time.sleep(seconds)
            return 0
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            deadline = time.monotonic() + seconds
            while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                with contextlib.suppress(BlockingIOError):  # all sleepers wake, and another one was faster
                    return os.read(fd, 1)[0]
            return 0
        finally:
            os.close(fd)

    def close(self) -> None:
        # A signal handler that closes what its own thread is using leaves it open: its number might be used again.
        is_in_use = self._lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd is not None and fd >= 0 and not is_in_use:
                os.close(fd)

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        self._lock.release()

    def _opened(self) -> int:
        if self._fd is None:
            fd = _open_fifo(self._path)
            if self._fd is None:
                self._fd = fd
            elif fd >= 0:  # a signal handler was faster
                os.close(fd)
        return self._fd


class Sleeper:
    """One wait of one sleeper: decides whether the work that it sees is for it, or another worker was woken for it."""

    def __init__(self, pipe: WakePipe, timeout: float) -> None:
        self._pipe = pipe
        self._deadline = time.monotonic() + timeout
        self._due, self._until_due = -1, float("inf")  # as seen at the last look
        self.woken = 0  # how many sleepers have read the byte that woke this one; 0: it was not woken

    def is_over(self, due: int, until_due: float) -> bool:
        """Return whether this worker must look: there is work for it, or the time is up.  ``due``: 0 if it was woken."""
        still_there = self._until_due <= 0 and due == self._due
        self._due, self._until_due = due, until_due
        if until_due <= 0:
            if self.woken or still_there or not self._pipe.works:
                return True
            if due:
                self._pipe.wake_for(due)
        return time.monotonic() >= self._deadline

    def sleep(self, look_every: float) -> None:
        """Sleep until woken, or until it is time to look again."""
        if self._until_due <= 0:
            pause = random.uniform(*_LEFT_TO_OTHERS)
        else:  # with a FIFO, polling is only for lost bytes: half as often is enough
            pause = min(self._until_due, look_every * (1 + self._pipe.works))
        pause = max(0.0, min(pause, self._deadline - time.monotonic()))
        if 0 < self.woken < _READERS:
            self._pipe.wake(reader=self.woken + 1)
            self.woken = 0
            time.sleep(min(pause, _MOMENT))
        else:
            self.woken = self._pipe.sleep(pause)


def _write(fd: int, reader: int) -> None:
    if fd >= 0 and fcntl.ioctl(fd, termios.FIONREAD, _NOTHING) == _NOTHING:
        os.write(fd, bytes([reader]))


def _open_fifo(path: Path) -> int:
    try:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Open for reading and writing, so that opening never waits for another end, and closing never ends it for others.
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except (AttributeError, OSError):  # a system or a file system without FIFOs: sleepers poll every 50 ms
        return -1
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1
