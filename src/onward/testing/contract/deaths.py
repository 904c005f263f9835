"""Groups of dead jobs: a job and a fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from onward.backend import (
    DEATH_GROUPS,
    Death,
    DeathGroup,
    Failure,
    Lease,
    Look,
    Query,
    RanBy,
    Settlement,
    Snapshot,
)
from onward.contract.transfer import Attached
from onward.errors import OptionError
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["DeathGroupsContract", "GroupQueriesContract"]

_WORKER = RanBy("web-3", 4711, "2026.11")


@needs("inspection", "groups_deaths")
class DeathGroupsContract:
    def test_groups_are_shown_only_if_they_are_asked_for(self, backend):
        _die(backend, "0123456789ab")

        assert backend.look(Look()).deaths == []

    def test_a_store_without_dead_jobs_has_no_group(self, backend):
        backend.ack(a_lease(backend))
        backend.cancelled(a_lease(backend), "stopped")
        backend.enqueue([an_envelope()])

        assert _groups(backend) == []

    @pytest.mark.promise("S132")
    def test_a_group_is_a_job_and_a_fingerprint(self, backend, clock):
        first_at = clock.micros()
        first = _die(backend, "bbbb", job="mail")
        clock.advance(5)
        last_at = clock.micros()
        last = _die(backend, "bbbb", job="mail")
        other = _die(backend, "aaaa", job="mail")
        elsewhere = _die(backend, "bbbb", job="news")

        assert _groups(backend) == [
            DeathGroup(
                job="mail", fingerprint="aaaa", count=1, first=Death(other, last_at), last=Death(other, last_at)
            ),
            DeathGroup(
                job="mail", fingerprint="bbbb", count=2, first=Death(first, first_at), last=Death(last, last_at)
            ),
            DeathGroup(
                job="news", fingerprint="bbbb", count=1, first=Death(elsewhere, last_at), last=Death(elsewhere, last_at)
            ),
        ]

    @pytest.mark.promise("S132")
    @pytest.mark.parametrize(("at_most", "counted"), [(4, 3), (3, 3), (2, 2), (1, 1)])
    def test_no_group_is_counted_beyond_the_limit(self, backend, at_most, counted):
        ids = [_die(backend, "aaaa") for _ in range(3)]

        (group,) = _groups(backend, at_most)

        assert (group.count, group.first.id, group.last.id) == (counted, ids[0], ids[-1])

    @pytest.mark.promise("S132")
    def test_at_most_a_hundred_groups_are_shown(self, backend):
        for number in range(DEATH_GROUPS + 2):
            _die(backend, f"{number:04}", job=f"job-{number % 3}")

        shown = [(group.job, group.fingerprint) for group in _groups(backend)]

        everything = sorted((f"job-{number % 3}", f"{number:04}") for number in range(DEATH_GROUPS + 2))
        assert shown == everything[:DEATH_GROUPS]

    def test_the_newest_run_decides_the_group(self, backend):
        lease = a_lease(backend)
        backend.settle([Settlement.nack(lease, 0, failure=_failure("aaaa"))])

        backend.settle([Settlement.abandon(_claimed(backend), "gave up", failure=_failure("bbbb"))])

        assert [group.fingerprint for group in _groups(backend)] == ["bbbb"]

    def test_a_death_without_a_record_is_that_of_the_run_before(self, backend):
        lease = a_lease(backend)
        backend.settle([Settlement.nack(lease, 0, failure=_failure("aaaa"), spent="no more tries")])

        backend.settle([Settlement.abandon(_claimed(backend), "no more tries", ran=False)])

        assert [group.fingerprint for group in _groups(backend)] == ["aaaa"]

    @pytest.mark.parametrize("failure", [None, Failure("ValueError", "no")], ids=["no record", "no fingerprint"])
    def test_a_death_that_no_record_explains_has_a_group(self, backend, failure):
        backend.settle([Settlement.abandon(a_lease(backend), "gave up", failure=failure)])

        assert [group.fingerprint for group in _groups(backend)] == ["unexplained"]

    def test_a_crash_too_many_has_a_group(self, backend):
        backend.settle([Settlement.crashed(a_lease(backend, max_crashes=1), "killed")])

        assert [group.fingerprint for group in _groups(backend)] == ["crashed"]

    @needs("sessions")
    def test_jobs_that_are_reaped_once_too_often_have_a_group(self, backend):
        backend.enqueue(some_envelopes(2, max_crashes=1))
        backend.claim(a_claim(limit=2))

        backend.reap(owner="worker")

        (group,) = _groups(backend)
        assert (group.fingerprint, group.count) == ("crashed", 2)

    def test_deaths_of_one_turn_go_each_to_its_group(self, backend):
        backend.enqueue(some_envelopes(4))
        leases = backend.claim(a_claim(limit=4))
        same = [Settlement.abandon(lease, "gave up", failure=_failure("aaaa")) for lease in leases[:2]]
        other = Settlement.abandon(leases[2], "gave up", failure=_failure("bbbb"))

        backend.settle([*same, other, Settlement.ack(leases[3])])

        assert [(group.fingerprint, group.count) for group in _groups(backend)] == [("aaaa", 2), ("bbbb", 1)]

    def test_a_job_that_was_cancelled_meanwhile_is_in_no_group(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "stop")

        backend.settle([Settlement.abandon(lease, "gave up", failure=_failure("aaaa"))])

        assert backend.get(lease.envelope.id).state is State.CANCELLED
        assert _groups(backend) == []

    def test_a_replayed_job_leaves_its_group(self, backend):
        ids = [_die(backend, "aaaa") for _ in range(3)]

        backend.replay(Query(ids=(ids[1],)))
        assert [(group.count, group.first.id) for group in _groups(backend)] == [(2, ids[0])]

        backend.replay(Query(ids=(ids[0],)))
        assert [(group.count, group.first.id) for group in _groups(backend)] == [(1, ids[2])]

    def test_a_replayed_job_that_succeeds_stays_out_of_it(self, backend):
        job_id = _die(backend, "aaaa")
        backend.replay(Query(ids=(job_id,)))

        backend.ack(_claimed(backend))

        assert _groups(backend) == []

    def test_a_replayed_job_that_dies_again_is_in_the_group_of_its_last_death(self, backend):
        job_id = _die(backend, "aaaa")
        backend.replay(Query(ids=(job_id,)))

        backend.settle([Settlement.abandon(_claimed(backend), "gave up", failure=_failure("bbbb"))])

        assert [(group.fingerprint, group.count) for group in _groups(backend)] == [("bbbb", 1)]

    @needs("knows_ids")
    @pytest.mark.parametrize("end", ["ack", "cancel"])
    def test_a_job_enqueued_again_under_its_id_takes_the_dead_one_out_of_its_group(self, backend, end):
        sealed = an_envelope()
        backend.enqueue([sealed])
        backend.settle([Settlement.abandon(_claimed(backend), "gave up", failure=_failure("aaaa"))])
        backend.enqueue([sealed])
        assert [group.count for group in _groups(backend)] == [1]

        if end == "ack":
            backend.settle([Settlement.ack(_claimed(backend))])
        else:
            backend.cancel([sealed.id], "not again")

        assert _groups(backend) == []

    def test_a_purged_job_leaves_its_group(self, backend):
        ids = [_die(backend, "aaaa") for _ in range(2)]

        backend.purge(Query(ids=(ids[1],)))

        assert [(group.count, group.last.id) for group in _groups(backend)] == [(1, ids[0])]

    def test_a_job_past_its_retention_leaves_its_group(self, backend, clock):
        _die(backend, "aaaa")
        clock.advance(60)
        later = _die(backend, "aaaa")

        backend.prune({State.DISCARDED: clock.micros()})

        assert [(group.count, group.first.id) for group in _groups(backend)] == [(1, later)]

    @needs("transferable")
    def test_a_transferred_job_is_in_its_group(self, backend, clock):
        job_id = _die(backend, "aaaa", by=_WORKER)
        (dead,) = backend.list(Query(ids=(job_id,)))
        backend.reserve("default", "a transfer")
        backend.remove("a transfer", [dead], Attached())
        assert _groups(backend) == []

        backend.restore("a transfer", [dead], Attached())

        (group,) = _groups(backend)
        assert (group.fingerprint, group.first) == ("aaaa", Death(job_id, clock.micros()))
        assert backend.get(job_id).runs == dead.runs

    @pytest.mark.promise("S126")
    def test_groups_and_counts_come_in_one_snapshot(self, backend, clock):
        _die(backend, "aaaa")

        seen = backend.look(Look(counts=True, deaths=True))

        assert isinstance(seen, Snapshot)
        assert seen.now == clock.micros()
        assert seen.overview is not None
        assert seen.overview.counts[State.DISCARDED] == sum(group.count for group in seen.deaths) == 1


@needs("inspection", "groups_deaths")
class GroupQueriesContract:
    def test_a_fingerprint_needs_a_job(self):
        with pytest.raises(OptionError, match="name the job"):
            Query(fingerprint="aaaa")

    def test_a_group_is_listed(self, backend):
        ids = [_die(backend, "aaaa") for _ in range(3)]
        _die(backend, "bbbb")
        _die(backend, "aaaa", job="other")
        backend.enqueue([an_envelope()])

        assert _listed(backend, _group()) == ids
        assert _listed(backend, _group(newest_first=True)) == ids[::-1]

    def test_a_group_is_listed_in_pages(self, backend):
        ids = [_die(backend, "aaaa") for _ in range(5)]

        for query, ordered in ((_group(limit=2), ids), (_group(limit=2, newest_first=True), ids[::-1])):
            pages = [_listed(backend, query)]
            while pages[-1]:
                pages.append(_listed(backend, msgspec.structs.replace(query, after=pages[-1][-1])))
            assert pages == [ordered[:2], ordered[2:4], ordered[4:], []]

    def test_a_group_is_listed_by_queue(self, backend):
        ids = [_die(backend, "aaaa", queue=f"q-{number % 2}") for number in range(4)]

        assert _listed(backend, _group(queue="q-1")) == ids[1::2]

    def test_ids_are_listed_if_they_are_in_the_group(self, backend):
        one, two, other = _die(backend, "aaaa"), _die(backend, "aaaa"), _die(backend, "bbbb")

        assert _listed(backend, _group(ids=(other, two))) == [two]
        assert _listed(backend, _group(ids=(one,), states=frozenset({State.DISCARDED}))) == [one]

    @pytest.mark.parametrize("state", [state for state in State if state is not State.DISCARDED])
    def test_no_other_state_is_in_a_group(self, backend, state):
        _die(backend, "aaaa")

        assert _listed(backend, _group(states=frozenset({state}))) == []

    def test_a_live_job_of_the_same_id_is_not_in_the_group(self, backend):
        sealed = an_envelope()
        backend.enqueue([sealed])
        backend.settle([Settlement.abandon(_claimed(backend), "gave up", failure=_failure("aaaa"))])
        backend.enqueue([sealed])

        (found,) = backend.list(_group())

        assert (found.id, found.state) == (sealed.id, State.DISCARDED)

    def test_a_group_is_replayed(self, backend):
        ids = [_die(backend, "aaaa") for _ in range(2)]
        _die(backend, "bbbb")

        replayed = backend.replay(_group(states=frozenset({State.DISCARDED})))

        assert (sorted(replayed.ids), replayed.skipped) == (ids, {})
        assert [group.fingerprint for group in _groups(backend)] == ["bbbb"]

    def test_a_group_is_purged(self, backend):
        for _ in range(2):
            _die(backend, "aaaa")
        kept = _die(backend, "bbbb")

        assert backend.purge(_group()) == 2

        assert _listed(backend, Query()) == [kept]

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_what_comes_after_the_last_id_is_left_out(self, backend, newest_first):
        ids = [_die(backend, "aaaa") for _ in range(4)]
        order = -1 if newest_first else 1

        for asked in (Query(until=ids[1]), _group(until=ids[1]), Query(ids=tuple(ids), until=ids[1])):
            query = msgspec.structs.replace(asked, newest_first=newest_first)
            assert _listed(backend, query) == ids[:2][::order]
            assert _listed(backend, msgspec.structs.replace(query, limit=1)) == ids[:2][::order][:1]
            after = msgspec.structs.replace(query, after=ids[:2][::order][0])
            assert _listed(backend, after) == ids[:2][::order][1:]

    def test_live_jobs_after_the_last_id_are_left_out(self, backend):
        envelopes = some_envelopes(3)
        backend.enqueue(envelopes)
        backend.claim(a_claim(limit=3))

        running = Query(states=frozenset({State.EXECUTING}), until=envelopes[0].id)

        assert _listed(backend, running) == _listed(backend, Query(until=envelopes[0].id)) == [envelopes[0].id]

    def test_only_up_to_the_last_id_is_replayed_and_purged(self, backend):
        ids = [_die(backend, "aaaa") for _ in range(4)]

        assert backend.purge(_group(until=ids[0])) == 1
        assert backend.replay(_group(until=ids[2])).ids == ids[1:3]

        assert _listed(backend, _group()) == ids[3:]


def _failure(fingerprint: str) -> Failure:
    return Failure("RuntimeError", "it broke", "Traceback: somewhere\n", fingerprint)


def _die(backend: Any, fingerprint: str, *, by: RanBy | None = None, **envelope: Any) -> str:
    """Enqueue a job and discard it; return its id."""
    lease = a_lease(backend, **envelope)
    backend.settle([Settlement.abandon(lease, "gave up", failure=_failure(fingerprint), by=by)])
    return lease.envelope.id


def _claimed(backend: Any) -> Lease:
    """Claim the only job that waits."""
    lease: Lease = backend.claim(a_claim())[0]
    return lease


def _groups(backend: Any, at_most: int = 10_000) -> list[DeathGroup]:
    deaths: list[DeathGroup] = backend.look(Look(deaths=True, at_most=at_most)).deaths
    return deaths


def _group(**query: Any) -> Query:
    return Query(job="work", fingerprint="aaaa", **query)


def _listed(backend: Any, query: Query) -> Sequence[str]:
    return [job.id for job in backend.list(query)]
