"""Settlements: each is one settling move, only a completed run counts, and one rule says what each does to its job."""

from typing import get_args

import pytest

from onward import telemetry
from onward.base.failure import Failure
from onward.job.envelope import Sealed
from onward.job.lease import Lease
from onward.job.settlement import (
    GONE,
    LEASE_LOST,
    Leased,
    Settlement,
    SettlingMove,
    already_applied,
    applied,
    crash_pause,
    fate,
    judge,
)
from onward.job.states import SETTLING, State, allows

LEASE = Lease(
    envelope=Sealed("a", "mail", b""), token=7, owner="worker", expires_at=30, claimed_at=0, attempts=2, waits=4
)
FAILURE = Failure("ValueError", "x")

SETTLEMENTS = {
    "ack": Settlement.ack(LEASE),
    "skip": Settlement.skip(LEASE, "done"),
    "nack": Settlement.nack(LEASE, 5, failure=FAILURE),
    "abandon": Settlement.abandon(LEASE, "gave up", failure=FAILURE),
    "snooze": Settlement.snooze(LEASE, 5),
    "park": Settlement.park(LEASE, 5, "unknown"),
    "cancelled": Settlement.cancelled(LEASE, "by request"),
    "release": Settlement.release(LEASE),
    "crashed": Settlement.crashed(LEASE, "killed by SIGKILL"),
}


@pytest.mark.promise("S1")
def test_a_lease_of_a_fresh_job_has_counted_nothing():
    fresh = Lease(envelope=Sealed("a", "mail", b""), token=1, owner="worker", expires_at=30, claimed_at=0)

    assert (fresh.attempts, fresh.crashes, fresh.interruptions, fresh.waits) == (0, 0, 0, 0)
    assert (fresh.hold, fresh.holder, fresh.parked_since, fresh.spent) == ("free", None, None, None)


@pytest.mark.parametrize("name", SETTLEMENTS)
def test_each_constructor_makes_its_own_move(name):
    assert SETTLEMENTS[name].move == name
    assert SETTLEMENTS[name].lease is LEASE


@pytest.mark.parametrize("name", SETTLEMENTS)
def test_each_settlement_is_a_move_out_of_executing(name):
    assert allows(name, State.EXECUTING)


@pytest.mark.promise("S6", "S7", "S9")
def test_only_what_ran_to_an_end_counts_as_a_run():
    assert {name for name, settlement in SETTLEMENTS.items() if settlement.ran} == {"ack", "nack", "abandon"}


@pytest.mark.parametrize(
    "settlement",
    [
        Settlement.nack(LEASE, ran=False, spent="gave up"),
        Settlement.abandon(LEASE, "unknown", ran=False),
        Settlement.cancelled(LEASE, "expired", ran=False),
    ],
)
def test_an_end_without_a_run_can_say_so(settlement):
    assert not settlement.ran


def test_a_cancelled_run_can_count():
    assert Settlement.cancelled(LEASE, "by request", ran=True).ran


def test_parking_counts_on_and_releasing_keeps_the_count_of_waits():
    assert Settlement.park(LEASE, 5, "unknown").waits == 5
    assert Settlement.release(LEASE).waits == 4
    assert Settlement.snooze(LEASE, 5).waits == 0


def test_a_nack_without_a_delay_is_due_at_once():
    assert Settlement.nack(LEASE).delay == 0


@pytest.mark.parametrize("state", State)
def test_an_applied_settlement_says_where_the_job_went(state):
    answer = applied(state)

    assert (answer.applied, answer.already_applied, answer.lease_lost, answer.gone) == (True, False, False, False)
    assert answer.state is state
    assert answer.counts


@pytest.mark.parametrize("state", State)
def test_a_repeated_settlement_counts_as_well(state):
    answer = already_applied(state)

    assert (answer.applied, answer.already_applied) == (False, True)
    assert answer.state is state
    assert answer.counts


