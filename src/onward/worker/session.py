"""A session in the store: opened, renewed by a thread while it is used, adopted by a successor after a lost answer.

A worker may start a lease only while the session is fresh (`onward.worker.store_contact`).  So after a pause or an outage it
starts nothing before the store has answered that the session is alive.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from onward.backend import Backend, Lease, LimitRow, Renewal, Session
from onward.base.backoff import doubling, jittered
from onward.base.lazy import platform
from onward.errors import BackendError
from onward.version import __version__
from onward.worker.run_recorder import RunRecorder
from onward.worker.store_contact import StoreContact

__all__ = ["SendsSamples", "SessionEvents", "SessionKeeper"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0


class SessionEvents(Protocol):
    """What a session reports to the engine that uses it; from any thread."""

    def on_renewal(self, owner: str, renewal: Renewal) -> None:
        """Act on what the store answered to a renewal."""

    def on_fresh(self) -> None:
        """Wake the threads that waited for the session to be renewed."""

    def on_died(self, error: BaseException) -> None:
        """End the engine, or say so: the thread that renews has died."""


class SendsSamples(Protocol):
    """Sends the numbers of this process with renewals."""

    def extend(self, owner: str) -> Renewal:
        """Renew a session, and send a sample with that if it is time for one."""

    def work(self) -> None:
        """Look at the store for all processes, if it is the turn of this one."""

    def finish(self) -> None:
        """Send a last sample.  Raises nothing."""


class SessionKeeper:
    """The name under which an engine holds leases, and how long that is known to hold."""

    def __init__(
        self,
        backend: Backend,
        lease_for: timedelta,
        events: SessionEvents,
        *,
        contact: StoreContact | None = None,
        recorder: RunRecorder | None = None,
        supervised: bool = False,
        limits: Callable[[], tuple[LimitRow, ...]] = tuple,
        description: Callable[[], bytes] = bytes,
    ) -> None:
        self._backend = backend
        self._lease_for = lease_for
        self._limits = limits
        self._description = description
        self._events = events
        self.contact = contact or StoreContact(lease_for.total_seconds())
        self._clock = self.contact.clock
        self._recorder = recorder
        # A supervisor renews every third of a lease; this thread does if it was told of no renewal for half of one.
        self._renew_after = self.contact.length / (2 if supervised else 3)
        self._renew_at = time.monotonic() + self._renew_after
        self._answered = float("-inf")  # when a renewal was asked for that was answered
        self.owner = ""
        self.is_dead = False  # whether the store has said that the session of this owner is gone
        self._opened = float("-inf")
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._uses = 0
        self._rests = False  # whether its thread has nothing to renew
        self._asked = False
        self._ended = False
        self.samples: SendsSamples | None = None  # set by a worker that sends some

    def open(
        self, owner: str, *, adopts: str | None = None, compare: Callable[[Sequence[Lease]], None] | None = None
    ) -> bool:
        """Open a session under a new name; with ``adopts``, as the successor of another.

        ``compare`` sees what the new session holds before it is fresh and any lease can begin.  False: both the session to
        adopt and this one are dead.
        """
        asked = self._clock()
        if self._recorder is not None:
            first, second = (owner, "") if adopts is None or owner == self.owner else (adopts, owner)
            self._recorder.name(first, second)
        session = Session(
            owner=owner,
            lease_for=self._lease_for,
            host=platform.node(),
            pid=os.getpid(),
            version=__version__,
            limits=self._limits(),
            description=self._description(),
        )
        held = self._backend.open_session(session, adopts=adopts)
        if held is None:
            return False
        if self._recorder is not None:
            self._recorder.name(owner)
        if compare is not None:
            compare(held)
        with self._changed:
            if owner != self.owner:
                self.owner, self.is_dead = owner, False
            self._opened = self._clock()
        self._renewed(owner, asked)
        return True

    def fresh(self) -> bool:
        """Return whether a lease may be started.  If not, this asks for a renewal."""
        if self._clock() < self.contact.fresh_until:
            return True
        if not self._asked and not self.is_dead:
            with self._changed:
                self._asked = True
                self._changed.notify_all()
        return False

    def is_old(self) -> bool:
        """Return whether the session is due to be renewed, by a clock that may have been set back meanwhile."""
        return abs(self._clock() - self._answered) > self._renew_after

    def declare_dead(self) -> None:
        """Start nothing any more under this name: the store has said that the session is gone."""
        with self._changed:
            self.is_dead = True
            self.contact.stale()

    def out_of_contact(self) -> None:
        """Start nothing until the store answers: a call has failed."""
        with self._changed:
            self.contact.failed()

    def start(self) -> None:
        """Let a thread renew it, until `stop` was called as often as this."""
        with self._changed:
            self._uses += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._keep, name="onward-renewal", daemon=True)
                self._thread.start()
            elif self._rests:  # waking it for every job of `drain` would cost more than many jobs do
                self._changed.notify_all()

    def stop(self) -> bool:
        """End one use.  Returns whether that was the last."""
        with self._changed:
            self._uses -= 1
            return not self._uses

    @property
    def in_use(self) -> bool:
        return self._uses > 0

    def end(self) -> None:
        """End the thread.  Called when no lease is held any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def renew(self) -> bool:
        """Renew the session, and learn whether it is alive.  False if the store did not answer."""
        try:
            self.ask()
        except BackendError:
            return False
        return True

    def ask(self) -> None:
        """Do the same, and raise if the store does not answer."""
        asked, owner = self._clock(), self.owner
        try:
            renewal = self._backend.extend(owner) if self.samples is None else self.samples.extend(owner)
        except BackendError:
            self.out_of_contact()
            raise
        self.accept_renewal(owner, asked, renewal)

    def accept_renewal(self, owner: str, asked: float, renewal: Renewal) -> None:
        """Act on what the store answered to this process, or to its supervisor."""
        if renewal.alive:
            self._renewed(owner, asked)
        else:
            with self._changed:
                # A successor took over meanwhile, or the store was asked before this session was opened.
                if owner != self.owner or asked < self._opened:
                    return
                self.is_dead = True
                self.contact.stale()
        self._events.on_renewal(owner, renewal)

    def _renewed(self, owner: str, asked: float) -> None:
        with self._changed:
            # A supervisor may have asked before a call of this process failed.
            if owner != self.owner or asked < self.contact.failed_at:
                return
            was_fresh = self._clock() < self.contact.fresh_until
            self.contact.answered(asked)
            self._answered, self._renew_at = asked, time.monotonic() + self._renew_after
            if self._rests:
                self._changed.notify_all()
        if not was_fresh:
            self._events.on_fresh()

    def _keep(self) -> None:
        try:
            failures = 0
            while self._wait(failures):
                failures = 0 if self.renew() else failures + 1
                if self.samples is not None:
                    self.samples.work()
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._events.on_died(error)

    def _wait(self, failures: int) -> bool:
        """Wait for the next renewal.  False when the session has ended."""
        with self._changed:
            if (
                failures and self._uses
            ):  # however many threads ask: a store that is away is not asked more often than this
                longest = doubling(_FIRST_PAUSE, failures, min(_LONGEST_PAUSE, self.contact.length / 3))
                self._changed.wait_for(lambda: self._ended, jittered(longest))
            else:
                while not (self._ended or self._asked):
                    self._rests = self.is_dead or not self._uses
                    pause = self._renew_at - time.monotonic()
                    if pause <= 0 and not self._rests:
                        break
                    self._changed.wait(None if self._rests else pause)
            self._rests = self._asked = False
            self._renew_at = time.monotonic() + self._renew_after
            return not self._ended
