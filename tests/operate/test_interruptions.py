"""A mover that dies at any point, whatever others do before it is run again: every job runs once, in one of the stores.

The mover is stopped before and after each of its writes.  Then people and workers do what they should not: they resume a
queue and run what they get, with no history kept, until even the tombstones are gone.
"""

from collections import Counter
from functools import partial

import pytest

from onward.backend import Query, Settlement
from onward.contract.transfer import MOVABLE, Transit
from onward.errors import BackendRefused
from onward.job.states import State
from onward.operate.transfer import Mover
from onward.testing.contract.builders import a_claim, an_envelope, some_envelopes

WRITES = {"withhold", "accept", "forget", "admit", "pause"}
LONG = 3600.0


class Killed(BaseException):
    """The mover is no more."""


class Fragile:
    """A store on which a mover dies at its n-th write, before it or after it."""

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
    """At its end the mover dies, or something else happens."""

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
    """A worker with a retention of nothing, and a prune after the tombstones' time."""
    store.pause("default", paused=False)
    clock.advance(LONG)
    while leases := store.claim(a_claim(limit=50)):
        runs.update(lease.envelope.id for lease in leases)
        store.settle([Settlement.ack(lease, keep=False) for lease in leases])
    clock.advance(LONG)
    store.prune({State.COMPLETED: clock.micros()}, limit=1000)


def nothing(source, target, clock, runs):
    """Nobody touches anything."""


def the_target_runs(source, target, clock, runs):
    run_all(target, clock, runs)


def the_source_runs(source, target, clock, runs):
    run_all(source, clock, runs)


def both_run(source, target, clock, runs):
    run_all(source, clock, runs)
    run_all(target, clock, runs)


def people_retry_and_cancel(source, target, clock, runs):
    """Whatever can be asked of a job by its id is asked at the source."""
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
    Mover(Fragile(source, fuse), Fragile(target, fuse), batch=2).move("default")
    return 10_000 - fuse.left


def check_that_every_job_ran_once(source, target, clock, runs, envelopes):
    left = [queue.name for store in (source, target) for queue in store.queues() if Transit.parse(queue.name)]
    assert left == []
    assert sum(source.counts("default")[state] for state in MOVABLE) == 0
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

        Mover(Fragile(source, fuse), Fragile(target, fuse), batch=2).move("default")
        Mover(source, target, batch=2).move("default")

        check_that_every_job_ran_once(source, target, clock, runs, envelopes)


@pytest.mark.promise("A22")
@MEANWHILE
def test_every_job_runs_once_wherever_the_mover_dies(open_store, clock, kind, meanwhile, report):
    writes = writes_of_a_move(open_store, kind)
    for number in range(1, writes + 1):
        for side in ("before", "after"):
            source, target = open_store(kind, f"source-{number}-{side}"), open_store("memory")
            envelopes = filled(source)
            runs = Counter()
            fuse = Fuse(number, side)
            with pytest.raises(Killed):
                Mover(Fragile(source, fuse), Fragile(target, fuse), batch=2).move("default")

            meanwhile(source, target, clock, runs)
            Mover(source, target, batch=2).move("default")

            check_that_every_job_ran_once(source, target, clock, runs, envelopes)
    report(
        f"a mover that dies at {writes} writes of {kind}, before and after, then {meanwhile.__name__}: every job ran once"
    )


@pytest.mark.promise("A22")
def test_two_sources_do_not_take_each_other_s_jobs_for_their_own(open_store, clock):
    one, other, target = open_store("memory"), open_store("memory"), open_store("memory")
    one.enqueue(mine := some_envelopes(3))
    other.enqueue(some_envelopes(2))
    fuse = Fuse(1, "after")
    with pytest.raises(Killed):  # the copies are there, and the first source has let go of nothing
        Mover(one, Stops(target, "accept", fuse)).move("default")

    assert Mover(other, target).move("default").moved == 2

    runs = Counter()
    run_all(target, clock, runs)
    assert not {each.id for each in mine} & runs.keys()
    assert Mover(one, target).move("default").is_complete
    run_all(target, clock, runs)
    assert {runs[each.id] for each in mine} == {1}


@pytest.mark.promise("A22")
def test_a_copy_of_a_job_that_cannot_go_any_more_is_withdrawn(open_store, clock):
    source, target = open_store("memory"), open_store("memory")
    source.enqueue([envelope := an_envelope()])
    with pytest.raises(Killed):
        Mover(source, Stops(target, "accept", Fuse(1, "after"))).move("default")

    report = Mover(source, Refuses(target)).move("default")

    assert report.stayed == {envelope.id: "no room"}
    assert list(target.list(Query())) == []
    assert Mover(source, target).move("default").moved == 1
    runs = Counter()
    run_all(source, clock, runs)
    run_all(target, clock, runs)
    assert runs == {envelope.id: 1}


@pytest.mark.promise("A22")
def test_a_job_that_is_enqueued_again_while_its_copy_is_at_rest_runs_once(open_store, clock):
    source, target = open_store("memory"), open_store("memory")
    source.enqueue([envelope := an_envelope()])
    with pytest.raises(Killed):  # the source has let go of it
        Mover(source, Stops(target, "admit", Fuse(1, "before"))).move("default")

    source.enqueue([envelope], retried=True)  # by somebody who was not answered
    assert Mover(source, target).move("default").is_complete

    runs = Counter()
    run_all(source, clock, runs)
    run_all(target, clock, runs)
    assert runs == {envelope.id: 1}


class Refuses(Fragile):
    """Nothing fits in there."""

    def __init__(self, store):
        super().__init__(store, Fuse(-1, "never"))

    def accept(self, transit, parcels):
        raise BackendRefused("no room")


class Stops(Fragile):
    """It dies at one verb only."""

    def __init__(self, store, verb, fuse):
        super().__init__(store, fuse)
        self._verb = verb

    def __getattr__(self, name):
        return super().__getattr__(name) if name == self._verb else getattr(self._store, name)
