"""Batches: a flow of one node that is filled while it runs, and of up to three jobs that come after it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Never, Self

from onward.backend import Enqueued
from onward.base.failure import kind_of, storable
from onward.base.lazy import asyncio
from onward.base.logs import get_logger
from onward.client.calls import Call, each_of
from onward.client.flow_builder import with_plan
from onward.client.flow_handle import FlowHandle
from onward.client.flow_source import FlowSource, checked_flag, checked_name
from onward.errors import ArgumentError, BackendError, FlowError
from onward.job.envelope import Envelope
from onward.job.membership import FlowPlan, NodePlan, When

__all__ = ["MEMBERS", "Batch"]

logger = get_logger("onward")

MEMBERS = "members"
CHUNK = 1_000
_WHENS: Mapping[str, When] = {"on_success": "succeeded", "on_failure": "failed", "on_finish": "finished"}


class Batch:
    """Jobs with something to do when all of them are over: ``with jobs.batch("import", on_success=…) as batch:``.

    Jobs are stored in chunks of 1,000 as they are added, and run at once.  The batch is over when the block has ended and
    all of them are.  If the block raises, the batch is cancelled.  On an event loop: ``async with``, `aadd` and `aadd_many`.
    """

    def __init__(
        self, name: str, source: FlowSource, *, callbacks: Mapping[str, Call | None], stop_on_failure: bool = False
    ) -> None:
        source.store  # noqa: B018  raises where flows are not kept
        self.name = checked_name(name, "name of a batch")
        self.id = source.client.letters.new_id()
        self._source = source
        self._stop_on_failure = checked_flag(stop_on_failure, "stop_on_failure")
        self._calls = {node: call for node, call in callbacks.items() if call is not None}
        for node, call in self._calls.items():
            if not isinstance(call, Call):
                raise ArgumentError(f"{node} takes a call: {node}=done.call(...), not {call!r:.60}")
        self._callbacks = [
            envelope
            for node, call in self._calls.items()
            for envelope in source.own(call.job).members([call], flow=self.id, node=node)
        ]
        self._waiting: list[Envelope] = []
        self._state = "new"  # then "filled" inside the block, and "closed"
        self._is_stored = False
        self._failure: BaseException | None = None  # of a write: what it wrote is not known
        self._storing = threading.Lock()  # a task that is cancelled leaves the thread that stores its chunk behind

    def add(self, job: Any, /, *args: Any, **keywords: Never) -> None:
        """Add a call of a job: ``batch.add(load, 7)``, or ``batch.add(load.call(row=7))``."""
        found, call = self._source.call(job, args, keywords)
        if self._accept(found.members([call], flow=self.id, node=MEMBERS)):
            self._store_chunks()

    async def aadd(self, job: Any, /, *args: Any, **keywords: Never) -> None:
        """Add a call of a job without blocking the event loop."""
        found, call = self._source.call(job, args, keywords)
        if self._accept(found.members([call], flow=self.id, node=MEMBERS)):
            await asyncio.to_thread(self._store_chunks)

    def add_many(self, job: Any, calls: Iterable[Sequence[Any] | Call], /) -> None:
        """Add many calls of a job: tuples of arguments, or ``job.call(...)``.  Takes a generator of any length."""
        for chunk in self._sealed(job, calls):
            if self._accept(chunk):
                self._store_chunks()

    async def aadd_many(self, job: Any, calls: Iterable[Sequence[Any] | Call], /) -> None:
        """Add many calls of a job without blocking the event loop."""
        for chunk in self._sealed(job, calls):
            if self._accept(chunk):
                await asyncio.to_thread(self._store_chunks)

    @property
    def handle(self) -> FlowHandle:
        """The handle of the batch, which finds it once a chunk is stored."""
        return FlowHandle(self.id, self._source)

    def _sealed(self, job: Any, calls: Iterable[Sequence[Any] | Call]) -> Iterator[list[Envelope]]:
        found, ahead = self._source.own(job), each_of(calls)
        while chunk := list(islice(ahead, CHUNK)):
            yield found.members(chunk, flow=self.id, node=MEMBERS)

    def _accept(self, envelopes: list[Envelope]) -> bool:
        """Keep jobs until there is a chunk of them; return whether there is."""
        if self._failure is not None:
            raise self._incomplete()
        if self._state != "filled":
            raise FlowError(
                f"batch {self.name} is {'closed' if self._state == 'closed' else 'not open'}: add jobs inside its block, "
                f"`with jobs.batch(...) as batch:`"
            )
        self._waiting += envelopes
        return len(self._waiting) >= CHUNK

    def _store_chunks(self) -> None:
        with self._storing:
            while len(self._waiting) >= CHUNK:
                chunk, self._waiting = self._waiting[:CHUNK], self._waiting[CHUNK:]
                self._store(chunk, closed=False)

    def _store(self, envelopes: list[Envelope], *, closed: bool) -> None:
        try:
            if self._is_stored:
                self._source.client.enqueue_by(self._extend, envelopes)
            else:
                self._source.client.enqueue(self._planned(envelopes, closed=closed))
        except BaseException as error:
            self._failure = error
            raise
        self._is_stored = True

    def _planned(self, envelopes: list[Envelope], *, closed: bool) -> list[Envelope]:
        nodes = [NodePlan(name=MEMBERS)]
        nodes += [NodePlan(name=node, after=(MEMBERS,), when=_WHENS[node]) for node in self._calls]
        plan = FlowPlan(name=self.name, nodes=tuple(nodes), stop_on_failure=self._stop_on_failure, closed=closed)
        return with_plan([*envelopes, *self._callbacks], plan)

    def _extend(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
        answers = self._source.store.extend_flow(self.id, envelopes, retried=retried)
        if answers is None:
            raise FlowError(f"batch {self.name} was closed meanwhile: it was cancelled, or left open for 24 hours")
        return answers

    def _close(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
        self._source.store.close_flow(self.id)
        return []

    def __enter__(self) -> Self:
        if self._state != "new":
            raise FlowError(f"batch {self.name} was filled already: make another one with jobs.batch(...)")
        self._state = "filled"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._state = "closed"
        with self._storing:
            self._end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, traceback)  # the thread goes on if this task is cancelled

    def _end(self, error: BaseException | None) -> None:
        """Store the rest and close the batch; or cancel it, if its block raised or jobs of it could not be stored."""
        try:
            if error is None:
                self._store_rest()
        except BaseException as failure:
            self._cancel(failure)
            raise
        if error is not None:
            self._cancel(error)

    def _store_rest(self) -> None:
        if self._failure is not None:
            raise self._incomplete() from self._failure
        rest, self._waiting = self._waiting, []
        if not self._is_stored:
            if rest or self._callbacks:
                self._store(rest, closed=True)
            return
        if rest:
            self._store(rest, closed=False)
        self._source.client.enqueue_by(self._close, ())

    def _cancel(self, error: BaseException) -> None:
        if not self._is_stored and self._failure is None:
            return
        try:
            self._source.store.cancel_flow(self.id, storable(f"the block that filled it raised {kind_of(error)}"))
        except BackendError as failure:
            logger.warning("batch %s %s could not be cancelled: cancel it later: %s", self.name, self.id, failure)

    def _incomplete(self) -> FlowError:
        return FlowError(f"batch {self.name} is cancelled: jobs of it could not be stored: fill another one")

    def __repr__(self) -> str:
        return f"<Batch {self.name} {self.id}>"
