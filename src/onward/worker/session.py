"""The worker's session: opened, renewed by a thread of its own, adopted by a successor after a lost answer.

A lease may be started only while the session is *fresh*: its last renewal is younger than the lease minus a margin, on
a clock that also runs while the machine sleeps, and no call to the store has failed since.  After a pause or an outage,
then, nothing starts before the store has said that the session lives.

Who has been in contact for one whole lease, without a failed call, a pause of its own or a step of the clock, may give back
what dead workers held.  After an outage everybody's session has expired, and whoever came back first would reap the living.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from onward.backend import Backend, Lease, Renewal, Session
from onward.base.backoff import doubling, jittered
from onward.errors import BackendError
from onward.version import __version__
from onward.worker.run_recorder import NoRecorder, RunRecorder

__all__ = ["WorkerSession", "boottime"]

_NEVER = float("-inf")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0


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
        on_fresh: Callable[[], None],
        died: Callable[[BaseException], None],
        clock: Callable[[], float] = boottime,
        wall: Callable[[], float] = time.time,
        recorder: RunRecorder | None = None,
        supervised: bool = False,
    ) -> None:
        self._backend = backend
        self._recorder = recorder or NoRecorder()
        # A supervisor renews it every third of a lease; we only if that has not been heard of.
        self._renew_after = lease_for.total_seconds() / (2 if supervised else 3)
        self._lease_for = lease_for
        self.length = lease_for.total_seconds()
        self._margin = min(5.0, self.length / 6)
        self._on_renewal = on_renewal
        self._on_fresh = on_fresh
        self._died = died
        self._clock = clock
        self._wall = wall
        self.owner = ""
        self._dead = ""  # the owner that the store does not know any more
        self._fresh_until = _NEVER
        self._contact_since: float | None = None
        self._ahead = wall() - clock()  # how far the wall clock is ahead: a jump is a step of it
        self._changed = threading.Condition()
        self._opened = _NEVER
        self._renew_at = time.monotonic() + self._renew_after
        self._failed_at = _NEVER
        self._asked = False
        self._ended = False

    def open(
        self, owner: str, *, adopts: str | None = None, compare: Callable[[Sequence[Lease]], None] | None = None
    ) -> bool:
        """Open a session under a new name; with ``adopts``, as the successor of another.

        What it then holds must be compared with what is in hand before the session is fresh, and anything can begin.
        False: there is nobody to succeed, for both are dead.
        """
        asked = self._clock()
        session = Session(
            owner=owner, lease_for=self._lease_for, host=platform.node(), pid=os.getpid(), version=__version__
        )
        if adopts is None or owner == self.owner:
            self._recorder.name(owner)
        else:
            self._recorder.name(adopts, owner)
        held = self._backend.open_session(session, adopts=adopts)
        if held is None:
            return False
        self._recorder.name(owner)
        if compare is not None:
            compare(held)
        with self._changed:
            self.owner = owner
            self._opened = self._clock()
        self._renewed(owner, asked)
        return True

    def fresh(self) -> bool:
        """Whether a lease may be started.  If not, this asks for a renewal."""
        if self._clock() < self._fresh_until:
            return True
        if not self._asked and self._dead != self.owner:
            with self._changed:
                self._asked = True
                self._changed.notify_all()
        return False

    def out_of_contact(self) -> None:
        """A call to the store has failed: nothing starts until it answers."""
        with self._changed:
            self._fresh_until = _NEVER
            self._failed_at = self._clock()
            self._contact_since = None

    def may_judge(self) -> bool:
        """Whether it has been in contact for long enough to tell who is dead."""
        since = self._contact_since
        return since is not None and self.fresh() and self._clock() - since >= self.length

    def start(self) -> None:
        threading.Thread(target=self._keep, name="onward-renewal", daemon=True).start()

    def end(self) -> None:
        """Stop renewing.  Called when nothing is held any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def renew(self) -> bool:
        """Ask the store whether the session lives, and make it live longer.  False if it did not answer."""
        asked, owner = self._clock(), self.owner
        try:
            renewal = self._backend.extend(owner)
        except BackendError:
            self.out_of_contact()
            return False
        self.heard(owner, asked, renewal)
        return True

    def heard(self, owner: str, asked: float, renewal: Renewal) -> None:
        """What the store answered to us, or to our supervisor."""
        if renewal.alive:
            self._renewed(owner, asked)
        else:
            with self._changed:
                # A successor took over meanwhile, or the store was asked before it knew us: the answer is about nobody.
                if owner != self.owner or asked < self._opened:
                    return
                self._dead = owner
                self._fresh_until = _NEVER
        self._on_renewal(owner, renewal)

    def _renewed(self, owner: str, asked: float) -> None:
        """Counted from when it was asked: the answer may have been long on its way."""
        with self._changed:
            if owner != self.owner or asked < self._failed_at:  # our supervisor asked before our own call failed
                return
            ahead = self._wall() - self._clock()
            if (
                self._contact_since is None
                or asked > self._fresh_until + self._margin  # we were paused for longer than a lease
                or abs(ahead - self._ahead) > self._margin
            ):
                self._contact_since = asked
            self._ahead = ahead
            was_fresh = self._clock() < self._fresh_until
            self._fresh_until = max(self._fresh_until, asked + self.length - self._margin)
            self._renew_at = time.monotonic() + self._renew_after
        if not was_fresh:
            self._on_fresh()

    def _keep(self) -> None:
        try:
            failures = 0
            while self._wait(failures):
                failures = 0 if self.renew() else failures + 1
        except BaseException as error:  # noqa: BLE001  an engine thread never dies alone
            self._died(error)

    def _wait(self, failures: int) -> bool:
        """Until the next renewal.  False when the worker has ended."""
        with self._changed:
            if failures:  # however many ask: a store that is away is not asked more often than this
                longest = doubling(_FIRST_PAUSE, failures, min(_LONGEST_PAUSE, self.length / 3))
                self._changed.wait_for(lambda: self._ended, jittered(longest))
            else:
                while not (self._ended or self._asked) and (pause := self._renew_at - time.monotonic()) > 0:
                    self._changed.wait(pause)
            self._asked = False
            return not self._ended
