"""A job that has been everywhere is the same in every field, to the last byte of its seal."""

import pytest

from onward.backend import Query
from onward.contract.transfer import TRANSFERABLE
from onward.job.envelope import Sealed, open_sealed
from onward.job.states import State
from onward.operate.transfer import Transfer
from onward.testing.contract.builders import a_claim
from onward.testing.contract.transfer import a_varied_queue


def everything(store):
    """Return all that is known of the jobs that can be transferred."""
    return list(store.list(Query(states=TRANSFERABLE, limit=1000)))


@pytest.mark.promise("A22")
@pytest.mark.parametrize(
    "kinds",
    [
        ("memory", "sqlite", "postgres", "mariadb", "memory"),
        ("sqlite", "mariadb", "postgres", "sqlite"),
        ("sqlite", "postgres", "redis", "sqlite"),
        ("redis", "mariadb", "memory", "redis", "memory"),
        ("postgres", "memory", "mariadb", "sqlite", "memory"),
    ],
    ids="-".join,
)
def test_a_job_that_moved_is_what_it_was(open_store, clock, kinds):
    source = open_store(kinds[0], "first")
    a_varied_queue(source, clock)
    before = everything(source)
    assert {job.state for job in before} == TRANSFERABLE

    for number, kind in enumerate(kinds[1:]):
        target = open_store(kind, f"store-{number}")
        report = Transfer(source, target, batch=5).move("default")

        assert report.is_complete
        assert (report.moved, report.before, report.after) == (len(before),) * 3
        assert everything(target) == before
        assert everything(source) == []
        source = target
    for job in source.list(Query(states=TRANSFERABLE, limit=1000)):
        open_sealed(Sealed(job.id, job.queue, job.data))


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb", "redis"])
def test_a_key_that_was_confirmed_at_the_source_is_confirmed_at_the_target(open_store, clock, kind):
    source, target = open_store("memory"), open_store(kind)
    a_varied_queue(source, clock)

    Transfer(source, target).move("default")
    target.pause("default", paused=False)

    leases = []
    while claimed := target.claim(a_claim(limit=50)):
        leases += claimed
    assert [str(lease.hold) for lease in leases if b'"idempotency_key":"paid"' in lease.envelope.data] == ["done"]


def test_what_ended_stays_where_it_ended(open_store, clock):
    source, target = open_store("memory"), open_store("memory")
    a_varied_queue(source, clock)

    Transfer(source, target).move("default")

    assert source.counts()[State.COMPLETED] == 1
    assert sum(source.counts().values()) == 1
