"""Flows of a broker with a companion store: the store keeps them, and the broker gets a message about what opens.

A member whose node waits has no message.  It gets one when its node opens, and not before: from the turn that opened it
(`TurnResult.woken`), or from the verb here that did.  The store is written first.  A process that dies before the message is
put, and a step that the store's own sweep took, leave due jobs without one, which the sweep finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from onward.backend import AWAITS_NODE, Audit, Backend, Enqueued, Envelope, FlowRow, KeepsFlows, Lease, Query, StoredJob
from onward.backends.companion.messages import message
from onward.backends.companion.putting import Putter, quietly
from onward.base.interruption import uninterrupted
from onward.contract.companion import CompanionStore, RefusesMessages
from onward.errors import Unsupported
from onward.flow.graph import NodeState, behind
from onward.job.states import FINISHED, WAITING, State

__all__ = ["CompanionFlows"]

_PAGE = 500

_Names = Callable[[FlowRow], Iterable[str]]


class CompanionFlows:
    """The `KeepsFlows` half of the backend."""

    broker: Backend
    store: CompanionStore
    _putter: Putter

    def flow(self, flow_id: str) -> FlowRow | None:
        return self._flows.flow(flow_id)

    def flows(
        self, *, name: str | None = None, running: bool = False, after: str | None = None, limit: int = 100
    ) -> Sequence[FlowRow]:
        return self._flows.flows(name=name, running=running, after=after, limit=limit)

    def member_counts(self, flow_id: str, *, at_most: int = 10_000) -> dict[str, dict[State, int]]:
        return self._flows.member_counts(flow_id, at_most=at_most)

    def extend_flow(
        self, flow_id: str, envelopes: Sequence[Envelope], *, retried: bool = False
    ) -> list[Enqueued] | None:
        """Add members in the store, then put messages about those whose node is open."""
        with uninterrupted():
            self._refuse_unfit(envelopes)
            return self._told(self._flows.extend_flow(flow_id, envelopes, retried=retried))

    def grow(self, lease: Lease, envelopes: Sequence[Envelope]) -> list[Enqueued] | None:
        """Add members in the store under a lease, then put messages about those whose node is open."""
        with uninterrupted():
            self._refuse_unfit(envelopes)
            return self._told(self._flows.grow(lease, envelopes))

    def close_flow(self, flow_id: str) -> bool:
        with uninterrupted():
            closed = self._flows.close_flow(flow_id)
            if closed:
                quietly(lambda: self._put_open([flow_id], lambda row: [node.name for node in row.nodes if node.after]))
            return closed

    def cancel_flow(self, flow_id: str, reason: str, *, audit: Audit = ()) -> bool:
        """Cancel in the store.  Messages about its jobs are removed when they come."""
        return self._flows.cancel_flow(flow_id, reason, audit=audit)

    def retry_flow(self, flow_id: str, *, audit: Audit = ()) -> int | None:
        with uninterrupted():
            replayed = self._flows.retry_flow(flow_id, audit=audit)
            if replayed:
                self._put_reopened([flow_id])
            return replayed

    def _told(self, answers: list[Enqueued] | None) -> list[Enqueued] | None:
        # Those of an addition that is repeated get their message again: the first one may have failed before the broker.
        if answers is not None:
            self._putter.put_waiting(answer.id for answer in answers)
        return answers

    def _refuse_unfit(self, envelopes: Iterable[Envelope]) -> None:
        """Raise for a member that the broker would never take, before anything is stored: its message may come late."""
        if isinstance(self.broker, RefusesMessages):
            self.broker.refuse_unfit([message(each) for each in envelopes if each.flow is not None])

    def _ready(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Leave out members that get no message yet: their node waits.  Others are left to the store, which has them."""
        ids = [each.id for each in envelopes if each.flow is not None]
        waiting = {job.id for job in self._putter.stored(ids) if job.awaits == AWAITS_NODE or job.state in FINISHED}
        return [each for each in envelopes if each.id not in waiting]

    def _put_behind(self, ids: Sequence[str]) -> None:
        """Put messages about what opened because these jobs have ended."""
        if ids and self.store.capabilities.flows:
            quietly(lambda: self._look_behind(self._putter.stored(ids)))

    def _look_behind(self, ended: Sequence[StoredJob]) -> None:
        nodes: dict[str, set[str]] = {}
        for job in ended:
            if job.flow is not None and job.state in FINISHED:
                nodes.setdefault(job.flow, set()).add(job.node or "")
        self._put_open(nodes, lambda row: behind(row.nodes, nodes[row.id]))

    def _put_reopened(self, flow_ids: Iterable[str]) -> None:
        """Put messages about all that waits in open nodes: jobs of these flows were replayed."""
        quietly(lambda: self._put_open(flow_ids, lambda row: [node.name for node in row.nodes]))

    def _put_open(self, flow_ids: Iterable[str], among: _Names) -> None:
        """Put messages about the waiting jobs of the nodes that are open, of those that are named."""
        for flow_id in flow_ids:
            row = self._flows.flow(flow_id)
            if row is None:
                continue
            names = set(among(row))
            for node in row.nodes:
                if node.name in names and node.state is NodeState.OPEN:
                    self._put_node(flow_id, node.name)

    def _put_node(self, flow_id: str, node: str) -> None:
        after: str | None = None
        while True:
            query = Query(flow=flow_id, node=node, states=WAITING, after=after, limit=_PAGE)
            page = self.store.list(query)
            self._putter.put_missing([job for job in page if job.awaits != AWAITS_NODE])
            if len(page) < _PAGE:
                return
            after = page[-1].id

    @property
    def _flows(self) -> KeepsFlows:
        if not (self.store.capabilities.flows and isinstance(self.store, KeepsFlows)):
            raise Unsupported(f"the store beside the broker, {type(self.store).__name__}, keeps no flows: use another")
        return self.store
