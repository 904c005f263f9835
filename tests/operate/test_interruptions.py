"""A transfer that is killed anywhere, whatever others do before it is run again: every job runs once, in one of the stores.

It is stopped before and after each of its writes.  Then people and workers do what they should not: they resume a queue and
run what they get, with no history kept, until even the tombstones are gone.
"""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial

import pytest

from onward.backend import Query, Settlement
from onward.contract.transfer import TRANSFERABLE
from onward.errors import BackendRefused, BackendUnavailable, QueueReserved
from onward.job.states import State
from onward.operate.transfer import Transfer
from onward.testing.contract.builders import a_claim, a_session, an_envelope, some_envelopes
from tests.waiting import eventually

WRITES = {"reserve", "restore", "remove"}
LONG = 3600.0


class Killed(BaseException):
    """The process is gone."""


class Fragile:
    """A store on which a transfer is killed at its n-th write, before it or after it."""

    def __init__(self, store, fuse):
        self._store = store
        self._fuse = fuse

    def __getattr__(self, name):
        verb = getattr(self._store, name)
        if name not in WRITES:
            return verb

        def burn(*args, **words):
            self._fuse.burn("before")
            answer = verb(*args, **words)
            self._fuse.burn("after")
            return answer

        return burn


class Fuse:
    """At its end the transfer is killed, or something else happens."""

    def __init__(self, length, side, act=None):
        self.left = length
        self.side = side
        self.act = act

    def burn(self, side):
        if side != self.side:
            return
        self.left -= 1
        if self.left == 0:
            if self.act is None:
                raise Killed
            self.act()


def run_all(store, clock, runs):
    """Resume the queue, if that is possible; run what a worker without history gets; prune after the tombstones' time."""
    with suppress(QueueReserved):
        store.pause("default", paused=False)
    clock.advance(LONG)
    while leases := store.claim(a_claim(limit=50)):
        runs.update(lease.envelope.id for lease in leases)
        store.settle([Settlement.ack(lease, keep=False) for lease in leases])
    clock.advance(LONG)
    store.prune({State.COMPLETED: clock.micros()}, limit=1000)


def nothing(source, target, clock, runs):
    """Leave both as they are."""


def the_target_runs(source, target, clock, runs):
    run_all(target, clock, runs)


def the_source_runs(source, target, clock, runs):
    run_all(source, clock, runs)


def both_run(source, target, clock, runs):
    run_all(source, clock, runs)
    run_all(target, clock, runs)


def people_retry_and_cancel(source, target, clock, runs):
    """Ask of jobs at the source what can be asked by their ids."""
    jobs = source.list(Query(limit=100))
    source.retry([job.id for job in jobs])
    cancelled = [job.id for job in jobs if job.state is not State.DISCARDED][:1]
    source.cancel(cancelled, "no use")
    runs.update(cancelled)  # as good as run: it must not run any more
    source.replay(Query(states=frozenset({State.DISCARDED}), limit=100))


def filled(store):
    envelopes = [*some_envelopes(3), an_envelope(delay=60), an_envelope(unique_key="k")]
    store.enqueue(envelopes)
    dead = an_envelope(priority=9)
    store.enqueue([dead])
    store.abandon(store.claim(a_claim())[0], "dead")
    return [*envelopes, dead]


def writes_of_a_move(open_store, kind):
    source, target = open_store(kind, "counted"), open_store("memory")
    filled(source)
    fuse = Fuse(10_000, "after")
    Transfer(Fragile(source, fuse), Fragile(target, fuse), batch=2).move("default")
    return 10_000 - fuse.left


def check_that_every_job_ran_once(source, target, clock, runs, envelopes):
    assert [queue.reserved_for for store in (source, target) for queue in store.queues() if queue.reserved_for] == []
    assert sum(source.counts("default")[state] for state in TRANSFERABLE) == 0
    for store in (source, target):
        store.replay(Query(states=frozenset({State.DISCARDED}), limit=10))
        run_all(store, clock, runs)
    assert runs == Counter({each.id: 1 for each in envelopes})


