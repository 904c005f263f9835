"""The flow of a running job, from the side of its handler: adding jobs, reading results."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Never

from onward.backend import Enqueued, FlowRow
from onward.base.ids import MOST_CHILDREN, child_id
from onward.base.lazy import asyncio
from onward.base.names import key as checked_key
from onward.client.bound_job import Job, JobHandle
from onward.client.calls import Call, each_of
from onward.client.flow_source import FlowSource, checked_name
from onward.errors import FlowError
from onward.flow.graph import before, behind
from onward.job.envelope import Envelope

__all__ = ["AsyncRunFlow", "RunFlow"]

Grow = Callable[[Sequence[Envelope]], list[Enqueued]]

_CHUNK = 1_000
_PAGE = 500


class RunFlow:
    """The flow of one run."""

    def __init__(self, source: FlowSource, job_id: str, flow: str, node: str, grow: Grow) -> None:
        self.id = flow
        self.node = node
        self._source = source
        self._job_id = job_id
        self._grow = grow
        self._row: FlowRow | None = None
        self._places: Counter[str] = Counter()

    def add(
        self, job: Any, /, *args: Any, node: str | None = None, key: str | None = None, **keywords: Never
    ) -> JobHandle[Any]:
        """Add a call of a job to a node."""
        found, call = self._source.call(job, args, keywords)
        name = self._target(node)
        place = self._next(name) if key is None else checked_key(key, "key")
        sealed, answers = self._store(found, [call], name, [child_id(self._job_id, self.id, name, place)])
        return found.handle(answers[0], sealed[0])

    def map(self, job: Any, calls: Iterable[Sequence[Any] | Call], /, *, node: str | None = None) -> int:
        """Add many calls of a job to a node; return how many."""
        found, name, ahead, added = self._source.own(job), self._target(node), each_of(calls), 0
        while chunk := list(islice(ahead, _CHUNK)):
            self._store(found, chunk, name, [child_id(self._job_id, self.id, name, self._next(name)) for _ in chunk])
            added += len(chunk)
        return added

    def result_of(self, node: Any) -> Any:
        """Return the result of a node of one job that comes before this one."""
        row = self._fresh()
        return self._source.result_of(row, node, before(row.nodes, self.node))

    def results_of(self, node: Any) -> Iterator[Any]:
        """Yield the results of a node that comes before this one."""
        row = self._fresh()
        return self._source.results_of(row, node, before(row.nodes, self.node))

    def _store(
        self, job: Job[..., Any, Any, Any], calls: Sequence[Any], node: str, ids: Sequence[str]
    ) -> tuple[list[Envelope], list[Enqueued]]:
        sealed = job.members(calls, ids, flow=self.id, node=node)
        answers = self._grow(sealed)
        # What an earlier run of this job has added was counted and told then.
        self._source.client.booked([each for each, answer in zip(sealed, answers, strict=True) if answer.created])
        return sealed, answers

    def _target(self, node: str | None) -> str:
        """Return a node to which this job may add: its own, or one behind it."""
        name = self.node if node is None else checked_name(getattr(node, "name", node), "name of a node")
        nodes = self._known().nodes
        if name == self.node or name in behind(nodes, {self.node}):
            return name
        if name in {each.name for each in nodes}:
            raise FlowError(
                f"node {name!r} does not come after node {self.node!r}, so it may be over: add to one that does"
            )
        raise FlowError(f"there is no node {name!r:.80} in this flow: make one with flow.node({name!r:.80}, after=…)")

    def _next(self, node: str) -> int:
        place = self._places[node]
        if place >= MOST_CHILDREN:
            raise FlowError(f"a job adds at most {MOST_CHILDREN:,} jobs to a node")
        self._places[node] += 1
        return place

    def _known(self) -> FlowRow:
        if self._row is None:
            self._row = self._fresh()
        return self._row

    def _fresh(self) -> FlowRow:
        return self._source.row(self.id)


class AsyncRunFlow:
    """The flow of one run of an async handler."""

    def __init__(self, run: RunFlow) -> None:
        self.id = run.id
        self.node = run.node
        self._run = run

    async def add(
        self, job: Any, /, *args: Any, node: str | None = None, key: str | None = None, **keywords: Never
    ) -> JobHandle[Any]:
        """Add a call of a job to a node without blocking the event loop."""
        return await asyncio.to_thread(self._run.add, job, *args, node=node, key=key, **keywords)

    async def map(self, job: Any, calls: Iterable[Sequence[Any] | Call], /, *, node: str | None = None) -> int:
        """Add many calls of a job to a node without blocking the event loop."""
        return await asyncio.to_thread(self._run.map, job, calls, node=node)

    async def result_of(self, node: Any) -> Any:
        """Return the result of a node of one job that comes before this one."""
        return await asyncio.to_thread(self._run.result_of, node)

    async def results_of(self, node: Any) -> AsyncIterator[Any]:
        """Yield the results of a node that comes before this one."""
        results = await asyncio.to_thread(self._run.results_of, node)
        while page := await asyncio.to_thread(lambda: list(islice(results, _PAGE))):
            for result in page:
                yield result
