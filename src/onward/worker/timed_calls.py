"""Calling sync handlers in the caller's own thread (`process_once`, `drain`, ``sync://``), with their time-outs."""

from __future__ import annotations

from onward.attempt.attempt import Attempt, Ready, Runtime, run
from onward.backend import Held
from onward.base import forks
from onward.base.logs import get_logger
from onward.worker.inflight import Work
from onward.worker.interrupt import Deadlines, InterruptSlot

__all__ = ["TimedCalls"]

logger = get_logger("onward")


class TimedCalls:
    """Calls sync handlers, and interrupts them at their time-outs in the thread of the caller.

    If the caller is itself a handler, it cannot be interrupted until this call has ended.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running: dict[Held, Work] = {}
        self._deadlines = Deadlines(self._running, died=_no_more_time_outs)
        forks.watch(self)

    def before_fork(self) -> None:
        """Do nothing: what other threads run stays with the parent."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._running.clear()

    def run(self, ready: Ready) -> Attempt:
        """Call a sync handler."""
        if ready.terms.timeout is None or not ready.entry.definition.interrupt:
            return run(ready, self._runtime)
        key = (ready.lease.envelope.id, ready.lease.token)
        slot = InterruptSlot(self._deadlines)
        try:
            self._running[key] = slot.work = Work(ready, key, order=0, claimed=0.0)
            return run(ready, self._runtime, slot)
        finally:
            slot.remove()
            self._running.pop(key, None)

    def close(self) -> None:
        self._deadlines.close()


def _no_more_time_outs(error: BaseException) -> None:
    logger.critical("the thread that interrupts handlers at their time-outs died: %s", error, exc_info=error)
