"""Flows and transactions: a whole flow joins a caller's, and a member that its handler completes in one is looked at."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import msgspec
import pytest

from onward.backend import Settlement
from onward.job.membership import FlowPlan, NodePlan
from onward.testing.contract.builders import an_envelope, an_id, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.flow_stage import FlowStage, Part

__all__ = ["FlowTransactionsContract"]


class _Ended:
    """A transaction that is rolled back when its block ends, unless it was committed."""

    def __init__(self, backend: Any) -> None:
        self.opened = backend.begin(at_most=30.0)

    def close(self) -> None:
        self.opened.roll_back()


def _a_flow() -> list[Any]:
    flow_id = an_id()
    first, second = (an_envelope(queue=node, flow=flow_id, node=node) for node in "ab")
    plan = FlowPlan(name="joined", nodes=(NodePlan(name="a"), NodePlan(name="b", after=("a",))))
    return [msgspec.structs.replace(first, plan=plan), second]


@needs("flows", "inspection", "transacts")
class FlowTransactionsContract:
    @pytest.mark.promise("W79")
    def test_a_flow_exists_if_and_only_if_the_callers_transaction_commits(self, backend, open_client):
        envelopes = _a_flow()
        with closing(_Ended(backend)) as undone:
            undone.opened.run(lambda style: backend.joining(envelopes, style))
        assert backend.flow(envelopes[0].flow) is None
        assert list(backend.get_many(ids(envelopes))) == []

        with closing(_Ended(backend)) as kept:
            answers = kept.opened.run(lambda style: backend.joining(envelopes, style))
            assert open_client().flow(envelopes[0].flow) is None
            kept.opened.commit()

        assert [answer.created for answer in answers] == [True, True]
        assert [node.state.value for node in backend.flow(envelopes[0].flow).nodes] == ["open", "waiting"]
        assert [stored.state.value for stored in map(backend.get, ids(envelopes))] == ["available", "scheduled"]

    @pytest.mark.parametrize("commits", [True, False])
    def test_a_member_that_its_handler_completes_opens_what_comes_after_with_the_commit(self, backend, clock, commits):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        (lease,) = stage.claim("a")

        with closing(_Ended(backend)) as tx:
            assert tx.opened.settle(Settlement.ack(lease, b'"done"')).applied
            if commits:
                tx.opened.commit()

        assert stage.states() == ({"a": "completed", "b": "open"} if commits else {"a": "open", "b": "waiting"})
        assert len(stage.claim("b")) == commits
