"""A flow in a store, for contract tests: its envelopes, its leases, and what has become of its nodes.

    stage = FlowStage(backend, clock, a=Part(), b=Part(2, after="a"), c=Part(after="b", when="failed"))
    stage.end("a", ack)          claim every job of a node and settle it
    stage.states()               {"a": "completed", "b": "open", "c": "waiting"}
    stage.jobs("b")              the states of its jobs, in their order

Every node has a queue of its own, named like it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from onward.backend import Enqueued, Envelope, FlowRow, Lease, Query, Settlement
from onward.job.membership import FlowPlan, NodePlan, When
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import a_claim, an_envelope, an_id

__all__ = ["FlowStage", "Part", "abandon", "ack"]


class Part(NamedTuple):
    """One node: how many jobs it has, and when it opens."""

    jobs: int = 1
    after: str = ""  # names of one letter each
    when: When = "succeeded"


def ack(lease: Lease) -> Settlement:
    return Settlement.ack(lease, b'"done"')


def abandon(lease: Lease) -> Settlement:
    return Settlement.abandon(lease, "gave up")


class FlowStage:
    """A flow that was just enqueued."""

    def __init__(
        self,
        backend: Any,
        clock: FakeClock,
        *,
        stop_on_failure: bool = False,
        closed: bool = True,
        letter: dict[str, Any] | None = None,
        **parts: Part,
    ) -> None:
        self.backend = backend
        self.clock = clock
        self.id = an_id()
        self.letter = letter or {}
        plan = FlowPlan(
            name="staged",
            nodes=tuple(NodePlan(name=name, after=tuple(part.after), when=part.when) for name, part in parts.items()),
            stop_on_failure=stop_on_failure,
            closed=closed,
        )
        self.envelopes = {name: self.make(name, part.jobs) for name, part in parts.items()}
        first, *others = [envelope for part in self.envelopes.values() for envelope in part]
        self.all = [msgspec.structs.replace(first, plan=plan), *others]
        self.answers: list[Enqueued] = backend.enqueue(self.all)

    def make(self, node: str, jobs: int = 1, **letter: Any) -> list[Envelope]:
        """Seal more members of a node."""
        fields = {"queue": node, "flow": self.id, "node": node} | self.letter | letter
        return [an_envelope(**fields) for _ in range(jobs)]

    def claim(self, node: str, *, limit: int = 10_000, owner: str = "worker") -> list[Lease]:
        """Claim what is due of a node."""
        leases: list[Lease] = self.backend.claim(a_claim(owner=owner, queues=(node,), limit=limit))
        return leases

    def end(self, node: str, *settlements: Callable[[Lease], Settlement]) -> list[Lease]:
        """Claim every job of a node that is due, and settle it; the last settlement stands for all that follow."""
        leases = self.claim(node)
        assert leases, f"no job of node {node} is due"
        kinds = [*settlements, *[settlements[-1]] * len(leases)]
        for lease, settle in zip(leases, kinds, strict=False):
            assert self.backend.settle([settle(lease)])[0].applied
        return leases

    def row(self) -> FlowRow:
        row: FlowRow = self.backend.flow(self.id)
        return row

    def states(self) -> dict[str, str]:
        return {node.name: node.state.value for node in self.row().nodes}

    def state(self) -> str:
        return self.row().state

    def jobs(self, node: str) -> list[str]:
        return [stored.state.value for stored in self.stored(node)]

    def stored(self, node: str) -> Sequence[Any]:
        found: Sequence[Any] = self.backend.list(Query(flow=self.id, node=node, limit=100_000))
        return found
