"""A key file changes while an application runs: what it signs, verifies and encrypts with changes too."""

import pytest

from onward import Onward, State
from onward.job.definition import EnqueueOptions
from onward.security import key_file
from onward.security.key_ring import Key, KeyRing
from tests.waiting import eventually

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.parametrize("store", ["memory", "sqlite"])]

OLD = KeyRing([Key.new("k1")])
BOTH = OLD.adding(Key.new("k2"))
NEW = BOTH.promoting()


@pytest.fixture
def path(tmp_path, private_files):
    path = tmp_path / "keys"
    path.write_text(OLD.to_text())
    return path


@pytest.fixture
def change(path):
    """Put another file in its place: as text, which is what an orchestrator does."""

    def change(ring):
        new = path.with_name("new")
        new.write_text(ring if isinstance(ring, str) else ring.to_text())
        new.replace(path)

    return change


@pytest.fixture
def jobs(url, path, monkeypatch):
    monkeypatch.setattr(key_file, "_EVERY", 0.01)
    with Onward(url, signing_keys=path, signing="require", encryption=True) as jobs:
        yield jobs


@pytest.fixture
def work(jobs):
    @jobs.job
    def work(n: int) -> int:
        return n

    return work


def signed_with(handle):
    record = handle.record()
    return record.raw.split(b" ")[1].decode()


def told_of(jobs, ring):
    """The watcher has seen it."""
    eventually(lambda: jobs._parts.producer.keys.file.ring.states == ring.states)


@pytest.mark.promise("S37")
def test_what_is_signed_with_a_key_that_was_added_runs(jobs, work, change):
    """Its worker is asked nothing meanwhile: it learns of the key by itself, or when it meets the job."""
    with jobs.worker():
        assert work.enqueue(1).result(timeout=60) == 1
        change(NEW)
        told_of(jobs, NEW)
        added = work.enqueue(2)

        assert (signed_with(added), added.result(timeout=60)) == ("k2", 2)
        assert b"A256GCM k2" in added.record().raw


@pytest.mark.promise("S37")
def test_what_is_signed_with_a_key_that_was_revoked_is_refused_and_kept(jobs, work, change):
    with jobs.worker(queues=["default"]) as worker:
        assert work.enqueue(1).result(timeout=60) == 1
        jobs.pause("default")
        waiting = work.enqueue(2)
        change(NEW.revoking("k1"))
        told_of(jobs, NEW.revoking("k1"))
        jobs.resume("default")
        eventually(lambda: waiting.record().is_finished)

        assert worker.running
        assert (waiting.record().state, waiting.record().reason) == (
            State.DISCARDED,
            "it was signed with key k1, which is revoked",
        )
        assert jobs.metrics.count("jobs_rejected_signature") == 1


@pytest.mark.promise("S37")
def test_a_job_whose_key_was_added_a_moment_ago_makes_the_worker_look(jobs, work, change, monkeypatch):
    jobs.drain()  # it has looked
    monkeypatch.setattr(jobs._parts.producer.keys.file, "_next", float("inf"))  # and does not by itself
    change(BOTH)
    early = seal_with(NEW, jobs)

    jobs.drain()

    assert jobs.get(early).state is State.COMPLETED


def test_a_key_that_is_never_added_is_refused_still(jobs, work):
    stranger = seal_with(KeyRing([Key.new("k9")]), jobs)
    jobs.drain()

    assert jobs.get(stranger).reason == "it was signed with key k9, which is not known here"


@pytest.mark.promise("S37")
def test_with_a_file_that_makes_no_sense_everything_goes_on(jobs, work, change, path, caplog):
    def complaints():
        return [record for record in caplog.records if "the keys are unchanged" in record.message]

    with jobs.worker():
        change("k2:short")
        eventually(complaints)
        path.unlink()
        eventually(lambda: len(complaints()) == 2)

        assert work.enqueue(1).result(timeout=60) == 1
        change(NEW)
        told_of(jobs, NEW)
        assert signed_with(work.enqueue(2)) == "k2"
    assert len(complaints()) == 2


def test_every_way_to_enqueue_signs_with_the_new_key(jobs, work, change):
    ways = {
        "a call": lambda: work.enqueue(1),
        "with options": lambda: work.using(delay=5).enqueue(1),
        "by name": lambda: jobs.enqueue("work", {"n": 1}),
        "many": lambda: work.enqueue_many([(1,)])[0],
    }
    keyed = work.using(priority=5)
    assert {name: signed_with(way()) for name, way in ways.items()} == dict.fromkeys(ways, "k1")
    assert signed_with(keyed.enqueue(1)) == "k1"
    change(NEW)
    eventually(lambda: jobs._parts.producer.keys.file.look().states == NEW.states)

    assert {name: signed_with(way()) for name, way in ways.items()} == dict.fromkeys(ways, "k2")
    assert signed_with(keyed.enqueue(1)) == "k2"


def seal_with(ring, jobs):
    """A job of another program, which has other keys, in this store."""
    with Onward("memory://", signing_keys=ring, encryption=True) as other:
        envelope = other.client.letters.seal_by_name("work", {"n": 7}, EnqueueOptions.check({}))
    jobs.backend.enqueue([envelope])
    return envelope.id
