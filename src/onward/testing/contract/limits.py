"""Limits: never more leases than a limit allows, and all of them while work waits; which limits there are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from onward.backend import LimitRow, Settlement
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds, rate_of
from onward.job.states import State
from onward.testing.contract.builders import a_session, an_envelope, at_once, every_settlement, ids, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn

__all__ = ["LimitRowsContract", "RunningContract"]


def executing(backend: Any) -> int:
    return int(backend.counts()[State.EXECUTING])


@needs("lanes")
@pytest.mark.promise("L46", "L47")
class RunningContract:
    """`Limit(running=n)`: counted from the leases there are."""

    def test_no_more_run_than_the_limit_of_a_job_and_as_many_as_it_allows(self, backend):
        declare(backend, a_limit(running=3))
        backend.enqueue(in_lane(10))

        first = claimed(backend)
        assert len(first) == 3
        assert claimed(backend) == []

        backend.ack(first[0])
        assert len(claimed(backend)) == 1

    def test_a_turn_promotes_up_to_its_limit_beside_a_queue_with_a_limit(self, backend, clock):
        declare(backend, a_limit("slow", "queue", running=1))
        backend.enqueue(some_envelopes(3, delay=60))
        clock.advance(60)

        result = turn(backend, queues=("default", "slow"), limit=1)

        assert (result.promoted, len(result.leases)) == (1, 1)

    @every_settlement
    def test_every_way_a_lease_ends_gives_its_slot_back(self, backend, settlement):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(3))
        (lease,) = claimed(backend)

        backend.settle([settlement(lease)])

        assert len(claimed(backend)) == 1
        assert executing(backend) == 1

    @pytest.mark.parametrize("row", [a_limit(running=2), a_limit("default", "queue", running=2)], ids=["job", "queue"])
    def test_a_settlement_and_a_claim_in_one_turn_count_together(self, backend, row):
        declare(backend, row)
        backend.enqueue(in_lane(5))
        leases = claimed(backend)

        result = turn(backend, *map(Settlement.ack, leases))

        assert len(result.leases) == 2

    @pytest.mark.parametrize("rows", [(), (a_limit("default", "queue", running=9),)], ids=["no limit", "a limit"])
    def test_a_turn_claims_the_dead_letter_that_it_stores(self, backend, rows):
        declare(backend, *rows)
        backend.enqueue(some_envelopes(1))
        (lease,) = claimed(backend)
        letters = [an_envelope(queue="failed"), an_envelope(queue="failed", single_instance=True)]

        for letter in letters:
            died = Settlement.abandon(lease, "gave up", dead_letter=letter)
            (lease,) = turn(backend, died, queues=("failed", "default")).leases
            assert lease.envelope.id == letter.id

    def test_a_dead_session_gives_its_slots_back_when_it_is_reaped_and_not_before(self, backend, clock):
        declare(backend, a_limit(running=2), owner="dies")
        backend.enqueue(in_lane(5))
        held = claimed(backend, owner="dies", queues=("default",))
        clock.advance(3600)

        assert claimed(backend, owner="lives") == []
        backend.reap()
        assert len(claimed(backend, owner="lives")) == len(held) == 2

    def test_an_adopted_lease_keeps_its_slot(self, backend):
        declare(backend, a_limit(running=2), owner="first")
        backend.enqueue(in_lane(5))
        claimed(backend, owner="first")

        backend.open_session(a_session("second"), adopts="first")

        assert claimed(backend, owner="second") == []
        assert executing(backend) == 2

    def test_a_job_is_counted_over_all_its_queues(self, backend):
        declare(backend, a_limit(running=3))
        backend.enqueue(in_lane(5) + in_lane(5, queue="other"))

        leases = claimed(backend, queues=("other",)) + claimed(backend, queues=("default", "other"))

        assert len(leases) == 3

    def test_every_key_has_a_limit_of_its_own(self, backend):
        declare(backend, a_limit(kind="key", running=2))
        backend.enqueue(in_lane(5, "acme") + in_lane(5, "other") + in_lane(1, "small"))

        leases = claimed(backend)

        assert Counter(lease.lane for lease in leases) == {
            lane_of("render", "acme"): 2,
            lane_of("render", "other"): 2,
            lane_of("render", "small"): 1,
        }

    def test_a_job_and_its_keys_may_both_be_limited(self, backend):
        declare(backend, a_limit(running=3), a_limit(kind="key", running=2))
        backend.enqueue(in_lane(5, "acme") + in_lane(5, "other"))

        assert len(claimed(backend)) == 3
        assert claimed(backend) == []

    @pytest.mark.parametrize("other", ["render.all", "render-all", "renderer", "rende"])
    def test_jobs_whose_names_begin_alike_are_counted_apart(self, backend, other):
        declare(backend, a_limit(running=3), a_limit(other, running=1))
        backend.enqueue(in_lane(4) + in_lane(4, of=other) + in_lane(4, "acme", of=other) + in_lane(4, "acme"))

        jobs = Counter(str(lease.lane).split("/")[0] for lease in claimed(backend))

        assert jobs == {"render": 3, other: 1}

    def test_a_queue_counts_every_lease_of_it(self, backend):
        declare(backend, a_limit("default", "queue", running=4))
        backend.enqueue(some_envelopes(5) + in_lane(5) + in_lane(2, "acme", of=""))
        backend.enqueue(some_envelopes(5, queue="other"))

        assert len(claimed(backend)) == 4
        assert claimed(backend) == []
        assert len(claimed(backend, queues=("other",))) == 5

    def test_a_queue_with_a_limit_counts_what_ran_before_it_had_one(self, backend):
        backend.enqueue(some_envelopes(5))
        assert len(claimed(backend, limit=2)) == 2

        backend.set_limit("queue", "default", Bounds(running=3), new=True)

        assert len(claimed(backend)) == 1

    def test_a_full_job_does_not_hold_up_others(self, backend):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(200))
        assert len(claimed(backend)) == 1
        plain = some_envelopes(2)
        backend.enqueue(plain)

        result = turn(backend, limit=10)

        assert ids(result.leases) == ids(plain)
        assert not result.more

    def test_a_full_job_with_many_keys_is_one_step(self, backend):
        declare(backend, a_limit(running=1))
        backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(200)])
        assert len(claimed(backend)) == 1
        plain = some_envelopes(2)
        backend.enqueue(plain)

        result = turn(backend, limit=10)

        assert ids(result.leases) == ids(plain)
        assert not result.more, "it looked at the keys of a job that is full"

    def test_a_lowered_limit_takes_nothing_back_and_starts_nothing(self, backend):
        declare(backend, a_limit(running=4))
        backend.enqueue(in_lane(10))
        leases = claimed(backend)
        backend.set_limit("job", "render", Bounds(running=2))

        backend.ack(leases[0])
        backend.ack(leases[1])
        assert claimed(backend) == []
        backend.ack(leases[2])
        assert len(claimed(backend)) == 1

    def test_no_more_are_claimed_than_can_begin(self, backend):
        declare(backend, a_limit(running=10))
        backend.enqueue(in_lane(20) + some_envelopes(20))

        leases = turn(backend, limit=30, begins=4).leases

        assert Counter(lease.lane for lease in leases) == {"render/": 4, None: 20}
        assert turn(backend, limit=5, begins=0).awaits_slots
        assert not turn(backend, limit=0, begins=0).awaits_slots

    def test_many_claimers_at_once_never_pass_the_limit(self, backend, open_client):
        declare(backend, a_limit(running=5))
        backend.enqueue(in_lane(60))
        seen: list[int] = []

        def work(number: int) -> int:
            client = open_client()
            done = 0
            for _ in range(10):
                leases = turn(client, owner=f"worker-{number}", limit=3).leases
                seen.append(executing(client))
                done += len(leases)
                client.settle([Settlement.ack(lease) for lease in leases])
            return done

        total = sum(at_once(4, work))

        assert max(seen) <= 5
        assert total > 0
        assert total + len(claimed(backend)) <= 60


@needs("lanes")
@pytest.mark.promise("L54")
class LimitRowsContract:
    """Rows: declared by sessions, chosen by people."""

    def test_there_are_no_limits_at_first(self, backend):
        assert list(backend.limits()) == []

    def test_what_a_session_declares_is_listed(self, backend):
        rows = (a_limit("mail", "queue", rate="5/s"), a_limit(running=5), a_limit(kind="key", running=1, rate="9/h"))

        declare(backend, *rows)

        found = {(state.row.kind, state.row.name): state.row for state in backend.limits()}
        assert found == {(row.kind, row.name): row for row in rows}

    def test_the_first_so_many_are_listed(self, backend):
        declare(backend, a_limit("c", running=1), a_limit("a", running=1), a_limit("b", running=1))

        assert [state.row.name for state in backend.limits(at_most=2)] == ["a", "b"]

    def test_a_limit_tells_how_much_of_it_is_used(self, backend, clock):
        declare(backend, a_limit(running=3, rate="10/min"))
        backend.enqueue(in_lane(10))
        claimed(backend)

        (state,) = backend.limits()

        assert (state.running, state.tokens, state.opens_at, state.shut_until) == (3, 7, None, None)

    def test_a_job_with_a_limit_by_key_too_tells_how_much_of_its_own_is_used(self, backend):
        declare(backend, a_limit(running=3), a_limit(kind="key", running=2))
        backend.enqueue(in_lane(2, "acme"))
        claimed(backend)

        assert [(state.row.kind, state.running) for state in backend.limits()] == [("job", 2), ("key", None)]

    def test_what_was_chosen_beats_what_is_declared_and_survives_a_declaration(self, backend):
        declare(backend, a_limit(running=5, rate="10/s"))
        assert backend.set_limit("job", "render", Bounds(running=1))
        declare(backend, a_limit(running=9, rate="10/s", declared_at=7), owner="newer")

        (state,) = backend.limits()

        assert (state.row.declared.running, state.row.chosen.running) == (9, 1)
        assert state.row.bounds == Bounds(running=1, rate=rate_of("10/s"))
        backend.enqueue(in_lane(5))
        assert len(claimed(backend)) == 1

    def test_what_was_chosen_can_be_cleared(self, backend):
        declare(backend, a_limit(running=2))
        backend.set_limit("job", "render", Bounds(running=1))
        backend.set_limit("job", "render", Bounds())
        backend.enqueue(in_lane(5))

        assert len(claimed(backend)) == 2

    def test_an_older_deployment_does_not_change_what_a_newer_one_declared(self, backend):
        declare(backend, a_limit(running=2, declared_at=10), owner="new")
        declare(backend, a_limit(running=9, declared_at=5), owner="old")

        (state,) = backend.limits()

        assert state.row.declared.running == 2

    def test_a_limit_of_keys_that_left_the_code_of_a_job_ends_with_the_next_deployment(self, backend):
        declare(backend, a_limit(), a_limit(kind="key", running=1, declared_at=5), owner="old")
        backend.enqueue(in_lane(3, "acme"))
        ends = LimitRow(kind="key", name="render", declared_at=6, only_ends=True)
        declare(backend, msgspec.structs.replace(ends, declared_at=4), owner="older")
        assert len(claimed(backend)) == 1

        declare(backend, a_limit(), ends, owner="new")

        assert len(claimed(backend)) == 2
        assert [state.row.bounds for state in backend.limits()] == [Bounds(), Bounds()]

    def test_a_declaration_that_only_ends_a_limit_makes_none(self, backend):
        declare(backend, LimitRow(kind="key", name="render", declared_at=6, only_ends=True))

        assert list(backend.limits()) == []

    def test_a_job_without_lanes_has_no_limit_to_set(self, backend):
        assert not backend.set_limit("job", "unknown", Bounds(running=1))
        assert not backend.set_limit("job", "unknown", None, new=True)
        assert list(backend.limits()) == []

    def test_a_queue_gets_a_limit_and_loses_it(self, backend):
        assert backend.set_limit("queue", "default", Bounds(running=1), new=True)
        backend.enqueue(some_envelopes(3))
        assert len(claimed(backend)) == 1

        backend.set_limit("queue", "default", Bounds())

        assert list(backend.limits()) == []
        assert len(claimed(backend)) == 2

    @pytest.mark.parametrize(("kind", "name"), [("queue", "default"), ("job", "render"), ("key", "render")])
    def test_a_limit_that_left_the_code_is_dropped_until_it_is_declared_again(self, backend, kind, name):
        limit = a_limit(name, kind, rate="1/min", declared_at=5)
        declare(backend, limit)
        backend.set_limit(kind, name, Bounds(running=1))
        backend.enqueue(in_lane(2, "acme"))
        (lease,) = claimed(backend)
        backend.ack(lease)

        assert backend.set_limit(kind, name, None)
        assert list(backend.limits()) == []
        backend.enqueue(in_lane(3, "acme"))
        assert len(claimed(backend)) >= 3  # the one that was booked for a token of its key keeps its instant

        declare(backend, limit, owner="newer")
        assert [state.row.bounds for state in backend.limits()] == [limit.bounds]

    def test_other_clients_see_what_was_set(self, backend, open_client):
        declare(backend, a_limit(running=5))
        open_client().set_limit("job", "render", Bounds(running=1))
        backend.enqueue(in_lane(5))

        assert len(claimed(backend)) == 1
