"""What the machine does with flows, where the backend keeps any.

The flows are small, of up to four nodes, so that they end often; their jobs are in the queues of all others.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from onward.backend import Claim, Envelope, Lease, Query
from onward.job.membership import FlowPlan, NodePlan, When
from onward.job.states import State
from onward.testing.machine.asking import AskedModel
from onward.testing.machine.comparing import agree, jobs
from onward.testing.machine.drawing import QUEUES, Options, member_plans, numbers, owners, settlings

__all__ = ["FlowRules"]

Act = tuple[str, Options]  # a move and its options
NODES = "abcd"
MOST_FLOWS = 3  # of one story: each is compared after every command
NET = "should have gone on before"


class DrawnNode(NamedTuple):
    """A node: how many jobs it has, which of the nodes before it come before it, and when it opens."""

    jobs: int
    after: tuple[int, ...]
    when: When


class DrawnFlow(NamedTuple):
    """A flow before it is enqueued."""

    parts: list[DrawnNode]
    options: list[Options]  # of its jobs, by turns
    stops: bool
    closed: bool


_parts = st.lists(
    st.builds(
        DrawnNode,
        jobs=st.sampled_from((1, 1, 2, 0, 3)),
        after=st.lists(numbers, max_size=2).map(tuple),
        when=st.sampled_from(("succeeded", "succeeded", "failed", "finished")),
    ),
    min_size=1,
    max_size=len(NODES),
)
_options = st.lists(member_plans, min_size=1, max_size=3)
_flows = st.builds(
    DrawnFlow,
    parts=_parts,
    options=_options,
    stops=st.sampled_from((False, False, True)),
    closed=st.sampled_from((True, True, False)),
)
# A member succeeds twice as often as it fails.
_success: Act = ("ack", {})
_failure: Act = ("abandon", {})
_ends: st.SearchStrategy[Act] = st.one_of(st.just(_success), st.just(_success), st.just(_failure), settlings)


class _NetListener(logging.Handler):
    """Keeps what stores log when a sweep finds a flow that was overlooked."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if NET in record.getMessage():
            self.found.append(record.getMessage())


