"""Rates: never more starts than there are tokens.  Gates: lanes that are shut, and who opens them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from onward.backend import Query, Settlement
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds, rate_of
from onward.job.settlement import GateChange
from onward.job.states import State
from onward.testing.contract.builders import ids, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn

__all__ = ["GatesContract", "RatesContract"]


def with_gate(settlement: Settlement, lane: str | None, seconds: float, *, probes: bool = False) -> Settlement:
    return msgspec.structs.replace(settlement, gate=GateChange(lane or "", seconds, probes))


def a_query(*states: State) -> Any:
    return Query(states=frozenset(states))


@needs("lanes")
@pytest.mark.promise("L48", "L49")
class RatesContract:
    """`Limit(rate=…)`: token buckets by the store's clock."""

    def test_no_more_start_than_there_are_tokens(self, backend, clock):
        declare(backend, a_limit(rate="10/min"))
        backend.enqueue(in_lane(30))

        assert len(claimed(backend)) == 10
        assert claimed(backend) == []
        clock.advance(6)
        assert len(claimed(backend)) == 1
        clock.advance(600)
        assert len(claimed(backend)) == 10, "an idle bucket is full, and no more"

    def test_a_burst_spaces_starts(self, backend, clock):
        declare(backend, a_limit(rate="60/min", burst=1))
        backend.enqueue(in_lane(5))

        starts = []
        for _ in range(10):
            starts.append(len(claimed(backend)))
            clock.advance(0.5)

        assert starts == [1, 0] * 5

    def test_every_key_has_its_own_tokens(self, backend, clock):
        declare(backend, a_limit(kind="key", rate="10/min"))
        backend.enqueue(in_lane(25, "a") + in_lane(25, "b"))

        assert len(claimed(backend)) == 20
        assert claimed(backend) == []
        clock.advance(60)
        assert len(claimed(backend)) == 20
        clock.advance(60)
        assert len(claimed(backend)) == 10

    def test_jobs_of_a_key_without_tokens_are_booked_for_them(self, backend, clock):
        declare(backend, a_limit(kind="key", rate="10/min"))
        backend.enqueue(in_lane(15, "a"))
        claimed(backend)
        assert claimed(backend) == []

        assert backend.counts()[State.SCHEDULED] == 5
        due = sorted(job.available_at - clock.micros() for job in backend.list(a_query(State.SCHEDULED)))
        assert due == [6_000_000 * number for number in range(1, 6)]

    def test_no_job_is_booked_more_than_a_quarter_of_an_hour_ahead(self, backend):
        declare(backend, a_limit(kind="key", rate="10/h"))
        backend.enqueue(in_lane(20, "a"))
        assert len(claimed(backend)) == 10

        assert claimed(backend) == []
        assert backend.counts()[State.SCHEDULED] == 2

    @pytest.mark.promise("L51")
    def test_a_claim_books_no_more_than_200_jobs(self, backend):
        declare(backend, a_limit(kind="key", rate="100/min"))
        backend.enqueue(in_lane(600, "a"))
        assert len(turn(backend, limit=100).leases) == 100

        assert turn(backend, limit=100).leases == []

        assert backend.counts()[State.SCHEDULED] == 200

    def test_booked_jobs_are_checked_again_when_they_are_due(self, backend, clock):
        declare(backend, a_limit(kind="key", rate="10/min"))
        backend.enqueue(in_lane(100, "a"))
        claimed(backend)
        claimed(backend)
        clock.advance(3600)

        assert len(claimed(backend)) == 10
        assert claimed(backend) == []

    def test_booked_jobs_do_not_hold_up_what_else_is_due(self, backend, clock):
        declare(backend, a_limit(kind="key", rate="1000/min"))
        backend.enqueue(in_lane(1300, "a"))
        while claimed(backend, limit=1000):
            pass
        other = some_envelopes(1, delay=1)
        backend.enqueue(other)
        clock.advance(30)

        assert other[0].id in ids(turn(backend, limit=2).leases)

    def test_a_start_takes_what_it_costs_into_debt(self, backend, clock):
        declare(backend, a_limit(rate="10/min"))
        backend.enqueue(in_lane(1, cost=25) + in_lane(5))

        assert len(claimed(backend)) == 1
        clock.advance(6 * 15)
        assert claimed(backend) == []
        clock.advance(6)
        assert len(claimed(backend)) == 1

    def test_a_dear_job_starts_as_soon_as_there_is_a_token(self, backend, clock):
        declare(backend, a_limit(rate="10/min"))
        backend.enqueue(in_lane(10))
        claimed(backend)
        dear = in_lane(1, cost=50)
        backend.enqueue(dear)
        backend.enqueue(in_lane(10))
        clock.advance(6)

        assert ids(claimed(backend)) == ids(dear)

    @pytest.mark.parametrize("move", [Settlement.release, Settlement.ack])
    def test_a_token_is_not_given_back(self, backend, move):
        declare(backend, a_limit(rate="2/min"))
        backend.enqueue(in_lane(5))
        leases = claimed(backend)

        backend.settle([move(lease) for lease in leases])

        assert claimed(backend) == []

    def test_a_queue_may_have_a_rate(self, backend, clock):
        declare(backend, a_limit("default", "queue", rate="4/s"))
        backend.enqueue(some_envelopes(10))

        assert len(claimed(backend)) == 4
        clock.advance(1)
        assert len(claimed(backend)) == 4

    def test_a_clock_that_is_set_back_adds_no_tokens_and_shuts_nothing(self, backend, clock):
        declare(backend, a_limit(rate="10/min"))
        backend.enqueue(in_lane(40))
        clock.advance(7200)
        assert len(claimed(backend)) == 10
        clock.advance(-3600)

        assert claimed(backend) == []
        clock.advance(60)
        assert len(claimed(backend)) == 10

    @pytest.mark.promise("L54")
    @pytest.mark.parametrize("kind", ["job", "queue"])
    @pytest.mark.parametrize("said_by", ["code", "people"])
    def test_a_rate_that_is_changed_counts_at_the_next_claim_whatever_was_taken_before(self, backend, kind, said_by):
        name = "render" if kind == "job" else "default"
        declare(backend, a_limit(name, kind, rate="10/day", declared_at=1))
        backend.enqueue(in_lane(50) if kind == "job" else some_envelopes(50))
        assert len(claimed(backend)) == 10

        if said_by == "people":
            backend.set_limit(kind, name, Bounds(rate=rate_of("5/min")))
        else:
            declare(backend, a_limit(name, kind, rate="5/min", declared_at=2), owner="newer")

        assert len(claimed(backend)) == 5
        assert claimed(backend) == []

    @pytest.mark.promise("L54")
    def test_so_does_that_of_each_key(self, backend):
        declare(backend, a_limit(kind="key", rate="10/day"), a_limit())
        backend.enqueue(in_lane(10, "a"))
        assert len(claimed(backend)) == 10

        backend.set_limit("key", "render", Bounds(rate=rate_of("5/min")))

        backend.enqueue(in_lane(10, "a"))
        backend.enqueue(in_lane(3, "b"))
        assert len(claimed(backend)) == 5 + 3

    def test_a_rate_that_is_declared_again_gives_no_tokens(self, backend):
        for owner in ("first", "second"):
            declare(backend, a_limit(rate="10/day"), owner=owner)
            backend.enqueue(in_lane(10))
        assert len(claimed(backend)) == 10

        declare(backend, a_limit(rate="10/day", declared_at=5), owner="third")
        backend.set_limit("job", "render", Bounds(running=100))

        assert claimed(backend) == []

    def test_a_claim_that_finds_nothing_takes_no_tokens(self, backend):
        declare(backend, a_limit(rate="2/min"))
        for _ in range(5):
            assert claimed(backend) == []
        backend.enqueue(in_lane(5))

        assert len(claimed(backend)) == 2


