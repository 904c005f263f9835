"""What an application can do to one job: the half of its API that steers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from onward.client.record import NoteRecord
from onward.job.states import State
from onward.operate.inspector import BY_REQUEST, Inspector
from onward.operate.signalling import Signaller
from onward.operate.why.explaining import Explainer
from onward.operate.why.reason import Reason

__all__ = ["SteersJobs"]


class SteersJobs:
    """Explains, cancels, retries and signals one job."""

    _inspector: Inspector
    _signaller: Signaller
    _explainer: Explainer

    def why(self, job_id: str) -> Reason:
        """Return why a job is where it is: the one reason that binds, what to type, and when it passes by itself."""
        return self._explainer.why(job_id)

    async def awhy(self, job_id: str) -> Reason:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.why, job_id)

    def cancel(self, job_id: str, reason: str = BY_REQUEST) -> State | None:
        """Cancel a waiting job, ask a running one to stop.  None if there was nothing to cancel."""
        return self._inspector.cancel(job_id, reason)

    def retry(self, job_id: str) -> bool:
        """Run a waiting job now, or put a discarded or cancelled one back in its queue."""
        return self._inspector.retry(job_id)

    def signal(self, job_id: str, name: str, value: Any = None, *, again: bool = False) -> bool:
        """Tell a job what it waits for with ``ctx.wait_for(name)``, or will: the first value stays, unless ``again``.

        False if it was told nothing: it is over, or had been told before.  For no job at all it raises `JobNotFound`.
        """
        return self._signaller.signal(job_id, name, value, again=again)

    async def asignal(self, job_id: str, name: str, value: Any = None, *, again: bool = False) -> bool:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.signal, job_id, name, value, again=again)

    def notes(self, job_id: str) -> Sequence[NoteRecord]:
        """Return what a job has noted, in the order of time: its steps, sleeps and waits, and the signals that came."""
        return self._signaller.notes(job_id)
