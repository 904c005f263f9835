"""Notes of a broker with a companion store: the store keeps them, and the broker gets a message about a job that was woken.

The store is written first.  A process that dies before the message is put leaves a due job without one, which the sweep
finds.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Audit, Lease, Note, Notes, Signalled
from onward.backends.companion.putting import Putter
from onward.base.interruption import uninterrupted
from onward.contract.companion import CompanionStore
from onward.errors import Unsupported

__all__ = ["CompanionNotes"]


class CompanionNotes:
    """The `Notes` half of the backend."""

    store: CompanionStore
    _putter: Putter

    def note(self, lease: Lease, name: str, value: bytes) -> bool:
        return self._noting.note(lease, name, value)

    def notes(self, job_id: str) -> Sequence[Note]:
        return self._noting.notes(job_id)

    def signal(
        self,
        job_id: str,
        name: str,
        value: bytes,
        *,
        again: bool = False,
        at_most: tuple[int, int] = (1000, 4 << 20),
        audit: Audit = (),
    ) -> Signalled:
        """Signal in the store.  The job's message is for later, so one that was woken gets another."""
        with uninterrupted():
            answer = self._noting.signal(job_id, name, value, again=again, at_most=at_most, audit=audit)
            if answer.woken:
                self._putter.put_waiting([job_id])
            return answer

    @property
    def _noting(self) -> Notes:
        if not isinstance(self.store, Notes):
            raise Unsupported(f"the store beside the broker, {type(self.store).__name__}, keeps no notes: use another")
        return self.store