@needs("lanes")
@pytest.mark.promise("L60")
class GatesContract:
    """Lanes that are shut, by hand or by a settlement."""

    def test_a_job_that_is_shut_by_hand_starts_nothing_until_it_is_opened(self, backend, clock):
        declare(backend, a_limit(running=5))
        backend.enqueue(in_lane(2, "acme") + in_lane(2))
        plain = some_envelopes(1)
        backend.enqueue(plain)

        backend.shut("render/")
        assert ids(claimed(backend)) == ids(plain)
        clock.advance(10_000_000)
        assert claimed(backend) == []
        backend.shut("render/", opened=True)
        assert len(claimed(backend)) == 4

    def test_a_settlement_shuts_its_lane_and_no_other(self, backend, clock):
        declare(backend, a_limit(kind="key", running=5))
        backend.enqueue(in_lane(1, "a"))
        (lease,) = claimed(backend)
        backend.enqueue(in_lane(2, "a") + in_lane(2, "b"))

        backend.settle([with_gate(Settlement.snooze(lease, 30), lease.lane, 30)])

        assert {each.lane for each in claimed(backend)} == {lane_of("render", "b")}
        clock.advance(31)
        assert Counter(each.lane for each in claimed(backend)) == {lane_of("render", "a"): 3}

    def test_opening_a_job_opens_every_lane_of_it(self, backend):
        declare(backend, a_limit(kind="key", running=5))
        backend.enqueue(in_lane(1, "a") + in_lane(1, "a", of="render.all"))
        leases = {lease.lane: lease for lease in claimed(backend)}
        backend.settle([with_gate(Settlement.ack(lease), lane, 3_000) for lane, lease in leases.items()])

        backend.shut("render/", opened=True)
        backend.enqueue(in_lane(2, "a") + in_lane(2, "a", of="render.all"))

        assert Counter(each.lane for each in claimed(backend)) == {lane_of("render", "a"): 2}

    def test_shutting_again_only_lengthens(self, backend, clock):
        backend.enqueue(in_lane(4))
        leases = claimed(backend, limit=2)
        backend.settle([with_gate(Settlement.ack(leases[0]), "render/", 60)])
        backend.settle([with_gate(Settlement.ack(leases[1]), "render/", 10)])

        clock.advance(59)
        assert claimed(backend) == []
        clock.advance(1)
        assert len(claimed(backend)) == 2

    def test_a_settlement_that_is_not_applied_shuts_nothing(self, backend):
        backend.enqueue(in_lane(2))
        (lease,) = claimed(backend, limit=1)
        backend.ack(lease)

        backend.settle([with_gate(Settlement.nack(lease, 0), "render/", 60)])

        assert len(claimed(backend)) == 1

    def test_a_breaker_lets_one_run_probe_and_its_success_opens(self, backend, clock):
        backend.enqueue(in_lane(6))
        (lease,) = claimed(backend, limit=1)
        backend.settle([with_gate(Settlement.ack(lease), "render/", 30, probes=True)])
        assert claimed(backend) == []
        clock.advance(30)

        (probe,) = claimed(backend)
        assert probe.probe == 30
        assert claimed(backend) == [], "one at a time"

        backend.settle([with_gate(Settlement.ack(probe), "render/", 0)])
        leases = claimed(backend)
        assert [each.probe for each in leases] == [0] * 4

    def test_a_probe_that_fails_shuts_again(self, backend, clock):
        backend.enqueue(in_lane(3))
        (lease,) = claimed(backend, limit=1)
        backend.settle([with_gate(Settlement.ack(lease), "render/", 30, probes=True)])
        clock.advance(30)
        (probe,) = claimed(backend)

        backend.settle([with_gate(Settlement.nack(probe, 0), "render/", 60, probes=True)])
        clock.advance(59)
        assert claimed(backend) == []
        clock.advance(1)
        (again,) = claimed(backend)
        assert again.probe == 60

    def test_a_probe_whose_process_died_is_followed_by_another(self, backend, clock):
        backend.enqueue(in_lane(3))
        (lease,) = claimed(backend, limit=1)
        backend.settle([with_gate(Settlement.ack(lease), "render/", 3000, probes=True)])
        clock.advance(3000)
        claimed(backend, owner="dies")
        backend.reap(owner="dies")

        assert len(claimed(backend)) == 1

    def test_probing_ends_by_itself(self, backend, clock):
        backend.enqueue(in_lane(4))
        (lease,) = claimed(backend, limit=1)
        backend.settle([with_gate(Settlement.ack(lease), "render/", 30, probes=True)])

        clock.advance(60)

        assert len(claimed(backend)) == 3

    def test_a_shut_job_still_expires(self, backend, clock):
        (envelope,) = in_lane(1, expires_at=clock.micros() + 5_000_000)
        backend.enqueue([envelope])
        backend.shut("render/")
        clock.advance(6)

        assert claimed(backend) == []
        assert backend.get(envelope.id).state is State.CANCELLED
