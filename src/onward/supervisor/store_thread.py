"""The supervisor's thread that talks to the store, so that the supervisor's loop never waits for the store.

The thread renews the sessions of the worker processes, gives back the leases of processes that died, and sweeps
(`onward.worker.store_contact`).  If the store does not answer it asks again: dead sessions stay on its list until their
leases are given back.  A session that the store refuses to end delays neither the others nor the renewals.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from onward.backend import Advising, Backend, Counting, Held, Inspection, Reaped
from onward.base.backoff import doubling, jittered
from onward.base.clock import SystemClock, boottime
from onward.base.logs import get_logger
from onward.base.names import serves
from onward.base.outage import Outage
from onward.config import Settings
from onward.errors import BackendError
from onward.operate.pruning import cutoffs, prune
from onward.operate.series.sampling import Sampling, sampling
from onward.supervisor.messages import Renewed
from onward.telemetry.numbers import Numbers, Pair
from onward.worker.store_contact import StoreContact, StoreSweep

__all__ = ["DeadSessions", "StoreThread", "WatchedProcesses"]

logger = get_logger("onward.supervisor")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
_NO_SESSION = ""  # no session has this name


class WatchedProcesses(Protocol):
    """The worker processes."""

    def sessions(self) -> Sequence[tuple[int, str]]:
        """Return the sessions to renew, each with the number of its process."""

    def counted(self) -> Mapping[Pair, Numbers]:
        """Return everything that the processes have counted."""

    def events_dropped(self) -> int:
        """Return how many events their subscribers did not get."""


class DeadSessions(NamedTuple):
    """The sessions of a process that died.

    ``owners`` are the names that its session may have, the older first: an adoption that reaches the store late finds
    neither once the first is gone.  ``started`` had begun and count as crashed; its other leases go back without a crash.
    """

    owners: Sequence[str]
    started: Sequence[Held]
    cause: str


class StoreThread:
    """Renews, gives back and sweeps, on a thread of its own."""

    def __init__(
        self,
        open_store: Callable[[Settings], Backend],
        settings: Settings,
        served: Sequence[str],
        *,
        processes: WatchedProcesses,
        renewed: Callable[[int, Renewed], None],
        rescued: Callable[[Sequence[Reaped]], None],
        gave_back: Callable[[], None],
        died: Callable[[BaseException], None],
    ) -> None:
        self._open_store = open_store
        self._store: Backend | None = None
        self._samples: Sampling | None = None
        self._settings = settings
        self._served = served
        self._processes = processes
        self._renewed = renewed
        self._rescued = rescued
        self._gave_back = gave_back
        self._died = died
        self._interval = settings.lease_for / 3
        self._contact = StoreContact(settings.lease_for)
        self._sweep = StoreSweep(self._contact, reap=self._reap, prune=self._prune)
        self._dead_sessions: deque[DeadSessions] = deque()
        self._next_renewal = 0.0
        self._failures = 0
        self._outage = Outage(logger)
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._keep, name="onward-store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def give_back(self, dead: DeadSessions) -> None:
        with self._changed:
            self._dead_sessions.append(dead)
            self._changed.notify()

    @property
    def busy(self) -> bool:
        """Whether leases are still to be given back."""
        return bool(self._dead_sessions)

    def is_fresh(self) -> bool:
        """Return whether the store has answered within a lease, and no call has failed since."""
        return boottime() < self._contact.fresh_until

    def stop(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(_LONGEST_PAUSE)
        if (
            self._store is not None and not self._thread.is_alive()
        ):  # else the thread waits for an answer, and closing would wait too
            self._store.close()

    @property
    def _backend(self) -> Backend:
        """The store.  This thread opens it when first needed: that may take long, and may have to be tried again."""
        if self._store is None:
            store = self._open_store(self._settings)
            try:
                store.connect()
            except BaseException:
                store.close()
                raise
            self._store = store
            clock = getattr(store, "clock", None) or SystemClock()
            self._samples = sampling(
                store, self._processes.counted, self._settings, clock, dropped=self._processes.events_dropped
            )
            _warn_of_unserved(self._store, self._served)
            for advice in self._store.advice() if isinstance(self._store, Advising) else ():
                logger.info("about the store: %s", advice)
        return self._store

    def _keep(self) -> None:
        try:
            while not self._ended:
                try:
                    self._work()
                except (BackendError, OSError) as error:  # the system may have no file left for it now
                    self._failed(error)
                else:
                    self._failures = 0
                    self._outage.over()
                self._wait()
            if self._samples is not None and not self._failures:
                self._samples.finish()
        except BaseException as error:  # noqa: BLE001  the supervisor must not go on without it
            if not self._ended:
                self._died(error)

    def _work(self) -> None:
        if boottime() >= self._next_renewal:
            self._renew()
        self._give_back()
        if self._samples is not None:
            self._samples.work()
        for _ in self._sweep.run():
            self._give_back()
            if boottime() >= self._next_renewal:
                self._renew()

    def _give_back(self) -> None:
        while self._dead_sessions:
            dead = self._dead_sessions[0]
            try:
                for owner in dead.owners:
                    self._tell(self._backend.reap(owner=owner, started=dead.started, cause=dead.cause))
            except BaseException:
                self._dead_sessions.rotate(-1)  # the next try begins with the next process
                raise
            self._dead_sessions.popleft()
            self._gave_back()

    def _renew(self) -> None:
        self._next_renewal = boottime() + self._interval
        asked = boottime()
        # The store is asked even if there is no session to renew: without an answer there was no contact.
        # Where only a process itself can renew what it claimed, the process does.
        ours = self._processes.sessions() if self._backend.capabilities.remote_extend else ()
        send = self._backend.extend if self._samples is None else self._samples.extend  # with the first of this round
        for number, owner in ours or [(-1, _NO_SESSION)]:
            asked = boottime()
            renewal = send(owner)
            send = self._backend.extend
            self._renewed(
                number,
                Renewed(
                    owner=owner,
                    asked=asked,
                    alive=renewal.alive,
                    cancel_requested=renewal.cancel_requested,
                    sampler=renewal.sampler,
                ),
            )
        self._contact.answered(asked)

    def _reap(self) -> None:
        self._tell(self._backend.reap())

    def _prune(self) -> Iterator[object]:
        if not isinstance(self._backend, Inspection):
            return iter(())  # this store has no finished jobs to prune
        clock = getattr(self._backend, "clock", None) or SystemClock()
        return prune(self._backend, cutoffs(self._settings.retention, clock.micros()))

    def _tell(self, reaped: Sequence[Reaped]) -> None:
        if reaped:
            self._rescued(reaped)

    def _failed(self, error: BackendError | OSError) -> None:
        self._contact.failed()
        self._failures += 1
        self._next_renewal = 0.0  # renew first when the store is back
        self._outage.failed(error)

    def _wait(self) -> None:
        with self._changed:
            if self._failures:
                longest = doubling(_FIRST_PAUSE, self._failures, min(_LONGEST_PAUSE, self._interval))
                self._changed.wait_for(lambda: self._ended, jittered(longest))
            else:
                pause = max(0.0, self._next_renewal - boottime())
                self._changed.wait_for(lambda: self._ended or bool(self._dead_sessions), pause)


def _warn_of_unserved(backend: Backend, served: Sequence[str]) -> None:
    if not isinstance(backend, Counting):
        return
    try:
        unserved = [queue.name for queue in backend.queues() if queue.live and not serves(served, queue.name)]
    except BackendError:
        return
    if unserved:
        logger.warning("these queues hold jobs that this worker does not serve: %s", ", ".join(unserved))
