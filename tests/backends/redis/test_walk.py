"""The walk of the scripts is the walk of `onward.flow.walk`: after the same history both claim, book and charge the same."""

from contextlib import closing

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward.backend import Claim, LimitRow, Query, Session
from onward.backends.memory import MemoryBackend
from onward.backends.redis import RedisBackend, layout
from onward.base.clock import SECOND
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds, rate_of
from onward.flow.room import FOREVER, Gate, Scope
from onward.flow.tokens import Bucket
from onward.flow.walk import Cursors
from onward.job.settlement import GateChange
from onward.job.states import State
from onward.testing import FakeClock
from onward.testing.contract.builders import SETTLEMENTS, a_session, a_turn, an_envelope
from onward.testing.contract.lanes import in_lane
from tests.servers.redis import emptied

QUEUES = ("default", "other")
JOBS = ("", "mail", "mail.send", "render")
KEYS = (None, "a", "b", "ä/c", "d")
OWNERS = ("one", "two")
LIVE = frozenset({State.SCHEDULED, State.AVAILABLE, State.EXECUTING, State.RETRYABLE})

queues, keys, jobs = st.sampled_from(QUEUES), st.sampled_from(KEYS), st.sampled_from(JOBS)
bounds = st.builds(
    Bounds,
    running=st.sampled_from([None, 1, 2, 5]),
    rate=st.sampled_from([None, rate_of("2/s"), rate_of("10/min", 3), rate_of("7/h"), rate_of("1/day")]),
)
scopes = st.tuples(st.just("queue"), queues) | st.tuples(st.sampled_from(["job", "key"]), st.sampled_from(JOBS[1:]))
seconds = st.sampled_from([0.25, 1, 6, 45, 600])
gates = st.none() | st.builds(
    GateChange,
    st.builds(lane_of, st.sampled_from(JOBS[1:]), keys),
    st.sampled_from([0, 5, 30]),
    st.booleans(),
)
added = st.tuples(
    st.just("add"),
    st.integers(1, 6),
    jobs,
    keys,
    st.fixed_dictionaries(
        {
            "queue": queues,
            "priority": st.sampled_from([0, 0, 0, 5, -100, 100]),
            "cost": st.sampled_from([None, None, 2, 40]),
            "delay": st.sampled_from([0, 0, 0, 3]),
        },
        optional={"lives": st.just(20), "single_instance": st.just(True)},
    ),
)
claims = st.tuples(
    st.just("claim"),
    st.sampled_from(OWNERS),
    st.sampled_from([QUEUES, QUEUES[::-1], QUEUES[:1]]),
    st.sampled_from([1, 3, 10, 100]),
    st.sampled_from([None, None, 0, 2]),
    st.dictionaries(queues, st.integers(1, 4)),
    st.lists(st.tuples(st.integers(0, 100), st.sampled_from(sorted(SETTLEMENTS)), gates), max_size=4),
)
steps = (
    added
    | claims
    | claims
    | st.tuples(st.just("fill"), st.sampled_from(JOBS[1:]), queues)
    | st.tuples(st.just("declare"), scopes, bounds, st.integers(0, 3))
    | st.tuples(st.just("set"), scopes, bounds, st.booleans())
    | st.tuples(st.just("shut"), st.builds(lane_of, st.sampled_from(JOBS[1:]), keys), st.booleans())
    | st.tuples(st.just("let_pass"), st.sampled_from([0.25, 1, 6, 45, 600, -30]))
    | st.tuples(st.just("reap"), st.sampled_from(OWNERS))
    | st.tuples(st.just("cancel"), st.integers(0, 100))
)


