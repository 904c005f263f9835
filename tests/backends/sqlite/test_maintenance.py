"""Keeping the file and its log small."""

import sqlite3
from contextlib import closing

import pytest

from onward.backend import TOMBSTONE, Settlement
from onward.backends.sqlite import connection, maintenance
from onward.backends.sqlite.health import wal_size
from onward.base.clock import SECOND
from onward.job.states import State
from onward.testing.contract.builders import a_claim, some_envelopes

LIMIT = 256 * 1024


@pytest.fixture
def finish(backend, clock):
    """Run some jobs to their end."""

    def run(count, **settlement):
        backend.enqueue(some_envelopes(count))
        leases = backend.claim(a_claim(limit=count))
        backend.settle([Settlement.ack(lease, **settlement) for lease in leases])

    return run


class TestTheLog:
    @pytest.mark.promise("F49")
    def test_a_reader_that_stays_is_reported_and_the_log_shrinks_when_it_goes(self, monkeypatch, open_backend, file):
        monkeypatch.setattr(connection, "WAL_LIMIT", LIMIT)
        backend = open_backend()
        log = _check(backend, "log")
        assert log.status == "ok"

        with closing(sqlite3.connect(file, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM onward_jobs").fetchone()
            while wal_size(file) <= 4 * LIMIT:
                backend.enqueue(some_envelopes(200))
            backend.prune({})

            assert wal_size(file) > LIMIT
            assert _check(backend, "log").status == "warn"

        backend.prune({})

        assert wal_size(file) <= LIMIT
        assert _check(backend, "log").status == "ok"

    @pytest.mark.promise("F49")
    def test_without_readers_it_never_grows_beyond_a_checkpoint(self, backend, file):
        for _ in range(30):
            backend.enqueue(some_envelopes(500))

        # A checkpoint comes every 1,000 pages; one large transaction may overshoot.
        assert wal_size(file) < 8 * 1024 * 1024


class TestPruning:
    def test_a_walk_comes_by_every_finished_job(self, backend, clock, finish):
        finish(25)
        clock.advance(10)
        after, removed, batches = "", 0, 0

        while after is not None:
            pruned = backend.prune({State.COMPLETED: clock.micros()}, after=after, limit=10)
            after, removed, batches = pruned.next, removed + sum(pruned.removed.values()), batches + 1

        assert (removed, batches) == (25, 3)
        assert backend.counts()[State.COMPLETED] == 0

    def test_a_job_that_is_too_young_does_not_stop_the_walk(self, backend, clock, finish):
        finish(5)
        cutoff = clock.micros() + 1
        clock.advance(10)
        finish(5)

        pruned = backend.prune({State.COMPLETED: cutoff})

        assert pruned.removed == {("default", State.COMPLETED): 5}
        assert backend.counts()[State.COMPLETED] == 5

    def test_tombstones_go_after_their_time_whatever_the_cutoffs(self, backend, clock, finish, file):
        finish(3, keep=False)
        assert backend.prune({}).removed == {}

        clock.advance(TOMBSTONE.total_seconds() + 1)

        assert backend.prune({}).removed == {("default", State.COMPLETED): 3}

    def test_spent_holds_are_dropped(self, backend, clock, file):
        backend.enqueue(some_envelopes(1, idempotency_key="once", idempotency_ttl=60))
        backend.settle([Settlement.ack(lease) for lease in backend.claim(a_claim())])
        backend.prune({})
        assert _count(file, "onward_holds") == 1

        clock.advance(61)
        backend.prune({})

        assert _count(file, "onward_holds") == 0

    def test_holds_of_ended_leases_leave_no_row(self, backend, file):
        backend.enqueue(some_envelopes(2, single_instance=True))
        held, busy = backend.claim(a_claim(limit=2))
        assert _count(file, "onward_holds") == 1

        backend.settle([Settlement.nack(held), Settlement.release(busy)])

        assert _count(file, "onward_holds") == 0

    def test_the_file_gives_pages_back_when_many_are_empty(self, backend, clock, finish, file, monkeypatch):
        monkeypatch.setattr(maintenance, "_WORTH_IT", 50)
        for _ in range(4):
            finish(500)
        clock.advance(1)
        before = _pages(backend)

        for _ in range(4):
            backend.prune({State.COMPLETED: clock.micros()}, limit=500)
        backend.prune({})

        assert _pages(backend) < before / 2
        assert backend.counts()[State.COMPLETED] == 0

    def test_another_connection_in_the_way_is_left_alone(self, backend, finish, file, monkeypatch):
        monkeypatch.setattr(maintenance, "_WORTH_IT", -1)
        monkeypatch.setattr(connection, "WAL_LIMIT", 0)
        finish(10)

        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            backend._shrink()


def test_expired_jobs_in_the_way_are_passed_over_and_go_turn_by_turn(backend, clock):
    expiring = some_envelopes(50, expires_at=clock.micros() + SECOND, priority=5)
    backend.enqueue(expiring + some_envelopes(3))
    clock.advance(2)

    leases = backend.claim(a_claim(limit=3))

    assert len(leases) == 3
    assert backend.counts()[State.CANCELLED] == 3


def _check(backend, name):
    (check,) = [check for check in backend.health() if check.name == name]
    return check


def _count(file, table):
    with closing(sqlite3.connect(file)) as looking:
        return looking.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def _pages(backend):
    with backend._connections.tidying() as writer:
        return writer.execute("PRAGMA page_count").fetchone()[0]
