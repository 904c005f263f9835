"""Schedules on every store: processes that book, take back, claim and settle at once; and two namespaces of one server."""

import itertools
import random
from contextlib import ExitStack, closing, nullcontext

import pytest

from onward.backend import Claim, Query, ScheduleChange, Settlement, Turn
from onward.backends.mysql import MySQLBackend
from onward.backends.postgres import PostgresBackend
from onward.backends.redis import RedisBackend
from onward.backends.sqlite import SqliteBackend
from onward.base.clock import SECOND
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_session, an_envelope, at_once, ids
from onward.testing.contract.schedules import a_change, a_schedule, the_schedule
from tests.servers.stores import emptied

SCHEDULES = ("first", "second", "third")
ROUNDS = 40


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "redis"])
def server(request):
    """The backend of a store, its URL, and a check that its server counts no deadlock."""
    match request.param:
        case "sqlite":
            return SqliteBackend, f"sqlite:///{request.getfixturevalue('tmp_path') / 'jobs.db'}", nullcontext
        case "postgres":
            postgres = request.getfixturevalue("newest_postgres")
            return PostgresBackend, emptied(postgres), postgres.without_deadlock
        case "mariadb":
            mariadb = request.getfixturevalue("mariadb")
            return MySQLBackend, mariadb.emptied(), mariadb.without_deadlock
        case _:
            redis = request.getfixturevalue("any_redis")
            with closing(RedisBackend.from_url(redis.url())) as backend:
                backend.empty()
            return RedisBackend, redis.url(), nullcontext


@pytest.fixture
def open_backend(server):
    kind, url, _ = server
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(closing(kind.from_url(url, **options)))


def book(backend, number, tally):
    """Move schedules on: book the next ticks, now and then take back what was booked and book it anew."""
    rng = random.Random(number)
    for _ in range(ROUNDS):
        name = rng.choice(SCHEDULES)
        row = the_schedule(backend, name)
        ticks = range(row.booked_until, row.booked_until + 3)
        new = [an_envelope(id=f"{name}-{tick:06}", delay=rng.choice([0, 0, 0.001, 3600])) for tick in ticks]
        old = [f"{name}-{tick:06}" for tick in range(max(0, row.booked_until - 4), row.booked_until)]
        again = [an_envelope(id=job_id) for job_id in old[2:]] if old else []
        booked = a_schedule(name, booked_until=ticks.stop, missed=row.missed + 1)
        change = ScheduleChange(name=name, version=row.version, row=booked, take_back=old, envelopes=[*again, *new])
        tally.append(backend.change_schedule(change))
        backend.schedules_seen(rng.sample(SCHEDULES, len(SCHEDULES)))


def work(backend, number, ran):
    """Claim and settle, with every turn some of each."""
    owner, rng = f"w{number}", random.Random(number)
    backend.open_session(a_session(owner))
    leases = []
    for _ in range(2 * ROUNDS):
        settlements = [rng.choice([Settlement.ack, Settlement.ack, Settlement.release])(lease) for lease in leases]
        result = backend.turn(Turn(owner=owner, settlements=settlements, claim=Claim(queues=("default",), limit=3)))
        assert all(answer.applied for answer in result.settled), result.settled
        leases = result.leases
        ran += [lease.envelope.id for lease in leases if lease.token == 1]
    backend.turn(Turn(owner=owner, settlements=[*map(Settlement.ack, leases)]))


def test_processes_that_book_and_work_at_once_lose_nothing_and_start_nothing_twice(server, open_backend, report):
    _, _, without_deadlock = server
    clients = [open_backend() for _ in range(6)]
    for name in SCHEDULES:
        assert clients[0].change_schedule(a_change(0, a_schedule(name, booked_until=0)))
    changed, ran = [], []

    def act(number):
        if number % 2:
            book(clients[number], number, changed)
        else:
            work(clients[number], number, ran)

    with without_deadlock():
        at_once(6, act)

    rows = {row.name: row for row in clients[0].schedules().rows}
    assert sum(row.version - 1 for row in rows.values()) == sum(changed)
    assert [row.missed for row in rows.values()] == [row.version - 1 for row in rows.values()]
    jobs = {job.id: job for job in clients[0].list(Query(limit=10_000))}
    assert len(ran) == len(set(ran))
    # What has begun was neither removed nor stored anew; what has not is there, but for the ticks that were taken back.
    assert all(jobs[job_id].delivery > 0 for job_id in ran)
    assert {job.id for job in jobs.values() if job.state in FINISHED} <= set(ran)
    last = [f"{name}-{rows[name].booked_until - back:06}" for name, back in itertools.product(rows, (1, 2, 3))]
    assert set(last) <= jobs.keys()
    report(f"{sum(changed)} of {len(changed)} changes came first, {len(ran)} jobs ran")


def test_changes_that_take_back_and_replace_unique_keys_do_not_wait_for_each_other(server, open_backend):
    """Each removes a job with the key that the other stores, and stores one with the key that the other removes."""
    _, _, without_deadlock = server
    clients = [open_backend(), open_backend()]
    keys = ("x", "y")
    held = [an_envelope(unique_key=key, delay=3600) for key in keys]
    for number, name in enumerate(SCHEDULES[:2]):
        assert clients[0].change_schedule(a_change(0, a_schedule(name), envelopes=[held[number]]))

    def change(number):
        mine, done = held[number], 0
        for version in range(1, ROUNDS):
            new = an_envelope(unique_key=keys[(number + version) % 2], delay=3600)
            taken = {"take_back": [mine.id], "envelopes": [new]}
            done += clients[number].change_schedule(a_change(version, a_schedule(SCHEDULES[number]), **taken))
            mine = new
        return done

    with without_deadlock() if isinstance(clients[0], PostgresBackend) else nullcontext():
        assert at_once(2, change) == [ROUNDS - 1] * 2

    assert clients[0].counts()[State.SCHEDULED] in (1, 2)


def test_namespaces_of_one_store_share_no_schedule(open_backend):
    ours, theirs = open_backend(), open_backend(namespace="theirs")
    booked = an_envelope(delay=3600)
    for each in (ours, theirs):
        each.empty()
        assert each.change_schedule(a_change(0, a_schedule(), envelopes=[booked]))
    assert ours.change_schedule(a_change(1, a_schedule(missed=1)))

    assert (the_schedule(ours).version, the_schedule(theirs).version) == (2, 1)
    assert list(ours.take_back([booked.id])) == [booked.id]
    assert theirs.get(booked.id).state is State.SCHEDULED
    ours.empty()
    assert (ours.schedules().rows, len(theirs.schedules().rows)) == ([], 1)
    theirs.empty()


def test_the_time_is_the_servers_own(open_backend, server):
    backend = open_backend()
    before = backend.schedules().now

    backend.change_schedule(a_change(0, a_schedule(), envelopes=[job := an_envelope(delay=60)]))

    after = backend.schedules().now
    assert before <= the_schedule(backend).seen_at <= after
    assert before <= backend.get(job.id).available_at - 60 * SECOND <= after
    assert ids([job]) == list(backend.take_back([job.id]))
