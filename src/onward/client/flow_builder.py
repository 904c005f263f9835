"""Building a flow: nodes, what they come after, and their jobs.  Nothing is stored before it is enqueued, in one write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, get_args, overload

import msgspec

from onward.base.lazy import asyncio
from onward.base.names import suggestion
from onward.client.bound_job import Job
from onward.client.calls import Call
from onward.client.flow_handle import FlowHandle
from onward.client.flow_source import FlowNode, FlowSource, checked_flag, checked_name
from onward.client.letters import LetterWriter
from onward.errors import FlowError
from onward.flow.graph import in_order
from onward.job.definition import EnqueueOptions, JobDefinition
from onward.job.envelope import Envelope
from onward.job.membership import FlowPlan, NodePlan, When

__all__ = ["FlowBuilder", "MemberCall", "with_plan"]

T = TypeVar("T")

After = FlowNode[Any] | str | Iterable[FlowNode[Any] | str] | None

MOST_NODES = 10_000
MOST_JOBS = 100_000  # in one write
_WHENS = get_args(When)


class MemberCall(NamedTuple):
    """One job of a flow, as it was added."""

    node: str
    definition: JobDefinition
    options: EnqueueOptions
    payload: bytes


class FlowBuilder:
    """A flow that is being built: ``jobs.flow("publish")``."""

    def __init__(self, name: str, source: FlowSource, *, stop_on_failure: bool = False) -> None:
        source.store  # noqa: B018  raises where flows are not kept, before anything is built
        self.name = checked_name(name, "name of a flow")
        self.id = source.client.letters.new_id()
        self._source = source
        self._stop_on_failure = checked_flag(stop_on_failure, "stop_on_failure")
        self._nodes: dict[str, NodePlan] = {}
        self._jobs: dict[str, Job[..., Any, Any, Any]] = {}  # by node
        self._envelopes: list[Envelope] = []
        self._numbers: Counter[str] = Counter()  # the last one behind a job's name
        self._tried = self._stored = False

    @overload
    def add(
        self,
        job: Job[..., Any, Any, T],
        /,
        *args: Any,
        after: After = None,
        when: When = "succeeded",
        node: str | None = None,
    ) -> FlowNode[T]: ...
    @overload
    def add(
        self, job: Any, /, *args: Any, after: After = None, when: When = "succeeded", node: str | None = None
    ) -> FlowNode[Any]: ...
    def add(
        self,
        job: Any,
        /,
        *args: Any,
        after: After = None,
        when: When = "succeeded",
        node: str | None = None,
        **keywords: Any,
    ) -> FlowNode[Any]:
        """Add a node of one job: ``flow.add(fetch, url)``, or ``flow.add(fetch.call(url, again=True), after=page)``.

        ``when`` it runs: all ``after`` have ``succeeded``, one has ``failed``, or they have ``finished``, either way.
        """
        found, call = self._source.call(job, args, keywords)
        return self._add(found, [call], self._planned(found.name, node, after, when))

    @overload
    def map(
        self,
        job: Job[..., Any, Any, T],
        calls: Iterable[Sequence[Any] | Call],
        /,
        *,
        after: After = None,
        when: When = "succeeded",
        node: str | None = None,
    ) -> FlowNode[T]: ...
    @overload
    def map(
        self,
        job: Any,
        calls: Iterable[Sequence[Any] | Call],
        /,
        *,
        after: After = None,
        when: When = "succeeded",
        node: str | None = None,
    ) -> FlowNode[Any]: ...
    def map(
        self,
        job: Any,
        calls: Iterable[Sequence[Any] | Call],
        /,
        *,
        after: After = None,
        when: When = "succeeded",
        node: str | None = None,
    ) -> FlowNode[Any]:
        """Add a node of many jobs: tuples of arguments, or ``job.call(...)``.  Of none, it is over as soon as it opens."""
        found = self._source.own(job)
        return self._add(found, calls, self._planned(found.name, node, after, when))

    def node(self, name: str, *, after: After = None, when: When = "succeeded") -> FlowNode[Any]:
        """Add a node without jobs: running jobs before it add them, with ``ctx.flow``."""
        plan = self._planned("", checked_name(name, "name of a node"), after, when)
        self._nodes[plan.name] = plan
        return FlowNode(plan.name, self)

    def enqueue(self) -> FlowHandle:
        """Store the flow with all of its jobs in one write, all or nothing.  Returns when it is durable."""
        sealed, client, was_tried = self.sealed(), self._source.client, self._tried
        self._tried = True
        if was_tried:
            client.enqueue_by(self._source.enqueue_again, sealed)
        else:
            client.enqueue(sealed)
        self._stored = True
        return self.handle

    async def aenqueue(self) -> FlowHandle:
        """Store the flow without blocking the event loop."""
        return await asyncio.to_thread(self.enqueue)

    @property
    def handle(self) -> FlowHandle:
        """The handle of the flow, which finds it once it is stored."""
        return FlowHandle(self.id, self._source)

    def sealed(self) -> list[Envelope]:
        """Return the sealed jobs, the first with the plan; raise if this is no flow.  For `tx.enqueue_flow`."""
        self._check_it_is_not_stored()
        return with_plan(self._envelopes, self._plan())

    def calls(self) -> tuple[FlowPlan, list[MemberCall]]:
        """Return the plan and the jobs as they were added; raise if this is no flow.  For a schedule."""
        letters = self._source.client.letters
        plan = self._plan()
        calls = []
        for envelope in self._envelopes:
            job = self._jobs[envelope.node or ""]
            calls.append(MemberCall(envelope.node or "", job.definition, job.options, letters.payload_of(envelope)))
        return plan, calls

    def is_written_by(self, letters: LetterWriter) -> bool:
        """Return whether this is a flow of the application that has this writer of letters."""
        return self._source.client.letters is letters

    def _plan(self) -> FlowPlan:
        if not self._envelopes:
            raise FlowError(f"flow {self.name} has no jobs: add one, with flow.add(...) or flow.map(...)")
        nodes = in_order(list(self._nodes.values()))
        return FlowPlan(name=self.name, nodes=nodes, stop_on_failure=self._stop_on_failure)

    def _add(self, job: Job[..., Any, Any, T], calls: Iterable[Sequence[Any] | Call], plan: NodePlan) -> FlowNode[T]:
        sealed = job.members(calls, flow=self.id, node=plan.name)
        if len(self._envelopes) + len(sealed) > MOST_JOBS:
            raise FlowError(
                f"a flow is stored in one write, of at most {MOST_JOBS:,} jobs: use jobs.batch(...) for more"
            )
        self._nodes[plan.name] = plan
        self._jobs[plan.name] = job
        self._envelopes += sealed
        return FlowNode(plan.name, self, job)

    def _check_it_is_not_stored(self) -> None:
        if self._stored:
            raise FlowError(f"flow {self.name} was enqueued already: build another one with jobs.flow(...)")

    def _planned(self, job: str, node: str | None, after: After, when: When) -> NodePlan:
        self._check_it_is_not_stored()
        if when not in _WHENS:
            raise FlowError(f"when is {when!r:.40}{suggestion(str(when), _WHENS)}")
        if len(self._nodes) >= MOST_NODES:
            raise FlowError(
                f"a flow has at most {MOST_NODES:,} nodes: put jobs that come after the same into one, by map"
            )
        before = self._names(after)
        if not before and when != "succeeded":
            raise FlowError(f"when={when!r} says what must become of other nodes: name them, after=…")
        if node is None:
            return NodePlan(name=self._unused(job), after=before, when=when)
        name = checked_name(node, "name of a node")
        if name in self._nodes:
            raise FlowError(f"flow {self.name} has a node {name!r} already: give this one another name, node=…")
        return NodePlan(name=name, after=before, when=when)

    def _names(self, after: After) -> tuple[str, ...]:
        given = [after] if isinstance(after, str | FlowNode) else [] if after is None else after
        if not isinstance(given, Iterable):
            raise FlowError(f"after takes nodes of this flow, as flow.add(...) returns them, not {after!r:.60}")
        return tuple(dict.fromkeys(self._name(each) for each in given))

    def _name(self, node: FlowNode[Any] | str) -> str:
        if isinstance(node, FlowNode):
            if node.owner is not self:
                raise FlowError(f"node {node.name!r} belongs to another flow")
            return node.name
        return checked_name(node, "name of a node")

    def _unused(self, job: str) -> str:
        """Return the job's name, with a number if another node has it."""
        name = job
        while name in self._nodes:
            self._numbers[job] = max(2, self._numbers[job] + 1)
            name = f"{job}-{self._numbers[job]}"
        return checked_name(name, "name of a node")

    def __repr__(self) -> str:
        return f"<FlowBuilder {self.name} of {len(self._nodes)} nodes>"


def with_plan(envelopes: Sequence[Envelope], plan: FlowPlan) -> list[Envelope]:
    """Return envelopes of which the first carries the plan of its flow."""
    first, *others = envelopes
    return [msgspec.structs.replace(first, plan=plan), *others]
