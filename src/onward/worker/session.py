"""The worker's session: opened, renewed by a thread of its own, adopted by a successor after a lost answer.

A lease may be started only while the session is *fresh*: its last renewal is younger than the lease minus a margin, on
a clock that also runs while the machine sleeps.  After a pause, then, nothing starts before the store has said that
the session lives.

The same thread sweeps: it reaps the sessions of other workers that died, but only after one whole lease of unbroken
contact with the store.  After an outage everybody's session has expired, and whoever came back first would reap the
living.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from onward.backend import Backend, Lease, Renewal, Session
from onward.errors import BackendError
from onward.version import __version__

__all__ = ["WorkerSession"]


def boottime() -> float:
    """Seconds on a clock that does not stop while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class WorkerSession:
    """Who this worker is to the store, and how long that is known to hold."""

    def __init__(
        self,
        backend: Backend,
        lease_for: timedelta,
        *,
        on_renewal: Callable[[str, Renewal], None],
        sweep: Callable[[], None],
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._backend = backend
        self._lease_for = lease_for
        self._length = lease_for.total_seconds()
        self._margin = min(5.0, self._length / 6)
        self._on_renewal = on_renewal
        self._sweep = sweep
        self._clock = clock
        self.owner = ""
        self._fresh_until = float("-inf")
        self._contact_since: float | None = None
        self._changed = threading.Condition()
        self._ended = False
        self._thread: threading.Thread | None = None

    def open(self, owner: str, *, adopts: str | None = None) -> list[Lease]:
        """Open a session under a new name; with ``adopts``, as the successor of another.  Gives what it then holds."""
        asked = self._clock()
        session = Session(
            owner=owner, lease_for=self._lease_for, host=platform.node(), pid=os.getpid(), version=__version__
        )
        held = self._backend.open_session(session, adopts=adopts)
        self.owner = owner
        self._renewed(asked)
        return held

    def fresh(self) -> bool:
        return self._clock() < self._fresh_until

    def wait_fresh(self, timeout: float) -> bool:
        """Wait until the session is fresh again, or the worker ends."""
        with self._changed:
            self._changed.notify_all()  # the renewal need not wait for its hour
            self._changed.wait_for(lambda: self.fresh() or self._ended, timeout)
            return self.fresh()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._keep, name="onward-renewal", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop renewing.  Called when nothing is held any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def renew(self) -> bool:
        """Ask the store whether the session lives, and make it live longer."""
        asked, owner = self._clock(), self.owner
        try:
            renewal = self._backend.extend(owner)
        except BackendError:
            self._contact_since = None
            return False
        if owner != self.owner:  # a successor took over meanwhile: the answer is about nobody
            return True
        if renewal.alive:
            self._renewed(asked)
        else:
            self._fresh_until = float("-inf")
        self._on_renewal(owner, renewal)
        return renewal.alive

    def _renewed(self, asked: float) -> None:
        """Counted from when it was asked: the answer may have been long on its way."""
        if self._contact_since is None or asked > self._fresh_until + self._margin:
            self._contact_since = asked
        with self._changed:
            self._fresh_until = asked + self._length - self._margin
            self._changed.notify_all()

    def _keep(self) -> None:
        while True:
            with self._changed:
                if self._ended:
                    return
                self._changed.wait(self._length / 3 if self.fresh() else 0.2)
                if self._ended:
                    return
            self.renew()
            if self._contact_since is not None and self._clock() - self._contact_since >= self._length:
                self._sweep()