class Pair:
    """One history in two stores: in memory, where Python walks, and on a server, where a script does."""

    def __init__(self, backend, clock):
        self.clock = clock
        self.memory, self.redis = MemoryBackend(clock=clock), backend
        self.leases = []  # of both
        for owner in OWNERS:
            self.both("open_session", a_session(owner, lease_for=1_000_000))
        backend._places.cursors = Cursors()
        for cursors in (self.memory._cursors, backend._places.cursors):
            # No place is drawn: both begin where they are told.
            cursors.groups |= dict.fromkeys(QUEUES, "mail/")
            cursors.lanes |= {(queue, f"{job}/"): f"{job}/8" for queue in QUEUES for job in JOBS}

    def both(self, verb, *args, **options):
        answers = [getattr(each, verb)(*args, **options) for each in (self.memory, self.redis)]
        return tuple(answers)

    def add(self, count, job, key, letter):
        lives = letter.pop("lives", None)
        if lives is not None:
            letter["expires_at"] = self.clock.micros() + lives * SECOND
        lane = lane_of(job, key)
        self.both("enqueue", [an_envelope(job=job or "work", lane=lane, **letter) for _ in range(count)])

    def fill(self, job, queue):
        self.both("enqueue", [in_lane(1, f"tenant-{number}", of=job, queue=queue)[0] for number in range(90)])

    def claim(self, owner, named, limit, begins, at_most, ends):
        pairs = []
        for number, move, gate in ends if self.leases else ():
            ours, theirs = self.leases[number % len(self.leases)]
            if ours.owner == owner:
                pairs.append([with_gate(SETTLEMENTS[move](lease), gate) for lease in (ours, theirs)])
        claim = Claim(queues=named, limit=limit, begins=begins, at_most=at_most)
        ours = self.memory.turn(a_turn(*(each[0] for each in pairs), owner=owner, claim=claim))
        theirs = self.redis.turn(a_turn(*(each[1] for each in pairs), owner=owner, claim=claim))
        assert shown(theirs.leases) == shown(ours.leases)
        assert (theirs.more, theirs.awaits_slots, theirs.promoted) == (ours.more, ours.awaits_slots, ours.promoted)
        assert theirs.settled == ours.settled
        self.leases += zip(ours.leases, theirs.leases, strict=True)

    def declare(self, scope, numbers, declared_at):
        kind, name = scope
        row = LimitRow(kind=kind, name=name, declared=numbers, declared_at=declared_at)
        self.both("open_session", Session(owner="declares", limits=(row,)))

    def set(self, scope, numbers, new):
        ours, theirs = self.both("set_limit", *scope, numbers, new=new)
        assert ours == theirs

    def shut(self, lane, opened):
        self.both("shut", lane, opened=opened)

    def let_pass(self, time):
        self.clock.advance(time)

    def reap(self, owner):
        self.both("reap", owner=owner)
        self.both("open_session", a_session(owner, lease_for=1_000_000))

    def cancel(self, number):
        found = self.memory.list(Query(states=LIVE, limit=200))
        if found:
            ours, theirs = self.both("cancel", [found[number % len(found)].id], "not needed")
            assert ours == theirs

    def compare(self):
        ours, theirs = self.both("list", Query(states=LIVE, limit=5_000))
        assert [(job.id, job.state, job.available_at) for job in theirs] == [
            (job.id, job.state, job.available_at) for job in ours
        ]
        ours, theirs = self.both("limits")
        assert theirs == ours
        assert gates_of(self.redis) == {
            scope: gate for scope, gate in self.memory._store.gates.items() if gate != Gate()
        }
        one, other = self.memory._cursors, self.redis._places.cursors
        assert (other.groups, other.lanes, other.circles) == (one.groups, one.lanes, one.circles)
        for queue in QUEUES:
            until = self.memory._until_due([queue]) * SECOND
            assert looked(self.redis, queue) == (-1 if until >= 86_400 * SECOND else pytest.approx(until, abs=1)), queue


def with_gate(settlement, gate):
    return settlement if gate is None else msgspec.structs.replace(settlement, gate=gate)


def shown(leases):
    return [(each.envelope.id, each.lane, each.probe, each.token, each.hold, each.claimed_at) for each in leases]


def gates_of(backend):
    with backend._connections.borrowed() as connection:
        found = connection.ask("HGETALL", "{onward}:gates")
    gates = {}
    for field, raw in zip(found[::2], found[1::2], strict=True):
        full_at, written_at, until, length = layout.binary(layout.GATE).unpack(raw)
        gate = Gate(Bucket(full_at, written_at), FOREVER if until >= FOREVER - 64 else until, length)
        if gate != Gate():
            gates[Scope(*field.decode().split("\n"))] = gate
    return gates


def looked(backend, queue):
    due = backend._run("look", backend._now(), [queue])
    due = backend._run("look_into_lanes", backend._now(), [queue], 7) if due == -2 else due
    return -1 if due >= 86_400 * SECOND else due


@pytest.mark.timeout(600)  # an example that fails is made small
@pytest.mark.promise("L46", "L47", "L48", "L49", "L50", "L52")
def test_the_scripts_walk_as_python_does(redis):
    clock = FakeClock()
    with closing(RedisBackend.from_url(emptied(redis), clock=clock)) as backend:

        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        @given(st.lists(steps, min_size=4, max_size=40))
        def compare(history):
            backend.empty()
            pair = Pair(backend, clock)
            for name, *how in history:
                getattr(pair, name)(*how)
                pair.compare()

        compare()
