"""Lanes: whose turn it is, and what a claim looks at."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from onward.backend import Claim, Lease, LimitRow, Query, Session, Settlement, TurnResult
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds, rate_of
from onward.job.states import State
from onward.testing.contract.builders import a_session, a_turn, ids, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["LaneOrderContract", "LanesContract", "a_limit", "claimed", "declare", "in_lane"]


def a_limit(
    name: str = "render", kind: Any = "job", running: int | None = None, rate: str | None = None, **more: Any
) -> LimitRow:
    """Return a declared limit: of a job, unless another kind is named."""
    burst = more.pop("burst", None)
    bounds = Bounds(running=running, rate=None if rate is None else rate_of(rate, burst))
    return LimitRow(kind=kind, name=name, declared=bounds, **more)


def declare(backend: Any, *rows: LimitRow, owner: str = "worker") -> None:
    """Open a session whose code declares these limits."""
    backend.open_session(Session(owner=owner, limits=rows))


def in_lane(count: int, key: str | None = None, *, of: str = "render", **letter: Any) -> list[Any]:
    """Return jobs of one lane: of a job with lanes of its own, and of a key, if it has one."""
    return some_envelopes(count, lane=lane_of(of, key), **({"job": of or "work"} | letter))


def turn(backend: Any, *settlements: Settlement, owner: str = "worker", **claim: Any) -> TurnResult:
    """Settle and claim; the session is opened if there is none."""
    backend.open_session(a_session(owner))
    fields: dict[str, Any] = {"queues": ("default",), "limit": 100} | claim
    asked = Claim(**fields)
    result: TurnResult = backend.turn(a_turn(*settlements, owner=owner, claim=asked))
    return result


def claimed(backend: Any, *settlements: Settlement, **claim: Any) -> list[Lease]:
    """Claim until nothing is found, as a worker does after `more`."""
    found: list[Lease] = []
    limit = claim.pop("limit", 100)
    while True:
        result = turn(backend, *settlements, limit=limit - len(found), **claim)
        found += result.leases
        settlements = ()
        if not result.more or len(found) >= limit:
            return found


def lanes_of(leases: list[Lease]) -> list[str | None]:
    return [lease.lane for lease in leases]


@needs("lanes")
class LanesContract:
    """Jobs with lanes are jobs."""

    def test_a_job_with_a_lane_is_claimed_and_settled_like_any_other(self, backend):
        (envelope,) = in_lane(1, "acme")
        backend.enqueue([envelope])

        (lease,) = claimed(backend)

        assert (lease.envelope.id, lease.lane, lease.token) == (envelope.id, lane_of("render", "acme"), 1)
        assert backend.ack(lease).applied
        assert claimed(backend) == []

    def test_plain_jobs_have_no_lane(self, backend):
        backend.enqueue(some_envelopes(2))

        assert lanes_of(claimed(backend)) == [None, None]

    @pytest.mark.parametrize("move", ["nack", "snooze", "release", "crashed"])
    def test_a_job_that_comes_back_comes_back_in_its_lane(self, backend, clock, move):
        backend.enqueue(in_lane(1, "acme"))
        (lease,) = claimed(backend)
        settlement = {
            "nack": Settlement.nack(lease, 0),
            "snooze": Settlement.snooze(lease, 1),
            "release": Settlement.release(lease),
            "crashed": Settlement.crashed(lease, "killed"),
        }[move]
        backend.settle([settlement])
        clock.advance(2)

        (again,) = claimed(backend)

        assert (again.envelope.id, again.lane, again.token) == (lease.envelope.id, lease.lane, 2)

    def test_a_job_that_is_not_due_waits(self, backend, clock):
        backend.enqueue(in_lane(1, "acme", delay=60))

        assert claimed(backend) == []
        clock.advance(60)
        assert len(claimed(backend)) == 1

    def test_an_expired_job_is_cancelled_and_not_handed_out(self, backend, clock):
        (envelope,) = in_lane(1, "acme", expires_at=clock.micros() + 1_000_000)
        backend.enqueue([envelope])
        clock.advance(2)

        assert claimed(backend) == []
        assert backend.get(envelope.id).state is State.CANCELLED

    def test_a_paused_queue_gives_none(self, backend):
        backend.enqueue(in_lane(1, "acme"))
        backend.pause("default")

        assert claimed(backend) == []
        backend.pause("default", paused=False)
        assert len(claimed(backend)) == 1

    def test_a_job_that_was_cancelled_is_not_claimed(self, backend):
        first, second = in_lane(2, "acme")
        backend.enqueue([first, second])
        backend.cancel([first.id], "not needed")

        assert ids(claimed(backend)) == [second.id]

    def test_a_replayed_job_is_in_its_lane_again(self, backend):
        backend.enqueue(in_lane(1, "acme"))
        (lease,) = claimed(backend)
        backend.abandon(lease, "gave up")

        backend.replay(Query(ids=(lease.envelope.id,)))

        (again,) = claimed(backend)
        assert (again.envelope.id, again.lane) == (lease.envelope.id, lease.lane)

    def test_an_adopted_lease_keeps_its_lane(self, backend):
        backend.enqueue(in_lane(1, "acme"))
        (lease,) = claimed(backend, owner="first")

        (adopted,) = backend.open_session(a_session("second"), adopts="first")

        assert (adopted.envelope.id, adopted.lane) == (lease.envelope.id, lease.lane)

    def test_a_turn_does_not_claim_what_it_released_itself(self, backend):
        backend.enqueue(in_lane(2, "acme"))
        leases = claimed(backend)

        assert turn(backend, *map(Settlement.release, leases)).leases == []
        assert len(claimed(backend)) == 2

    def test_a_unique_key_is_held_as_without_a_lane(self, backend):
        first, second = in_lane(2, "acme", unique_key="one")

        assert [answer.created for answer in backend.enqueue([first, second])] == [True, False]
        assert ids(claimed(backend)) == [first.id]

    def test_holds_are_taken_as_without_a_lane(self, backend):
        backend.enqueue(in_lane(2, "acme", single_instance=True))

        assert sorted(lease.hold for lease in claimed(backend)) == ["busy", "held"]

    def test_a_batch_of_many_lanes_is_stored_whole(self, backend):
        batch = [in_lane(1, f"tenant-{number}")[0] for number in range(300)]

        assert all(answer.created for answer in backend.enqueue(batch))
        assert len(set(lanes_of(claimed(backend, limit=300)))) == 300

    def test_limit_and_at_most_bound_a_claim(self, backend):
        backend.enqueue(in_lane(5, "acme") + in_lane(5, "acme", queue="other"))

        leases = turn(backend, queues=("default", "other"), limit=4, at_most={"default": 1}).leases

        assert Counter(lease.envelope.queue for lease in leases) == {"default": 1, "other": 3}


@needs("lanes")
@pytest.mark.promise("L50", "L52", "L55")
class LaneOrderContract:
    """Priority first, then turns between jobs, then turns between keys."""

    def test_within_a_lane_jobs_go_by_due_time_and_id(self, backend, clock):
        (early,) = in_lane(1, "acme", delay=1)
        late = in_lane(2, "acme", delay=2)
        backend.enqueue([*late, early])
        clock.advance(5)

        assert ids(claimed(backend)) == [early.id, *ids(late)]

    def test_a_higher_priority_comes_first_whatever_its_lane(self, backend):
        low = in_lane(3, "acme") + some_envelopes(3)
        high = in_lane(1, "other", priority=5) + some_envelopes(1, priority=5)
        backend.enqueue(low + high)

        assert set(ids(turn(backend, limit=2).leases)) == set(ids(high))

    def test_keys_take_turns(self, backend):
        backend.enqueue(in_lane(50, "big", of=""))
        backend.enqueue(in_lane(3, "small", of=""))

        first = [turn(backend, limit=1).leases[0].lane for _ in range(6)]

        assert set(first) == {lane_of("", "big"), lane_of("", "small")}
        assert all(one != other for one, other in pairwise(first))

    def test_keys_take_turns_within_one_claim(self, backend):
        backend.enqueue(in_lane(50, "big"))
        backend.enqueue(in_lane(3, "small"))

        assert Counter(lanes_of(turn(backend, limit=8).leases)) == {
            lane_of("render", "big"): 5,
            lane_of("render", "small"): 3,
        }

    def test_jobs_take_turns_however_many_keys_one_of_them_has(self, backend):
        backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(40)])
        backend.enqueue(in_lane(10, of="mail"))
        backend.enqueue(some_envelopes(10))

        leases = turn(backend, limit=30).leases

        kinds = Counter("plain" if lease.lane is None else lease.lane.split("/")[0] for lease in leases)
        assert kinds == {"render": 10, "mail": 10, "plain": 10}

    def test_plain_jobs_are_not_starved_by_a_busy_key(self, backend):
        backend.enqueue(in_lane(100, "busy", of=""))
        backend.enqueue(some_envelopes(4))

        first = [turn(backend, limit=1).leases[0].lane for _ in range(8)]

        assert first.count(None) == 4

    def test_a_head_starts_within_one_round_of_its_jobs_and_keys(self, backend):
        backend.enqueue([each for number in range(20) for each in in_lane(30, f"tenant-{number}")])
        backend.enqueue(in_lane(30, of="mail"))
        turn(backend, limit=7)
        late = in_lane(1, "late")
        backend.enqueue(late)

        starts = [turn(backend, limit=1).leases[0].envelope.id for _ in range(2 * 21)]

        assert late[0].id in starts

    def test_processes_that_live_for_one_claim_serve_every_lane(self, backend, open_client):
        backend.enqueue([each for number in range(4) for each in in_lane(5, f"tenant-{number}", of="")])
        served: Counter[str | None] = Counter()
        for _ in range(60):
            client = open_client()
            (lease,) = turn(client, limit=1).leases
            served[lease.lane] += 1
            client.release(lease)

        assert len(served) == 4
        assert min(served.values()) >= 3  # of 15 on average: by chance it is less once in ten thousand runs

    def test_a_suspect_is_claimed_alone_and_soon(self, backend, clock):
        backend.enqueue(in_lane(1, "acme"))
        (lease,) = claimed(backend)
        backend.settle([Settlement.crashed(lease, "killed")])
        backend.enqueue(in_lane(5, "acme") + in_lane(5, "other"))
        seen = []
        for _ in range(12):
            result = turn(backend, limit=4)
            if any(each.crashes for each in result.leases):
                seen.append(len(result.leases))
            backend.settle([Settlement.ack(each) for each in result.leases])

        assert seen == [1]

    def test_a_claim_that_stopped_at_its_bound_is_continued(self, backend):
        declare(backend, a_limit("render", "key", running=1))
        blocked = [in_lane(2, f"tenant-{number:03}") for number in range(150)]
        backend.enqueue([each for pair in blocked for each in pair])
        assert len(claimed(backend, limit=150)) == 150
        free = in_lane(1, "free")
        backend.enqueue(free)

        found: list[Lease] = []
        claims = 0
        while not found:
            result = turn(backend, limit=1)
            found += result.leases
            claims += 1
            assert result.leases or result.more, "the walk ended before it came to the open lane"

        assert ids(found) == [free[0].id]
        assert claims <= 1 + 150 // 65 + 1

    def test_a_circle_that_found_nothing_ends(self, backend):
        declare(backend, a_limit("render", "key", running=1))
        backend.enqueue([each for number in range(150) for each in in_lane(2, f"tenant-{number:03}")])
        claimed(backend, limit=150)

        answers = [turn(backend, limit=1).more for _ in range(6)]

        assert False in answers[:4]