class FlowRules(RuleBasedStateMachine):
    """The commands of `KeepsFlows`, for `ContractMachine`."""

    backend: Any
    model: AskedModel
    ids: list[str]
    leases: list[Lease]

    def __init__(self) -> None:
        super().__init__()
        self.flow_ids: list[str] = []
        self.whole: dict[str, list[Envelope]] = {}  # what each flow was enqueued with
        self.members: dict[str, tuple[str, str]] = {}  # flow and node of every job that was ever added
        self._net = _NetListener()
        logging.getLogger("onward").addHandler(self._net)

    def stop_listening(self) -> None:
        logging.getLogger("onward").removeHandler(self._net)

    @abstractmethod
    def _both(self, verb: str, *args: Any, **options: Any) -> Any: ...

    @abstractmethod
    def _count(self, command: str, *outcomes: str) -> None: ...

    @abstractmethod
    def _envelope(self, plan: Options) -> Envelope: ...

    @abstractmethod
    def claim(self, owner: str, claim: Claim) -> None: ...

    @abstractmethod
    def reap(self) -> None: ...

    @abstractmethod
    def _exchange(self, acts: Sequence[tuple[Lease, Act]], claim: Claim | None, owner: str) -> None: ...

    @property
    def keeps_flows(self) -> bool:
        return bool(self.backend.capabilities.flows)

    # Enqueueing.

    @initialize(flow=st.none() | _flows)
    def begin_with_a_flow(self, flow: DrawnFlow | None) -> None:
        if flow is not None and self.keeps_flows:
            self.enqueue_flow(flow)

    @precondition(lambda self: self.keeps_flows and len(self.flow_ids) < MOST_FLOWS)
    @rule(flow=_flows)
    def enqueue_flow(self, flow: DrawnFlow) -> None:
        flow_id = f"f{len(self.flow_ids):031x}"
        self.flow_ids.append(flow_id)
        nodes = [
            NodePlan(
                name=NODES[at], after=tuple(sorted({NODES[each % at] for each in part.after if at})), when=part.when
            )
            for at, part in enumerate(flow.parts)
        ]
        places = [node.name for node, part in zip(nodes, flow.parts, strict=True) for _ in range(part.jobs)]
        envelopes = self._members(flow_id, places or [NODES[0]], flow.options)
        plan = FlowPlan(name="mine", nodes=tuple(nodes), stop_on_failure=flow.stops, closed=flow.closed)
        self.whole[flow_id] = envelopes = [replace(envelopes[0], plan=plan), *envelopes[1:]]
        self._both("enqueue", envelopes)
        self._count("enqueue_flow", *["member"] * len(envelopes))

    def _members(self, flow_id: str, places: Sequence[str], options: Sequence[Options]) -> list[Envelope]:
        made = []
        for at, node in enumerate(places):
            made.append(self._envelope({**options[at % len(options)], "flow": flow_id, "node": node}))
            self.members[made[-1].id] = flow_id, node
        return made

    @precondition(lambda self: self._repeatable())
    @rule(number=numbers)
    def enqueue_flow_again(self, number: int) -> None:
        """Repeat the enqueue of a flow whose answer was lost."""
        whole = self._repeatable()
        answers = self._both("enqueue", whole[number % len(whole)], retried=True)
        assert not any(answer.created for answer in answers)
        self._count("enqueue_flow again")

    def _repeatable(self) -> list[list[Envelope]]:
        known = {*self.model.live, *self.model.finished}
        return [whole for whole in self.whole.values() if known.issuperset(each.id for each in whole)]

    # Changing.

    @precondition(lambda self: self.flow_ids)
    @rule(number=numbers, places=st.lists(numbers, min_size=1, max_size=2), options=_options, retried=st.booleans())
    def extend_flow(self, number: int, places: list[int], options: list[Options], retried: bool) -> None:
        flow_id = self._flow_id(number, lambda flow: not flow.closed)
        nodes = self._nodes_of(flow_id)
        envelopes = self._members(flow_id, [nodes[place % len(nodes)] for place in places], options)
        found = self._both("extend_flow", flow_id, envelopes, retried=retried)
        self._count("extend_flow" if found is not None else "extend_flow of a closed one")

    @precondition(lambda self: self._member_leases())
    @rule(number=numbers, places=st.lists(numbers, min_size=1, max_size=2), options=_options, again=st.booleans())
    def grow(self, number: int, places: list[int], options: list[Options], again: bool) -> None:
        leases = self._member_leases()
        lease = leases[number % len(leases)]
        flow_id, own = self.members[lease.envelope.id]
        flow = self.model.flow_rows.get(flow_id)
        nodes = [own, *sorted(flow.behind([own]))] if flow is not None else [own]
        envelopes = self._members(flow_id, [nodes[place % len(nodes)] for place in places], options)
        for each in range(1, 2 + again):
            found = self.backend.grow(lease, envelopes)
            waiting = {envelope.id for envelope in envelopes if self._waits_in(self.backend.get(envelope.id))}
            agree("the answer to grow", found, self.model.grow(lease, envelopes, waiting=waiting))
            self._count("grow of a lost lease" if found is None else "grow again" if each > 1 else "grow")

    def _member_leases(self) -> list[Lease]:
        """Return leases of members: those that are valid first, the newest of them first."""
        found = [lease for lease in reversed(self.leases) if lease.envelope.id in self.members]
        return sorted(found, key=lambda lease: not self.model.holds_lease(lease, lease.owner))

    @staticmethod
    def _waits_in(stored: Any) -> bool:
        return stored is not None and stored.state is State.SCHEDULED and stored.awaits == ""

    @precondition(lambda self: any(not flow.closed for flow in self.model.flow_rows.values()))
    @rule(number=numbers)
    def close_flow(self, number: int) -> None:
        closed = self._both("close_flow", self._flow_id(number, lambda flow: not flow.closed))
        self._count("close_flow" if closed else "close_flow of a closed one")

    @precondition(lambda self: self.flow_ids)
    @rule(number=numbers, reason=st.sampled_from(("not wanted", "too late")), seldom=st.sampled_from((0, 0, 1)))
    def cancel_flow(self, number: int, reason: str, seldom: int) -> None:
        if seldom:
            cancelled = self._both("cancel_flow", self._flow_id(number, lambda flow: flow.over_at is None), reason)
            self._count("cancel_flow" if cancelled else "cancel_flow of one that is over")

    @precondition(lambda self: any(flow.over_at is not None for flow in self.model.flow_rows.values()))
    @rule(number=numbers)
    def retry_flow(self, number: int) -> None:
        again = self._both("retry_flow", self._flow_id(number, lambda flow: flow.over_at is not None))
        self._count("retry_flow", *["replayed in a flow"] * (again or 0))

    def _flow_id(self, number: int, first: Any) -> str:
        """Return a flow: those for which ``first`` holds come first, those that are gone last."""
        rows = self.model.flow_rows
        ranked = sorted(self.flow_ids, key=lambda each: (each not in rows, each in rows and not first(rows[each])))
        return ranked[number % len(ranked)]

    def _nodes_of(self, flow_id: str) -> list[str]:
        flow = self.model.flow_rows.get(flow_id)
        return [NODES[0]] if flow is None else list(flow.nodes)

    # Working.

    @precondition(lambda self: any(flow.over_at is None for flow in self.model.flow_rows.values()))
    @rule(owner=owners, rounds=st.lists(st.lists(_ends, min_size=1, max_size=4), min_size=1, max_size=4))
    def work_on_flows(self, owner: str, rounds: list[list[Act]]) -> None:
        """What a story with flows is about, and so often: members are claimed and end."""
        for ends in rounds:
            self.claim(owner, Claim(queues=QUEUES, limit=4))
            held = [lease for lease in self._member_leases() if self.model.holds_lease(lease, owner)]
            self._exchange(list(zip(held, ends, strict=False)), None, owner)

    @precondition(lambda self: self.flow_ids)
    @rule()
    def sweep(self) -> None:
        """Let the net look: it must find nothing but flows that were left open."""
        self.reap()

    @invariant()
    def all_flows_are_the_same(self) -> None:
        if not self.flow_ids:
            return
        self._follow_members()
        assert not self._net.found, self._net.found
        agree("flows()", list(self.backend.flows()), self.model.flows())
        agree("flows(running)", list(self.backend.flows(running=True)), self.model.flows(running=True))
        for flow_id in self.flow_ids:
            agree(f"flow {flow_id}", self.backend.flow(flow_id), self.model.flow(flow_id))
            agree("member_counts", self.backend.member_counts(flow_id), self.model.member_counts(flow_id))
            # A job whose flow is gone is a plain one: it may be found by its flow, or not.
            for node in self._nodes_of(flow_id) if flow_id in self.model.flow_rows else ():
                query = Query(flow=flow_id, node=node, limit=100)
                found = list(self.backend.list(query))
                agree("the members of a node", found, jobs(self.model.list(query), found))

    def _follow_members(self) -> None:
        """Cancel what was added to nodes that are over as soon as the backend has: no later than its own node is."""
        for flow in self.model.flow_rows.values():
            for job_id, own in list(flow.late.items()):
                if job_id in self.model.live and self._waits_in(self.backend.get(job_id)):
                    assert not flow.nodes[own].over, f"{job_id} still waits, and node {own} is over"
                else:
                    del flow.late[job_id]
        self.model.look()
