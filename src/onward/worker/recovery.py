"""What the pump does when the store does not answer, or says that the session is gone.

**Recovering.**  A turn without an answer may have happened.  The pump opens a *successor* session that adopts the old one:
in one transaction the old session is deleted and its leases change owner.  A late copy of the lost turn either came first,
and is seen, or finds its session gone and does nothing.  A lease that the successor holds and this worker does not know is
accepted.  A lease that this worker knows and the successor does not hold is lost, unless it is in the outbox: that is
settled again under the new name.  Until the store answers, no waiting job is begun.

**A dead session** (the store says so in a turn or a renewal: it was reaped, or this is another store): waiting jobs are
dropped, running handlers are told that their lease is lost, and a session is opened under a new name.

**A handover** is the session of a process that was killed because jobs ignored their time-out.  The pump adopts it and
settles those jobs as failed; the other jobs that had begun there go back as interrupted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from onward.attempt.attempt import Attempt, Ready, Runtime, conclude
from onward.attempt.prepare import prepare
from onward.backend import Held, Lease
from onward.base.ids import random_owner
from onward.base.logs import get_logger
from onward.base.outage import Outage
from onward.errors import BackendError, JobTimeout
from onward.job.outcome import Released
from onward.worker.breaker import StoreBreaker
from onward.worker.events import WorkerEvents
from onward.worker.inflight import Inflight, Work
from onward.worker.outbox import Outbox, key_of
from onward.worker.run_recorder import RunRecorder
from onward.worker.session import SessionKeeper

__all__ = ["Recovery", "SessionHandover"]

logger = get_logger("onward.worker")

_BEAT_EVERY = 1.0


class SessionHandover(NamedTuple):
    """The session of a process that was killed, which of its jobs had failed, and which were only interrupted (None)."""

    owner: str
    verdicts: dict[Held, JobTimeout | None]
    adopted: Callable[[], None]


class Recovery:
    """Opens, adopts and replaces the session of one pump, in the pump's thread."""

    def __init__(
        self,
        session: SessionKeeper,
        inflight: Inflight,
        outbox: Outbox,
        events: WorkerEvents,
        *,
        runtime: Runtime,
        breaker: StoreBreaker,
        recorder: RunRecorder | None,
        accept: Callable[[Sequence[Lease]], None],
    ) -> None:
        self._session = session
        self._inflight = inflight
        self._outbox = outbox
        self._events = events
        self._runtime = runtime
        self.breaker = breaker
        self._recorder = recorder
        self._accept = accept
        self.outage = Outage(logger)
        self.handovers: deque[SessionHandover] = deque()  # to which any thread appends
        self.verdicts: dict[Held, JobTimeout | None] = {}  # of the leases that a handover brings
        self.failing = False  # whether the last call of the pump was not answered
        self.recovering = False
        self._stop_waiting = threading.Event()
        self._quit = False

    def drain(self) -> None:
        """Try the store again at once.  From any thread."""
        self._stop_waiting.set()

    def quit(self) -> None:
        """Give up what is being tried.  From any thread."""
        self._quit = True
        self._stop_waiting.set()

    def answered(self) -> None:
        """Note that the store answers again."""
        self.failing = False
        self.breaker.success()
        self.outage.over()

    def wait_out(self, error: BackendError) -> None:
        """Wait before the next try: longer after each failure in a row."""
        self.failing = True
        pause = self.breaker.failure(error)
        self.outage.failed(error)
        self._events.milestones.note("unanswered")
        deadline = time.monotonic() + pause
        while (left := deadline - time.monotonic()) > 0:
            if self._recorder is not None:
                self._recorder.beat()  # a pump that waits is alive
            if self._stop_waiting.wait(min(left, _BEAT_EVERY)):
                break
        self._stop_waiting.clear()

    def recover(self, error: BackendError) -> None:
        """Open a successor that adopts this session, however long that takes.

        Its name is chosen once: opening it again is harmless, so an answer that is lost here too costs nothing.
        """
        self._session.out_of_contact()
        self.recovering = True
        successor, old = random_owner(), self._session.owner

        def compare(held: Sequence[Lease]) -> None:
            self._outbox.adopted(successor, held)
            self._compare(held)

        while not self._quit:
            self.wait_out(error)
            try:
                adopted = self._session.open(successor, adopts=old, compare=compare)
            except BackendError as again:
                error = again
            else:
                if adopted:
                    self._events.milestones.note("adopted")
                else:
                    self._session.declare_dead()
                break
        self.recovering = False

    def take_over(self) -> None:
        """Adopt the session of a killed process.  If the answer is lost, its leases are judged when they are found."""
        handover, owner = self.handovers[0], self._session.owner
        self.verdicts |= handover.verdicts
        try:
            alive = self._session.open(owner, adopts=handover.owner, compare=self._compare)
        except BackendError as error:
            self.recover(error)
            return
        if not alive:
            self._session.declare_dead()
        self.handovers.popleft()
        handover.adopted()
        self._events.milestones.note("taken over")

    def fate_of_inherited(self, lease: Lease) -> Ready | Attempt:
        """Decide what becomes of a lease whose process was killed while it ran."""
        overdue = self.verdicts.pop(key_of(lease))
        ready = prepare(lease, self._runtime)
        if isinstance(ready, Attempt):
            return ready
        if overdue is None:
            return Attempt(lease=lease, letter=ready.letter, outcome=Released())
        return conclude(ready, self._runtime, None, overdue, 0)

    def replace_session(self) -> None:
        """Open a new session after the store has said that this one is gone."""
        everything = self._inflight.everything()
        logger.warning(
            "the session is gone: it was reaped, or this is another store; number of jobs here that lost their lease: %d",
            len(everything),
        )
        for work in everything:
            self._drop_lost(work)
        while not self._quit:
            try:
                self._session.open(random_owner())
            except BackendError as error:
                self._session.out_of_contact()
                self.wait_out(error)
            else:
                self._events.milestones.note("reopened")
                return

    def _compare(self, held: Sequence[Lease]) -> None:
        """Compare what the session holds with what this worker knows: drop what is lost, accept what is new."""
        mine = {key_of(lease): lease for lease in held}
        ended = self._outbox.unanswered_keys()
        for work in self._inflight.everything():
            if work.key not in mine and work.key not in ended:
                self._drop_lost(work)
        self._accept([lease for key, lease in mine.items() if key not in self._inflight.unsettled])

    def _drop_lost(self, work: Work) -> None:
        if self._inflight.drop(work):  # else it runs, and is known until its settlement is answered
            self._inflight.unsettled.pop(work.key, None)
        self._events.on_lease_lost(work)
