"""Flows: what becomes of a node by what is before it, and what the first failure stops."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from onward.backend import Settlement
from onward.flow.graph import FAILED, Node, NodeState, advance
from onward.job.membership import When
from onward.job.states import State
from onward.testing.contract.builders import ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

__all__ = ["FlowRulesContract"]

WHENS: tuple[When, ...] = ("succeeded", "failed", "finished")

_BEFORE: dict[str, NodeState] = {
    "completed": NodeState.COMPLETED,
    "discarded": NodeState.FAILED,
    "cancelled": NodeState.FAILED,
    "passed over": NodeState.PASSED_OVER,
    "skipped": NodeState.SKIPPED,
    "empty": NodeState.COMPLETED,
}


def _brought(backend: Any, clock: Any, ending: str, when: When, jobs: int) -> FlowStage:
    """Make a flow in which node ``x`` ends as named, and node ``b`` comes after it and a node that succeeds."""
    after = {"passed over": "r", "skipped": "r"}.get(ending, "")
    stage = FlowStage(
        backend,
        clock,
        r=Part(),
        a=Part(),
        x=Part(0 if ending == "empty" else jobs, after, "failed" if ending == "skipped" else "succeeded"),
        b=Part(jobs, "ax", when),
    )
    stage.end("r", abandon if ending == "passed over" else ack)
    if ending == "completed":
        stage.end("x", ack)
    elif ending == "discarded":
        stage.end("x", abandon, ack)
    elif ending == "cancelled":
        backend.cancel([stage.envelopes["x"][0].id], "not wanted")
        if jobs > 1:
            stage.end("x", ack)
    return stage


@needs("flows", "inspection", "sessions")
class FlowRulesContract:
    @pytest.mark.promise("W73")
    @pytest.mark.parametrize("jobs", [1, 3])
    @pytest.mark.parametrize("when", WHENS)
    @pytest.mark.parametrize("ending", _BEFORE)
    def test_what_becomes_of_a_node_by_what_is_before_it(self, backend, clock, ending, when, jobs):
        stage = _brought(backend, clock, ending, when, jobs)
        assert stage.states()["x"] == _BEFORE[ending]
        at_once_over = when == "succeeded" and _BEFORE[ending] in FAILED
        assert stage.states()["b"] == ("passed_over" if at_once_over else "waiting")

        stage.end("a", ack)

        nodes = [Node(name="a", state=NodeState.COMPLETED), Node(name="x", state=_BEFORE[ending])]
        (expected,) = advance([*nodes, Node(name="b", after=("a", "x"), when=when)], lambda _: True, closed=True)
        assert stage.states()["b"] == expected.state
        if expected.state is NodeState.OPEN:
            assert stage.jobs("b") == ["available"] * jobs
            stage.end("b", ack)
        else:
            reason = "not needed" if expected.state is NodeState.SKIPPED else "node x failed"
            assert [(job.state, job.reason) for job in stage.stored("b")] == [(State.CANCELLED, reason)] * jobs
        assert stage.state() == ("failed" if FAILED & set(stage.states().values()) else "completed")

    @pytest.mark.promise("W73")
    @pytest.mark.parametrize("seed", range(15))
    def test_a_random_flow_ends_as_the_rules_say(self, backend, clock, seed):
        """The store against the pure rules, with jobs that end in a random order."""
        random = Random(seed)
        names = "abcdefgh"[: random.randint(3, 8)]
        parts: dict[str, Any] = {}
        for place, name in enumerate(names):
            after = "".join(each for each in names[:place] if random.random() < 0.4)
            parts[name] = Part(random.randint(0, 3), after, random.choice(WHENS) if after else "succeeded")
        parts["a"] = parts["a"]._replace(jobs=2)
        stage = FlowStage(backend, clock, **parts)
        outcomes = {envelope.id: random.random() < 0.75 for envelope in stage.all}
        nodes = [msgspec.structs.replace(node, total=parts[node.name].jobs) for node in stage.row().nodes]
        live = {name: set(ids(stage.envelopes[name])) for name in names}

        while True:
            nodes = _by_the_rules(nodes, live)
            assert [(node.name, node.state) for node in stage.row().nodes] == [
                (node.name, node.state) for node in nodes
            ]
            due = [lease for name in random.sample(names, len(names)) for lease in stage.claim(name, limit=1)][:1]
            for lease in due:
                job_id, node = lease.envelope.id, lease.envelope.queue
                assert next(each.state for each in nodes if each.name == node) is NodeState.OPEN
                backend.settle([ack(lease) if outcomes[job_id] else abandon(lease)])
                live[node].discard(job_id)
                nodes = [_failing(each, node, failed=not outcomes[job_id]) for each in nodes]
            backend.reap(owner="worker", started=())
            if not due:
                break

        assert stage.row().over_at == clock.micros()

    @pytest.mark.promise("W75")
    def test_stop_on_failure_cancels_what_has_not_begun_and_asks_what_runs(self, backend, clock):
        stage = FlowStage(
            backend,
            clock,
            stop_on_failure=True,
            a=Part(4),
            b=Part(after="a"),
            c=Part(after="a", when="failed"),
            d=Part(after="ac", when="finished"),
            e=Part(2),
        )
        first, second = stage.claim("a", limit=2)

        backend.settle([abandon(first)])

        assert stage.jobs("a") == ["discarded", "executing", "cancelled", "cancelled"]
        assert stage.jobs("e") == ["cancelled", "cancelled"]
        assert stage.jobs("c") == stage.jobs("d") == ["scheduled"]
        assert list(backend.extend("worker").cancel_requested) == [(second.envelope.id, second.token)]
        backend.settle([Settlement.cancelled(second, "stopped")])
        stage.end("c", ack)
        stage.end("d", ack)
        assert stage.states() == {"a": "failed", "b": "passed_over", "c": "completed", "d": "completed", "e": "failed"}

    @pytest.mark.parametrize("closed", [True, False])
    def test_a_node_says_at_once_that_a_job_of_it_has_failed(self, backend, clock, closed):
        stage = FlowStage(backend, clock, closed=closed, a=Part(2), b=Part(after="a", when="finished"))
        first, _ = stage.claim("a")

        backend.settle([abandon(first)])

        assert [(node.state.value, node.failed) for node in stage.row().nodes] == [("open", True), ("waiting", False)]

    @pytest.mark.promise("W75")
    def test_without_it_all_members_run(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(4), b=Part(after="a", when="finished"))

        stage.end("a", abandon, ack)

        assert stage.jobs("a") == ["discarded", "completed", "completed", "completed"]
        assert stage.states() == {"a": "failed", "b": "open"}


def _by_the_rules(nodes: list[Node], live: dict[str, set[str]]) -> list[Node]:
    while changed := {node.name: node for node in advance(nodes, lambda name: bool(live[name]), closed=True)}:
        nodes = [changed.get(node.name, node) for node in nodes]
        for node in changed.values():
            if node.state in (NodeState.PASSED_OVER, NodeState.SKIPPED):
                live[node.name].clear()
    return nodes


def _failing(node: Node, name: str, *, failed: bool) -> Node:
    return msgspec.structs.replace(node, failed=True) if failed and node.name == name else node
