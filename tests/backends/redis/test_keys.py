"""What is kept in the server: nothing is left of what was forgotten, and the numbers are right."""

import random

import pytest

from onward.backend import Query, Settlement
from onward.backends.redis import scripts
from onward.base.clock import SECOND
from onward.flow.lanes import lane_of
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import (
    SETTLEMENTS,
    a_claim,
    a_failure,
    a_lease,
    a_session,
    an_envelope,
    some_envelopes,
)


def test_nothing_is_left_of_jobs_that_were_forgotten(backend, clock, raw):
    for number, settle in enumerate(SETTLEMENTS.values()):
        keys = {"unique_key": f"u{number}", "idempotency_key": f"i{number}", "single_instance": True}
        lease = a_lease(backend, queue=f"q{number}", **keys)
        backend.progress(lease, b"1")
        backend.settle([settle(lease)])
    backend.settle([Settlement.ack(a_lease(backend), keep=False), Settlement.ack(a_lease(backend), b"result")])
    backend.enqueue([an_envelope(expires_at=clock.micros() + SECOND), an_envelope(delay=5, queue="other")])
    live = [job.id for job in backend.list(Query(states=frozenset(State) - FINISHED))]
    backend.cancel(live, "enough")
    backend.reap(owner="worker")

    clock.advance(86_400 * 2)
    while backend.purge(Query(states=FINISHED)):
        pass
    backend.prune({})
    backend._run("look", None, ["default", "other", *(f"q{number}" for number in range(len(SETTLEMENTS)))])

    assert raw.keys() == [b"{onward}:counts"]
    assert raw.hkeys("{onward}:counts") == [b"ended"]


@pytest.mark.parametrize("lane", [{}, {"lane": lane_of("render", "acme")}], ids=["plain", "laned"])
def test_a_queue_in_which_jobs_only_wait_stays_in_the_list(backend, lane):
    lease = a_lease(backend, **lane)
    backend.enqueue([an_envelope(**lane)])

    backend.settle([Settlement.ack(lease)])

    assert [(queue.name, queue.live) for queue in backend.queues()] == [("default", 1)]
    assert backend.counts("default")[State.AVAILABLE] == 1


@pytest.mark.promise("S25")
def test_the_numbers_are_those_of_a_recount(backend, clock):
    rng = random.Random(5)
    for _ in range(150):
        backend.enqueue([an_envelope(queue=rng.choice("abc"), delay=rng.choice([0, 0, 5])) for _ in range(3)])
        leases = backend.claim(a_claim(queues=("a", "b", "c"), limit=3))
        backend.settle([rng.choice([*SETTLEMENTS.values()])(lease) for lease in leases])
        clock.advance(rng.choice([0, 1, 60]))

    listed = list(backend.list(Query(limit=10_000)))

    assert backend.counts() == {state: sum(job.state is state for job in listed) for state in State}
    for queue in "abc":
        mine = [job for job in listed if job.queue == queue]
        assert backend.counts(queue) == {state: sum(job.state is state for job in mine) for state in State}


def test_a_walk_over_many_jobs_is_made_in_stretches(backend):
    backend.enqueue(some_envelopes(2_500))
    backend.enqueue([rare := an_envelope(job="rare")])

    assert [job.id for job in backend.list(Query(job="rare"))] == [rare.id]
    assert len(backend.list(Query(limit=2_200))) == 2_200


def test_running_jobs_are_listed_without_a_walk_over_those_that_wait(backend, raw):
    backend.enqueue(some_envelopes(1_500))
    leases = backend.claim(a_claim(limit=3))
    running = frozenset({State.EXECUTING})
    raw.config_resetstat()

    for newest_first in (False, True):
        found = [job.id for job in backend.list(Query(states=running, newest_first=newest_first))]
        assert found == sorted((lease.envelope.id for lease in leases), reverse=newest_first)
    page = backend.list(Query(states=running, after=leases[0].envelope.id, limit=1))
    assert [job.id for job in page] == [leases[1].envelope.id]
    assert "cmdstat_zrangebylex" not in raw.info("commandstats")


