"""What the proof of flows takes for a fault, and what it does not."""

import pytest

from onward.backends.memory import MemoryBackend
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import a_session
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack
from tests.proof.flows import Flow, Judge, Lines


@pytest.fixture
def retried():
    """Stop a flow before its node a has run, and retry it: a completes this time, before x fails again.

    What comes after the failure of a has run before the retry, and does not run again.
    """
    clock = FakeClock()
    backend = MemoryBackend(clock=clock)
    backend.open_session(a_session())
    stage = FlowStage(
        backend,
        clock,
        stop_on_failure=True,
        a=Part(2),
        x=Part(),
        b=Part(2, "a", "failed"),
        last=Part(1, "abx", "finished"),
    )
    for node, settle in {"x": abandon, "b": ack, "last": ack}.items():
        stage.end(node, settle)
    flow = Flow(stage.id, {stage.envelopes["x"][0].id: "fail"}, {}, stops=True)
    flow.note_retry(stage.row(), lines=0)
    backend.retry_flow(stage.id)
    stage.end("a", ack)
    stage.end("x", abandon)
    assert stage.states() == {"a": "completed", "x": "failed", "b": "completed", "last": "completed"}
    return backend, flow


def nodes_against_the_rules(backend, flow):
    return Judge(backend, [flow], Lines()).ledger("memory").flaws["nodes against the rules"]


def test_what_ran_before_a_retry_may_stay_completed(retried):
    assert nodes_against_the_rules(*retried) == 0


def test_what_ran_without_a_retry_goes_by_the_rules(retried):
    backend, flow = retried
    flow.completed_before = frozenset()

    assert nodes_against_the_rules(backend, flow) == 1
