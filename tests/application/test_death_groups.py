"""`jobs.dead_letters.groups()`: how many failures thousands of dead jobs are, where they come from and in which builds."""

from datetime import timedelta

import msgspec
import pytest

from onward import Discard, Onward
from onward.backend import Session, Settlement
from onward.base.fingerprint import of_text
from onward.contract.description import WorkerDescription
from onward.errors import OptionError, Unsupported
from onward.security.key_ring import KeyRing
from onward.testing.contract.builders import a_lease, an_envelope
from tests.application.every_store import redis_server, store, url  # noqa: F401

RING = KeyRing.parse(f"k1:{'key-' * 10}")


def charge(jobs):
    @jobs.job(max_retries=0)
    def charge(order: int) -> None:
        if order % 2:
            raise ValueError(f"order {order} has no price")
        raise KeyError(order)

    return charge


@pytest.mark.promise("S132")
def test_dead_jobs_are_shown_in_groups_largest_first(jobs, clock):
    work = charge(jobs)
    work.enqueue_many([(1,), (3,), (2,)])
    first = clock.now()
    jobs.drain()
    clock.advance(60)
    work.enqueue(5)
    jobs.drain()

    prices, orders = jobs.dead_letters.groups()

    assert (prices.job, prices.kind, prices.count, prices.or_more) == ("charge", "ValueError", 3, False)
    assert (orders.kind, orders.count) == ("KeyError", 1)
    assert prices.last - prices.first == timedelta(seconds=60)
    assert prices.first == first
    assert (prices.first_id, prices.last_id) == (min(ids_of(jobs, prices)), max(ids_of(jobs, prices)))
    assert prices.place is not None
    assert prices.place.endswith(" in charge")
    assert __file__ in prices.place


def test_a_job_that_is_replayed_and_dies_again_has_died_last(jobs, clock):
    first, second = charge(jobs).enqueue_many([(1,), (3,)])
    died = clock.now()
    jobs.drain()
    clock.advance(3600)
    jobs.dead_letters.replay(first.id)
    jobs.drain()

    (group,) = jobs.dead_letters.groups()

    assert (group.first, group.last) == (died, died + timedelta(hours=1))
    assert "It is one of 2 that died so, since 2030-01-01 00:00:00Z." in jobs.why(second.id).text


def ids_of(jobs, group):
    return [record.id for record in jobs.dead_letters.list() if record.errors[-1].fingerprint == group.fingerprint]


@pytest.mark.promise("S132")
@pytest.mark.parametrize(("at_most", "shown"), [(2, (2, True)), (3, (3, True)), (4, (3, False))])
def test_a_group_that_reaches_the_limit_says_so(jobs, at_most, shown):
    charge(jobs).enqueue_many([(1,), (3,), (5,)])
    jobs.drain()

    (group,) = jobs.dead_letters.groups(at_most=at_most)

    assert (group.count, group.or_more) == shown


@pytest.mark.parametrize("at_most", [0, -1, True, "10", 10**9])
def test_a_limit_that_is_none_is_refused(at_most):
    with Onward("memory://") as jobs, pytest.raises(OptionError, match="at_most must be a number from 1"):
        jobs.dead_letters.groups(at_most=at_most)


def test_groups_of_one_job_are_shown(jobs):
    charge(jobs).enqueue(1)

    @jobs.job(max_retries=0)
    def other() -> None:
        raise Discard("no such user 17")

    other.enqueue()
    jobs.drain()

    (group,) = jobs.dead_letters.groups(job="other")
    assert (group.job, group.kind, group.place is not None) == ("other", "onward.job.signals.Discard", True)


@pytest.mark.promise("S131")
def test_what_a_run_says_and_where_it_ran_is_in_its_record(jobs):
    charge(jobs).enqueue(1)
    jobs.drain()

    (record,) = jobs.dead_letters.list()
    (error,) = record.errors
    (group,) = jobs.dead_letters.groups()
    assert error.fingerprint == group.fingerprint
    assert len(error.fingerprint) == 12
    assert error.pid is not None
    assert error.host
    assert (error.build,) == group.builds


def test_builds_are_those_of_the_oldest_and_the_newest(jobs):
    for build in ("2026.10", "2026.11"):
        described = WorkerDescription(queues=("default",), build=build).encoded()
        a_lease(jobs.backend, owner=build, max_crashes=1)
        jobs.backend.open_session(Session(owner=build, host="web-3", pid=7, description=described))
        jobs.backend.reap(owner=build)

    (group,) = jobs.dead_letters.groups()

    assert (group.fingerprint, group.count, group.builds) == ("crashed", 2, ("2026.10", "2026.11"))
    assert (group.kind, group.place) == ("Crash", None)


def test_a_death_without_a_record_is_shown(jobs):
    jobs.backend.settle([Settlement.abandon(a_lease(jobs.backend), "gave up")])

    (group,) = jobs.dead_letters.groups()

    assert (group.fingerprint, group.kind, group.place, group.builds) == ("unexplained", "", None, ())


def test_a_job_that_is_gone_meanwhile_leaves_a_group_without_its_end(jobs, monkeypatch):
    charge(jobs).enqueue(1)
    jobs.drain()
    monkeypatch.setattr(type(jobs.backend), "get_many", lambda *_: [])

    (group,) = jobs.dead_letters.groups()

    assert (group.count, group.kind, group.builds) == (1, "", ())


def test_a_store_that_keeps_no_groups_says_so(jobs, monkeypatch):
    capabilities = msgspec.structs.replace(jobs.backend.capabilities, groups_deaths=False)
    monkeypatch.setattr(type(jobs.backend), "capabilities", capabilities)

    with pytest.raises(Unsupported, match="does not group dead jobs"):
        jobs.dead_letters.groups()


@pytest.mark.promise("S131")
def test_unknown_jobs_have_a_group_of_their_own(url, clock):  # noqa: F811
    with Onward(url, clock=clock, unknown_grace=1) as jobs:
        jobs.backend.enqueue([an_envelope(job="nobody_knows_it")])
        for _ in range(3):
            jobs.process_once()
            clock.advance(3600)

        (group,) = jobs.dead_letters.groups()
        assert (group.job, group.fingerprint, group.kind) == ("nobody_knows_it", "unknown", "UnknownJob")


@pytest.mark.promise("S131")
def test_the_message_of_an_encrypted_job_is_not_in_its_fingerprint(folder, clock):
    found = []
    for number, said in enumerate(("anna has no access", "otto has no money")):
        with Onward(f"sqlite:///{folder / f'{number}.db'}", clock=clock, encryption=True, signing_keys=RING) as jobs:

            @jobs.job(max_retries=0)
            def work(said: str = said) -> None:
                raise Discard(said)

            work.enqueue()
            jobs.drain()
            (group,) = jobs.dead_letters.groups()
            found.append(group.fingerprint)

    assert found[0] == found[1] == of_text("onward.job.signals.Discard", "")