def test_a_batch_larger_than_what_lua_can_unpack_is_one_call(backend):
    envelopes = some_envelopes(9_000)
    backend.enqueue(envelopes)
    leases = backend.claim(a_claim(limit=9_000))

    settled = backend.settle([Settlement.nack(lease, 0, failure=a_failure()) for lease in leases])

    assert len(leases) == 9_000
    assert all(answer.applied for answer in settled)
    assert len(backend.claim(a_claim(limit=9_000))) == 9_000


SIZES = pytest.mark.parametrize("size", [1, 90, 110, 2_000])


@SIZES
@pytest.mark.parametrize("options", [{}, {"delay": 1}, {"unique_key": "k"}], ids=["plain", "delayed", "keyed"])
def test_sealed_bytes_come_back_as_they_were(backend, clock, raw, size, options):
    """Few travel in the job's record, many have a place of their own."""
    envelope = an_envelope(payload={"text": "x" * size}, **options)
    backend.enqueue([envelope])
    clock.advance(1)

    for end in (Settlement.release, lambda lease: Settlement.abandon(lease, "no")):
        (lease,) = backend.claim(a_claim())
        assert lease.envelope.data == envelope.data
        assert backend.get(envelope.id).data == envelope.data
        backend.settle([end(lease)])
        assert backend.list(Query())[0].data == envelope.data
    backend.replay(Query())
    backend.claim(a_claim(owner="old"))
    (lease,) = backend.open_session(a_session("new"), adopts="old")
    assert lease.envelope.data == envelope.data

    backend.settle([Settlement.ack(lease, keep=False)])

    assert (backend.get(envelope.id).tombstone, backend.get(envelope.id).data) == (True, b"")
    assert not raw.exists("{onward}:sealed")
    assert raw.hstrlen("{onward}:jobs", envelope.id) < 200


@SIZES
def test_a_job_that_leaves_no_trace_but_a_tombstone_is_found_by_its_repeat(backend, size):
    lease = a_lease(backend, payload={"text": "x" * size}, expires_at=2**52)
    backend.settle([Settlement.ack(lease, keep=False)])

    assert backend.settle([Settlement.ack(lease, keep=False)])[0].already_applied
    assert backend.get(lease.envelope.id).data == b""


@SIZES
def test_an_id_that_is_used_again_keeps_both_jobs_apart(backend, size):
    first = an_envelope(payload={"n": "1" * size})
    backend.enqueue([first])
    (lease,) = backend.claim(a_claim())
    backend.progress(lease, b"half")
    backend.abandon(lease, "no")
    second = an_envelope(id=first.id, payload={"n": "2" * size})

    assert backend.enqueue([second])[0].created

    assert (backend.get(first.id).data, backend.get(first.id).progress) == (second.data, None)
    (old,) = backend.list(Query(states=frozenset({State.DISCARDED})))
    assert (old.data, old.progress) == (first.data, b"half")
    assert backend.purge(Query(ids=(first.id,), states=FINISHED)) == 1
    assert backend.get(first.id).data == second.data
    (again,) = backend.claim(a_claim())
    assert backend.ack(again).applied
    assert backend.counts() == dict.fromkeys(State, 0) | {State.COMPLETED: 1}


def test_every_script_is_made_of_parts_that_it_needs():
    folder = scripts.files(scripts.__package__).joinpath("scripts")
    parts = {path.name.removesuffix(".lua") for path in folder.joinpath("lib").iterdir()}
    named = set()
    for path in folder.iterdir():
        if path.name.endswith(".lua"):
            assert len(scripts.load(path.name.removesuffix(".lua")).digest) == 40
            named |= set(path.read_text().split("\n")[0].removeprefix("-- needs: ").split(", "))

    assert named == parts