# In memory, which is quick, all of it; elsewhere the worst.
MEANWHILE = pytest.mark.parametrize(
    ("kind", "meanwhile"),
    [
        ("memory", nothing),
        ("memory", the_target_runs),
        ("memory", the_source_runs),
        ("memory", people_retry_and_cancel),
        ("memory", both_run),
        ("sqlite", both_run),
        ("redis", both_run),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)


@pytest.mark.promise("A22")
@MEANWHILE
def test_every_job_runs_once_whatever_happens_between_two_writes(open_store, clock, kind, meanwhile):
    for number in range(1, writes_of_a_move(open_store, kind) + 1):
        source, target = open_store(kind, f"source-{number}"), open_store("memory")
        envelopes = filled(source)
        runs = Counter()
        fuse = Fuse(number, "after", partial(meanwhile, source, target, clock, runs))

        Transfer(Fragile(source, fuse), Fragile(target, fuse), batch=2).move("default")
        Transfer(source, target, batch=2).move("default")

        check_that_every_job_ran_once(source, target, clock, runs, envelopes)


@pytest.mark.promise("A22")
@MEANWHILE
def test_every_job_runs_once_wherever_the_transfer_is_killed(open_store, clock, kind, meanwhile, report):
    writes = writes_of_a_move(open_store, kind)
    for number in range(1, writes + 1):
        for side in ("before", "after"):
            source, target = open_store(kind, f"source-{number}-{side}"), open_store("memory")
            envelopes = filled(source)
            runs = Counter()
            fuse = Fuse(number, side)
            with pytest.raises(Killed):
                Transfer(Fragile(source, fuse), Fragile(target, fuse), batch=2).move("default")

            meanwhile(source, target, clock, runs)
            Transfer(source, target, batch=2).move("default")

            check_that_every_job_ran_once(source, target, clock, runs, envelopes)
    report(
        f"a transfer killed at {writes} writes of {kind}, before and after, then {meanwhile.__name__}: every job ran once"
    )


@pytest.mark.promise("A22")
def test_another_source_is_refused_until_the_first_transfer_has_ended(open_store, clock):
    one, other, target = open_store("memory"), open_store("memory"), open_store("memory")
    one.enqueue(mine := some_envelopes(3))
    other.enqueue(some_envelopes(2))
    with pytest.raises(Killed):  # the copies are there, and the first source has removed none
        Transfer(one, Stops(target, "restore", Fuse(1, "after")), name="from one to target").move("default")

    with pytest.raises(QueueReserved, match="from one to target"):
        Transfer(other, target).move("default")

    assert target.claim(a_claim(limit=9)) == []
    assert Transfer(one, target).move("default").is_complete
    assert Transfer(other, target).move("default").moved == 2
    runs = Counter()
    run_all(target, clock, runs)
    assert {runs[each.id] for each in mine} == {1}
    assert len(runs) == 5


@pytest.mark.promise("A22")
def test_a_transfer_that_may_have_copied_goes_on_to_the_same_store_only(open_store):
    source, target, wrong = open_store("memory"), open_store("memory"), open_store("memory")
    source.enqueue(some_envelopes(3))
    with pytest.raises(Killed):
        Transfer(source, Stops(target, "restore", Fuse(1, "after"))).move("default")

    refused = []
    for start in (source, target):
        try:
            Transfer(start, wrong).move("default")
        except QueueReserved as error:
            refused.append("it went to another store" in str(error))

    assert (refused, list(wrong.queues())) == ([True, False], [])
    assert Transfer(source, target).move("default").moved == 3


@pytest.mark.promise("A22")
def test_a_process_that_was_overtaken_neither_restores_nor_removes(open_store, clock):
    source, target = open_store("memory"), open_store("memory")
    source.enqueue([envelope := an_envelope()])
    runs = Counter()

    def overtake():
        assert Transfer(source, target).move("default").moved == 1
        run_all(target, clock, runs)

    slow = Stops(target, "restore", Fuse(1, "before", overtake))
    with pytest.raises(BackendUnavailable, match="run the command again"):
        Transfer(source, slow).move("default")

    run_all(source, clock, runs)
    run_all(target, clock, runs)
    assert runs == {envelope.id: 1}


@pytest.mark.promise("A22")
def test_a_copy_that_the_source_has_changed_since_is_replaced(open_store, clock):
    source, target = open_store("memory"), open_store("memory")
    source.enqueue([envelope := an_envelope(delay=60)])
    with pytest.raises(Killed):
        Transfer(source, Stops(target, "restore", Fuse(1, "after"))).move("default")

    source.retry([envelope.id])
    report = Transfer(source, target).move("default")

    assert (report.moved, report.before, report.after) == (1, 1, 1)
    assert target.get(envelope.id).state is State.AVAILABLE
    assert source.get(envelope.id) is None


@pytest.mark.promise("A22")
def test_a_job_that_is_cancelled_while_it_is_in_both_stores_does_not_run(open_store, clock):
    source, target = open_store("memory"), open_store("memory")
    source.enqueue([envelope := an_envelope()])
    with pytest.raises(Killed):
        Transfer(source, Stops(target, "restore", Fuse(1, "after"))).move("default")

    source.cancel([envelope.id], "no use")
    Transfer(source, target).move("default")

    runs = Counter()
    run_all(source, clock, runs)
    run_all(target, clock, runs)
    assert runs == {}
    assert target.get(envelope.id) is None


@pytest.mark.promise("A22")
def test_a_signal_that_came_to_either_store_is_kept(open_store):
    source, target = open_store("memory"), open_store("memory")
    source.enqueue([early := an_envelope(), late := an_envelope()])
    with pytest.raises(Killed):
        Transfer(source, Stops(target, "restore", Fuse(1, "after"))).move("default")

    source.signal(early.id, "paid", b"1")
    target.signal(late.id, "paid", b"2")

    assert Transfer(source, target).move("default").is_complete
    assert [[note.value for note in target.notes(each.id)] for each in (early, late)] == [[b"1"], [b"2"]]


@pytest.mark.promise("A22")
def test_a_job_that_the_target_refuses_now_has_no_copy_there(open_store, clock):
    source, target = open_store("memory"), open_store("memory")
    source.enqueue([envelope := an_envelope(delay=60)])
    with pytest.raises(Killed):
        Transfer(source, Stops(target, "restore", Fuse(1, "after"))).move("default")
    source.retry([envelope.id])

    report = Transfer(source, RefusesTheSecond(target)).move("default")

    assert report.stayed == {envelope.id: "no room"}
    assert list(target.list(Query())) == []
    assert Transfer(source, target).move("default").moved == 1
    runs = Counter()
    run_all(source, clock, runs)
    run_all(target, clock, runs)
    assert runs == {envelope.id: 1}


@pytest.mark.promise("A22")
def test_a_job_that_is_enqueued_again_after_it_has_arrived_runs_once(open_store, clock):
    source, target = open_store("memory"), open_store("memory")
    source.enqueue([envelope := an_envelope()])
    with pytest.raises(Killed):  # it is removed at the source
        Transfer(Stops(source, "remove", Fuse(1, "after")), target).move("default")

    source.enqueue([envelope], retried=True)  # by a client that was not answered
    assert Transfer(source, target).move("default").is_complete

    runs = Counter()
    run_all(source, clock, runs)
    run_all(target, clock, runs)
    assert runs == {envelope.id: 1}


@pytest.mark.promise("A22")
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_reservation_waits_for_claims_that_began_before_it(open_store, kind):
    store = open_store(kind)
    store.open_session(a_session())
    claiming, may_end, order = threading.Event(), threading.Event(), []

    def claim(tx):
        """A claim that has locked its session and looked at the pauses."""
        tx.ask("lock_sessions", owners=["worker"]).rows()
        claiming.set()
        assert may_end.wait(60)
        order.append("claimed")

    def reserve():
        assert store.reserve("default", "sends 1.1")
        order.append("reserved")

    with ThreadPoolExecutor(2) as threads:
        claimed = threads.submit(store._write, claim)
        assert claiming.wait(60)
        reserved = threads.submit(reserve)
        eventually(lambda: [queue.reserved_for for queue in store.queues()] == ["sends 1.1"])
        assert not wait([reserved], timeout=0.5).done
        may_end.set()
        claimed.result(60)
        reserved.result(60)

    assert order == ["claimed", "reserved"]


class RefusesTheSecond(Fragile):
    """A store that knows a copy, and takes no other."""

    def __init__(self, store):
        super().__init__(store, Fuse(-1, "never"))
        self._calls = 0

    def restore(self, *args):
        self._calls += 1
        if self._calls > 1:
            raise BackendRefused("no room")
        return self._store.restore(*args)


class Stops(Fragile):
    """It is killed at one verb only."""

    def __init__(self, store, verb, fuse):
        super().__init__(store, fuse)
        self._verb = verb

    def __getattr__(self, name):
        return super().__getattr__(name) if name == self._verb else getattr(self._store, name)
