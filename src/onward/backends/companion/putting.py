"""Putting messages about stored jobs into the broker.

If the broker cannot be reached, the verb succeeds all the same: the next sweep puts a message about every job that lacks
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from onward.backend import AWAITS_NODE, Backend, StoredJob
from onward.backends.companion.messages import REFUSALS, another, envelope_of, job_id_of, message, until
from onward.base.clock import Clock
from onward.base.logs import get_logger
from onward.contract.companion import CompanionStore
from onward.errors import BackendError, OnwardError
from onward.job.envelope import Envelope, Sealed
from onward.job.states import WAITING

__all__ = ["Putter", "quietly"]

logger = get_logger("onward.companion")

_PAGE = 500


class Putter:
    """Writes messages about stored jobs, and puts them into the broker."""

    def __init__(self, broker: Backend, store: CompanionStore, clock: Clock) -> None:
        self._broker = broker
        self._store = store
        self._clock = clock

    def put(self, messages: Sequence[Envelope]) -> bool:
        """Put messages into the broker.  False if it could not be reached."""
        if not messages:
            return True
        try:
            self._broker.enqueue(messages)
        except REFUSALS as error:
            if len(messages) > 1:
                return all(self.put([each]) for each in messages)
            self._cancel_refused(messages[0], error)
        except BackendError as error:
            logger.warning("jobs wait for a message until the broker can be reached (%d): %s", len(messages), error)
            return False
        return True

    def put_waiting(self, ids: Iterable[str]) -> bool:
        """Put messages about jobs that were made due, or given back.  False if the broker could not be reached."""
        return self.put(self.about_waiting(ids))

    def put_missing(self, jobs: Sequence[StoredJob]) -> bool:
        """Put messages about jobs that have none.  False if the broker could not be reached."""
        return self.put([self._about_stored(job) for job in jobs])

    def about_waiting(self, ids: Iterable[str]) -> list[Envelope]:
        """Write a message about each of these jobs that waits; about one whose node waits, none."""
        jobs = self.read(list(ids))
        return [self._about_stored(job) for job in jobs if job.state in WAITING and job.awaits != AWAITS_NODE]

    def read(self, ids: Sequence[str]) -> list[StoredJob]:
        """Read these jobs from the store; none if it does not answer."""
        found: list[StoredJob] = []
        quietly(lambda: found.extend(self.stored(ids)))
        return found

    def stored(self, ids: Sequence[str]) -> list[StoredJob]:
        """Read these jobs from the store, in this order; those that are not there are left out."""
        found: list[StoredJob] = []
        for at in range(0, len(ids), _PAGE):
            page = ids[at : at + _PAGE]
            known = {job.id: job for job in self._store.get_many(page)}
            found += [known[job_id] for job_id in page if job_id in known]
        return found

    def about(self, job: Sealed, delay: float) -> Envelope:
        """Write another message about a job, for ``delay`` seconds from now."""
        return another(message(envelope_of(job, now=self._clock.micros()), delay=max(0.0, delay)))

    def _about_stored(self, stored: StoredJob) -> Envelope:
        return self.about(Sealed(stored.id, stored.queue, stored.data), until(stored, self._clock.micros()))

    def _cancel_refused(self, envelope: Envelope, error: OnwardError) -> None:
        """Cancel a job that the broker will never hand out.  It stays in the store, with the reason."""
        job_id = job_id_of(envelope.id)
        logger.error("job %s is cancelled, because the broker refuses it: %s", job_id, error)
        quietly(lambda: self._store.cancel([job_id], f"the broker refuses the job: {error}"))


def quietly(act: Callable[[], object]) -> None:
    """Call a function, and ignore a `BackendError`: the message comes back, or the next sweep puts one."""
    try:
        act()
    except BackendError as error:
        logger.debug("left to the next process that gets the job: %s", error)