def test_a_move_is_one_row_of_the_table():
    assert set(get_args(SettlingMove)) == set(SETTLING)
    for row in SETTLING.values():
        assert row.event is None or issubclass(getattr(telemetry, row.event), telemetry.JobEvent)


def test_a_lost_lease_and_a_job_that_is_gone_do_not_count():
    assert LEASE_LOST.lease_lost
    assert not LEASE_LOST.counts
    assert GONE.gone
    assert not GONE.counts


NOW = 1_000_000_000
SAVED = Leased(crashes=1, max_crashes=3, waits=4, parked_since=7, spent="gave up")


@pytest.mark.parametrize(
    ("name", "to", "grows", "due", "waiting"),
    [
        ("ack", State.COMPLETED, (1, 0, 0), NOW, (0, None, "gave up")),
        ("skip", State.COMPLETED, (0, 0, 0), NOW, (0, None, "gave up")),
        ("nack", State.RETRYABLE, (1, 0, 0), NOW + 5_000_000, (0, None, "gave up")),
        ("abandon", State.DISCARDED, (1, 0, 0), NOW, (0, None, "gave up")),
        ("snooze", State.SCHEDULED, (0, 0, 0), NOW + 5_000_000, (0, None, "gave up")),
        ("park", State.SCHEDULED, (0, 0, 0), NOW + 5_000_000, (5, 7, "gave up")),
        ("cancelled", State.CANCELLED, (0, 0, 0), NOW, (0, None, "gave up")),
        ("release", State.AVAILABLE, (0, 0, 1), None, (4, 7, "gave up")),
        ("crashed", State.RETRYABLE, (0, 1, 0), NOW + crash_pause(2), (4, 7, "gave up")),
    ],
)
def test_each_move_has_its_line_of_the_table(name, to, grows, due, waiting):
    what = fate(SETTLEMENTS[name], SAVED, NOW)

    assert what.to is to
    assert (what.attempts, what.crashes, what.interruptions) == grows
    assert what.due == due
    assert (what.waits, what.parked_since, what.spent) == waiting


@pytest.mark.parametrize("name", SETTLEMENTS)
def test_a_job_asked_to_cancel_is_cancelled_by_any_move_but_a_success(name):
    what = fate(SETTLEMENTS[name], Leased("too late"), NOW)

    assert what.to is (State.COMPLETED if name == "ack" else State.CANCELLED)
    if name != "ack":
        assert what.reason == ("by request" if name == "cancelled" else "too late")


def test_every_failure_every_nack_and_every_crash_goes_on_record():
    recorded = {name for name, settlement in SETTLEMENTS.items() if fate(settlement, SAVED, NOW).failure}

    assert recorded == {"nack", "abandon", "crashed"}
    assert fate(Settlement.nack(LEASE), SAVED, NOW).failure is not None


def test_the_last_crash_discards_and_says_how_often_and_why():
    what = fate(SETTLEMENTS["crashed"], Leased(crashes=2, max_crashes=3), NOW)

    assert what.to is State.DISCARDED
    assert what.reason == "crashed 3 times: killed by SIGKILL"


def test_a_job_is_parked_since_the_first_time():
    assert fate(SETTLEMENTS["park"], Leased(), NOW).parked_since == NOW


def test_evidence_is_the_record_then_the_finished_job_then_any_trace():
    ack = SETTLEMENTS["ack"]

    assert judge(ack, "ack", "completed", None, traced=True) == already_applied(State.COMPLETED)
    assert judge(ack, "nack", "retryable", "completed", traced=True) == LEASE_LOST
    assert judge(ack, None, "", "completed", traced=True) == already_applied(State.COMPLETED)
    assert judge(ack, None, "", "cancelled", traced=True) == LEASE_LOST
    assert judge(SETTLEMENTS["nack"], None, "", "cancelled", traced=True) == already_applied(State.CANCELLED)
    assert judge(ack, None, "", None, traced=True) == LEASE_LOST
    assert judge(ack, None, "", None, traced=False) == GONE
