"""Flows: whatever ends a job of a node, its flow is looked at, and what comes after opens once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from onward.backend import Lease, Settlement
from onward.job.states import State
from onward.testing.contract.builders import an_envelope, at_once, ids, micros
from onward.testing.contract.capabilities import needs
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

__all__ = ["FlowEndsContract"]

RACES = 20

# Every arrow into a finished state: what ends the one job of node ``a``, and whether that is a success.


def _settled(make: Callable[..., Settlement]) -> Callable[[FlowStage], None]:
    def act(stage: FlowStage) -> None:
        stage.end("a", make)

    return act


def _cancel(stage: FlowStage) -> None:
    assert stage.backend.cancel(ids(stage.envelopes["a"]), "not wanted") == [State.CANCELLED]


def _asked(stage: FlowStage, settle: Callable[..., Settlement]) -> None:
    (lease,) = stage.claim("a")
    stage.backend.cancel([lease.envelope.id], "not wanted")
    assert stage.backend.settle([settle(lease)])[0].state is State.CANCELLED


def _expire(stage: FlowStage) -> None:
    stage.clock.advance(101)
    assert stage.claim("a") == []


def _poison(stage: FlowStage) -> None:
    stage.claim("a", owner="dead")
    (reaped,) = stage.backend.reap(owner="dead", cause="killed")
    assert reaped.to is State.DISCARDED


def _expired_session(stage: FlowStage) -> None:
    stage.claim("a", owner="dead")
    stage.clock.advance(31)
    (reaped,) = stage.backend.reap()
    assert reaped.to is State.DISCARDED


def _drained(stage: FlowStage) -> None:
    (lease,) = stage.claim("a", owner="dead")
    stage.backend.cancel([lease.envelope.id], "not wanted")
    (reaped,) = stage.backend.reap(owner="dead", started=())
    assert reaped.to is State.CANCELLED


def _replaced(stage: FlowStage) -> None:
    stage.backend.enqueue([an_envelope(queue="other", unique_key="key", unique_strategy="cancel_existing")])


ENDS: dict[str, tuple[Callable[[FlowStage], None], bool]] = {
    "ack": (_settled(ack), True),
    "ack without a trace": (_settled(lambda lease: Settlement.ack(lease, keep=False)), True),
    "skip": (_settled(lambda lease: Settlement.skip(lease, "done before")), True),
    "abandon": (_settled(abandon), False),
    "abandon with a dead letter": (
        _settled(lambda lease: Settlement.abandon(lease, "gave up", dead_letter=an_envelope(queue="dead"))),
        False,
    ),
    "cancelled": (_settled(lambda lease: Settlement.cancelled(lease, "stopped")), False),
    "dropped dead letter": (
        _settled(lambda lease: Settlement.cancelled(lease, "dropped: its dead letter was refused", ran=True)),
        False,
    ),
    "crash too many": (_settled(lambda lease: Settlement.crashed(lease, "killed")), False),
    "cancel": (_cancel, False),
    "nack of a job that was asked": (lambda stage: _asked(stage, Settlement.nack), False),
    "release of a job that was asked": (lambda stage: _asked(stage, Settlement.release), False),
    "expiry": (_expire, False),
    "reap of a dead process": (_poison, False),
    "reap of an expired session": (_expired_session, False),
    "drain of a dead session": (_drained, False),
    "replace": (_replaced, False),
}


def _ack_one(clients: Sequence[Any], leases: Sequence[Lease], number: int) -> Any:
    return clients[number].settle([ack(leases[number])])


def _act(acts: Sequence[Callable[[], Any]], number: int) -> Any:
    return acts[number]()


@needs("flows", "inspection", "sessions", "deduplicates")
class FlowEndsContract:
    @pytest.mark.promise("W72")
    @pytest.mark.parametrize(("end", "succeeds"), ENDS.values(), ids=ENDS.keys())
    def test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after(self, backend, clock, end, succeeds):
        letter = {"max_crashes": 1, "unique_key": "key", "expires_at": clock.micros() + micros(100)}
        stage = FlowStage(
            backend,
            clock,
            a=Part(0),
            b=Part(after="a"),
            c=Part(after="a", when="failed"),
            d=Part(after="a", when="finished"),
            closed=False,
        )
        stage.envelopes["a"] = stage.make("a", **letter)
        backend.extend_flow(stage.id, stage.envelopes["a"])
        backend.close_flow(stage.id)
        assert stage.states() == {"a": "open", "b": "waiting", "c": "waiting", "d": "waiting"}

        end(stage)

        opened = {"b": "open", "c": "skipped"} if succeeds else {"b": "passed_over", "c": "open"}
        assert stage.states() == {"a": "completed" if succeeds else "failed", "d": "open"} | opened
        assert [len(stage.claim(node)) for node in "bcd"] == ([1, 0, 1] if succeeds else [0, 1, 1])
        assert stage.state() == "running"

    def test_moves_that_end_no_job_open_nothing(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a", when="finished"))
        moves: list[Callable[[Lease], Settlement]] = [
            Settlement.nack,
            Settlement.release,
            lambda lease: Settlement.snooze(lease, 0),
            lambda lease: Settlement.park(lease, 0, "unknown"),
            lambda lease: Settlement.crashed(lease, "killed"),
        ]
        for move in moves:
            stage.end("a", move)
            assert stage.states() == {"a": "open", "b": "waiting"}

    def test_a_repeated_settlement_opens_nothing_again(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        (lease,) = stage.end("a", ack)
        stage.end("b", ack)
        before = stage.row()

        assert backend.ack(lease, b'"done"').already_applied
        assert stage.row() == before
        assert stage.jobs("b") == ["completed"]

    def test_a_settlement_that_lost_its_lease_opens_nothing(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a", when="finished"))
        (late,) = stage.claim("a", owner="late")
        backend.reap(owner="late")

        assert not backend.settle([abandon(late)])[0].applied
        assert stage.states() == {"a": "open", "b": "waiting"}

    @pytest.mark.promise("W72")
    def test_the_last_two_members_that_end_at_once_open_the_next_node_once(self, backend, open_client, clock):
        clients = [backend, open_client()]
        for _ in range(RACES):
            stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
            leases = [lease for owner in ("one", "other") for lease in stage.claim("a", limit=1, owner=owner)]

            at_once(2, partial(_ack_one, clients, leases))

            assert stage.states() == {"a": "completed", "b": "open"}
            stage.end("b", ack)
            assert stage.state() == "completed"

    @pytest.mark.promise("W72")
    def test_the_last_member_is_cancelled_while_the_one_before_it_succeeds(self, backend, open_client, clock):
        other = open_client()
        for _ in range(RACES):
            stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a", when="finished"))
            (lease,) = stage.claim("a", limit=1)
            waiting = next(each.id for each in stage.envelopes["a"] if each.id != lease.envelope.id)
            acts = [partial(backend.settle, [ack(lease)]), partial(other.cancel, [waiting], "not wanted")]

            at_once(2, partial(_act, acts))

            assert stage.states() == {"a": "failed", "b": "open"}
            stage.end("b", ack)

    @pytest.mark.promise("W74")
    @pytest.mark.parametrize("members", [0, 1, 2, 1_000])
    def test_a_chord_opens_its_callback_once(self, backend, clock, members):
        stage = FlowStage(backend, clock, a=Part(members), b=Part(after="a"))
        if members:
            assert stage.claim("b") == []
            leases = stage.claim("a")
            assert len(leases) == members
            backend.settle([ack(lease) for lease in leases])

        stage.end("b", ack)

        assert stage.state() == "completed"
        assert stage.jobs("b") == ["completed"]
