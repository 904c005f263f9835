"""A job that was enqueued, from the caller's side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from onward.backend import Enqueued, Inspection, StoredJob
from onward.client.record import JobRecord, Records
from onward.errors import (
    DecryptionFailed,
    JobCancelledError,
    JobDiscardedError,
    JobNotFound,
    NoWorker,
    ResultTimeout,
    ResultUnreadable,
)
from onward.job.states import State

__all__ = ["HandleSource", "JobHandle", "looks"]

T = TypeVar("T")

_FIRST_LOOK, _LONGEST_LOOK = 0.002, 0.1


def looks(timeout: float | None) -> Generator[float, None, None]:
    """Yield how long to pause after each look: short at first, and never past the deadline without a last look."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_LOOK
    while deadline is None or (left := deadline - time.monotonic()) > 0:
        yield pause if deadline is None else min(pause, left)
        pause = min(pause * 1.5, _LONGEST_LOOK)
    yield 0


class HandleSource:
    """What handles of one application share."""

    def __init__(
        self,
        backend: Inspection,
        *,
        records: Records,
        cancel: Callable[[str, str], State | None],
        hopeless: Callable[[], bool],
    ) -> None:
        self.backend = backend
        self.records = records
        self.cancel = cancel
        self.hopeless = hopeless  # returns whether no worker could ever finish a job that waits

    def handle(self, answer: Enqueued, *, returns: Any = Any) -> JobHandle[Any]:
        """Return the handle for an answer of the store: of the job that was created, or of the one that stands for it."""
        job_id = answer.id if answer.created else (answer.existing_id or answer.id)
        return JobHandle(job_id, self, created=answer.created, returns=returns)


class JobHandle(Generic[T]):
    """An enqueued job.

    ``created`` is False if another live job with its unique key stands for it: then ``id`` is that one's.
    """

    __slots__ = ("_returns", "_source", "created", "id")

    def __init__(self, job_id: str, source: HandleSource, *, created: bool = True, returns: Any = Any) -> None:
        self.id = job_id
        self.created = created
        self._source = source
        self._returns = returns

    def record(self) -> JobRecord:
        """Return everything known about the job now."""
        return self._read(self._source.backend.get(self.id))

    def _read(self, stored: StoredJob | None) -> JobRecord:
        if stored is None:
            raise JobNotFound(
                f"there is no job {self.id}: it was pruned, it is in another store, or the transaction that enqueued it "
                f"is not committed"
            )
        return self._source.records.record(stored, returns=self._returns)

    def state(self) -> State:
        return self.record().state

    def cancel(self, reason: str = "cancelled by request") -> State | None:
        """Cancel the job if it waits, ask it to stop if it runs.  None if it has ended already."""
        return self._source.cancel(self.id, reason)

    def result(self, timeout: float | None = None) -> T:
        """Wait for the job's end and return its result; raise if it was discarded or cancelled."""
        for pause in looks(timeout):
            ended = self.ended(self._source.backend.get(self.id))
            if ended is not None:
                return ended[0]
            time.sleep(pause)
        raise self._too_late(timeout)

    async def aresult(self, timeout: float | None = None) -> T:  # noqa: ASYNC109  the same words as `result`
        """Wait for the result without blocking the event loop."""
        for pause in looks(timeout):
            ended = self.ended(await asyncio.to_thread(self._source.backend.get, self.id))
            if ended is not None:
                return ended[0]
            await asyncio.sleep(pause)
        raise self._too_late(timeout)

    def ended(self, stored: StoredJob | None) -> tuple[T] | None:
        """Return the result of a stored job in a tuple; None while it has not ended; raise if it ended without one."""
        record = self._read(stored)
        if record.is_finished:
            return (self._verdict(record),)
        # An executing job is run by another thread, which will end it.
        if record.state is not State.EXECUTING and self._source.hopeless():
            raise NoWorker(
                f"job {self.id} waits in this process's memory and no worker runs here: call jobs.drain() first"
            )
        return None

    def _verdict(self, record: JobRecord) -> T:
        match record.state:
            case State.COMPLETED:
                if record.withholds_result:  # a caller would take the marker for what the handler returned
                    raise DecryptionFailed(
                        f"the result of job {self.id} is {record.result}: it can be read with that key, and with "
                        f"onward[crypto]"
                    )
                if record.result_error is not None:  # a caller would take None for what the handler returned
                    raise ResultUnreadable(
                        self.id, f"job {self.id} is completed, and its result cannot be read: {record.result_error}"
                    )
                result: T = record.result
                return result
            case State.CANCELLED:
                raise JobCancelledError(self.id, f"job {self.id} was cancelled: {record.reason}", reason=record.reason)
            case State.DISCARDED:
                last = record.errors[-1] if record.errors else None
                told = f"{last.kind}: {last.message}" if last else "no error was recorded"
                raise JobDiscardedError(
                    self.id,
                    f"job {self.id} ({record.name}) was discarded, {record.reason}; last error: {told}",
                    kind=last.kind if last else None,
                    reason=record.reason,
                )
            case _:
                raise ResultUnreadable(self.id, f"job {self.id} has ended, but its row is damaged: {record.damage}")

    def _too_late(self, timeout: float | None) -> ResultTimeout:
        return ResultTimeout(f"job {self.id} did not finish within {timeout:g} s; it goes on: ask again, or cancel it")

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}>"
