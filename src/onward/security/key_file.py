"""Reading a ring of keys again when its file has changed, so that keys can be added and removed without a restart.

    which thread looks                                when
    a thread of its own, in a worker                  every second
    a thread that seals jobs, or drains               when a second has passed since the last look
    a thread that verifies a job of an unknown key    at once: the key may have been added a moment ago

So a file makes verifying a job no slower.  `KeyFile` reads a file that was replaced at once, and one that was overwritten
only when a second has passed since the last write: half a file may be valid, with a shorter secret.  A file that cannot be
read, or is no key file, changes nothing; the log says so once.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from onward.base import forks
from onward.base.logs import get_logger
from onward.errors import OptionError
from onward.security.key_ring import KeyRing

__all__ = ["KeyFile"]

logger = get_logger("onward")

_EVERY = 1.0  # seconds between two looks
_AT_REST = 1.0  # seconds since the last write


class _FileStamp(NamedTuple):
    """The attributes of a file by which a change is noticed."""

    place: tuple[int, int]  # device and number: another file was put in its place
    content: tuple[int, int]  # time and size: it was written to


class KeyFile:
    """The current ring of a file, for an application; calls ``adopt`` with every new ring."""

    def __init__(self, ring: KeyRing, path: Path, adopt: Callable[[KeyRing], None]) -> None:
        self.ring = ring
        self._path = path.absolute()  # the program may leave the folder it was named in
        self._adopt = adopt
        self._looking = threading.Lock()
        self._next = 0.0
        self._seen: _FileStamp | None = None
        with contextlib.suppress(OSError):  # the first look notices a change since the ring was read
            self._seen = self._stamp()[0]._replace(content=(0, 0))
        self._complaint: str | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        forks.call_in_child(self._begin_anew)

    def look(self) -> KeyRing:
        """Return the ring, after a look at the file if the last one was a second ago."""
        if time.monotonic() >= self._next and self._looking.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._looking.release()
        return self.ring

    def look_now(self) -> None:
        """Look at the file now.  Another thread's look counts too, if it began after this was called."""
        with self._looking:
            self._read()

    def watch(self) -> None:
        """Start a thread that looks every second, for threads that verify and never look."""
        if self._thread is None or not self._thread.is_alive():
            arguments = (weakref.ref(self), self._closed)
            self._thread = threading.Thread(target=_look_on, args=arguments, name="onward-keys", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _begin_anew(self) -> None:
        self._looking = threading.Lock()  # a look is short, and leaves nothing half done

    def _read(self) -> None:
        self._next = time.monotonic() + _EVERY
        try:
            stamp, written_at = self._stamp()
            if stamp == self._seen:
                return
            replaced = self._seen is not None and stamp.place != self._seen.place
            if not replaced and 0 <= time.time() - written_at < _AT_REST:
                return
            ring = KeyRing.read(self._path)
        except (OSError, OptionError) as error:
            self._complain(error)
            return
        self._seen, self._complaint = stamp, None
        if ring != self.ring:
            self._adopt(ring)
            self.ring = ring  # last: a thread that sees it finds that `adopt` was called
            logger.info("the keys were read again from %s: %s", self._path, ring)

    def _stamp(self) -> tuple[_FileStamp, float]:
        status = self._path.stat()
        return _FileStamp((status.st_dev, status.st_ino), (status.st_mtime_ns, status.st_size)), status.st_mtime

    def _complain(self, error: Exception) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            logger.error("the keys are unchanged, because their file cannot be read again: %s", error)


def _look_on(subject: weakref.ref[KeyFile], closed: threading.Event) -> None:
    """Look every second, until the file is closed or its `KeyFile` is gone."""
    while not closed.wait(_EVERY):
        keys = subject()
        if keys is None:
            return
        keys.look_now()
        del keys
