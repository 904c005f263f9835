"""Signatures through the whole application: who signs, who looks, and what becomes of what is refused."""

import asyncio
import logging
import sqlite3
from contextlib import closing

import msgspec
import pytest

from onward import JobContext, NoDelay, Onward, Snooze
from onward.errors import SigningKeyMissing
from onward.job.envelope import Letter, seal
from onward.operate.transfer import Transfer
from onward.security.key_ring import KeyRing
from onward.security.signing import Signer
from onward.telemetry import JobDiscarded

OLD, NEW = "old-" * 10, "new-" * 10
RING = KeyRing.parse(f"k2:{NEW},k1:{OLD}")
ID = "0" * 31 + "1"
REJECTED = "onward.errors.SignatureRejected"
DAY = 86_400


def strict(open_app, **settings):
    return open_app(**{"signing_keys": RING, "signing": "require", **settings})


def a_job(sign=None, **changes):
    """A job of an attacker who knows the format."""
    fields = {
        "id": ID,
        "namespace": "default",
        "queue": "default",
        "job": "work",
        "payload": msgspec.Raw(b'{"n":1}'),
        "max_crashes": 3,
        "enqueued_at": 0,
    }
    return seal(Letter(**(fields | changes)), sign=sign)


def is_signed(record):
    return record.raw.startswith(b"onward/1 k2 ")


@pytest.fixture
def ran():
    return []


def with_work(jobs, ran):
    @jobs.job(max_retries=3, retry=NoDelay())
    def work(n: int = 1):
        ran.append(n)

    return work


# Who signs


@pytest.mark.promise("S36")
def test_every_way_to_enqueue_signs(open_app, ran):
    jobs = strict(open_app)
    work = with_work(jobs, ran)
    handles = [
        work.enqueue(1),
        *work.enqueue_many([(2,), work.call(n=3)]),
        work.using(priority=5, expires="1h").enqueue(4),
        work.using(delay=0.001).enqueue(5),
        asyncio.run(work.aenqueue(6)),
        jobs.enqueue("work", {"n": 7}),
        *jobs.enqueue_many("work", [{"n": 8}]),
        asyncio.run(jobs.aenqueue("work", {"n": 9})),
        jobs.define("work", {"n": 10}).dispatch(),
    ]
    stranger = jobs.enqueue("unknown_here", {"n": 11}, queue="elsewhere")

    assert all(is_signed(handle.record()) for handle in [*handles, stranger])
    jobs.backend.clock.advance(1)
    jobs.drain("default")
    assert sorted(ran) == list(range(1, 11))
    assert jobs.metrics.count("jobs_rejected_signature") == 0


@pytest.mark.promise("S36")
@pytest.mark.parametrize("store", ["sqlite"])
def test_what_is_enqueued_in_a_transaction_is_signed(open_app, url, store, ran):
    jobs = strict(open_app)
    work = with_work(jobs, ran)

    @jobs.job
    def parent(ctx: JobContext):
        with ctx.transaction() as connection:
            connection.enqueue(work, 2)

    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        with jobs.transaction(connection) as tx:
            tx.enqueue(work, 1)
        connection.commit()
    parent.enqueue()
    jobs.drain()

    assert sorted(ran) == [1, 2]
    assert all(map(is_signed, jobs.list()))


@pytest.mark.promise("S36")
def test_retries_snoozes_crashes_and_replays_keep_the_signature(open_app, clock, crash_elsewhere):
    jobs, runs = strict(open_app), []

    @jobs.job(max_retries=2, retry=NoDelay())
    def fickle():
        runs.append(1)
        if len(runs) == 1:
            raise Snooze(5)
        if len(runs) <= 4:
            raise RuntimeError

    handle = fickle.enqueue()
    sealed = handle.record().raw
    crash_elsewhere(jobs)
    for _ in range(4):
        jobs.drain()
        clock.advance(10)
    assert (handle.state(), len(runs)) == ("discarded", 4)
    assert jobs.dead_letters.replay() == 1
    jobs.drain()

    assert (handle.state(), len(runs), handle.record().raw) == ("completed", 5, sealed)
    assert jobs.metrics.count("jobs_rejected_signature") == 0


@pytest.mark.promise("S36")
@pytest.mark.parametrize("store", ["sqlite"])
def test_a_job_that_moves_to_another_store_keeps_its_signature(open_app, store, folder, clock, ran):
    here = strict(open_app)
    handle = with_work(here, ran).enqueue()
    with Onward(f"sqlite:///{folder / 'there.db'}", clock=clock, signing_keys=RING, signing="require") as there:
        with_work(there, ran)
        assert Transfer(here.backend, there.backend).move("default").moved == 1
        there.resume("default")
        there.drain()

        assert (ran, there.get(handle.id).state) == ([1], "completed")


def test_without_a_key_nothing_is_signed(jobs, ran):
    handle = with_work(jobs, ran).enqueue()
    jobs.drain()

    assert handle.record().raw.startswith(b"onward/1 - -\n")
    assert ran == [1]


# Who looks


@pytest.mark.promise("S36", "S38")
def test_what_is_not_signed_is_refused_kept_counted_and_told_once(open_app, ran, listen, caplog):
    jobs = strict(open_app)
    with_work(jobs, ran)
    heard = listen(jobs)
    forged = a_job()
    jobs.backend.enqueue([forged])

    result = jobs.process_once()

    record = jobs.get(ID)
    assert (result.status, result.attempts, ran) == ("rejected", 0, [])
    assert (record.state, record.reason, record.raw) == ("discarded", "it is not signed", forged.data)
    assert [(error.kind, error.message) for error in record.errors] == [(REJECTED, "it is not signed")]
    assert jobs.metrics.snapshot() == {"jobs_fetched": {"default": 1}, "jobs_rejected_signature": {"default": 1}}
    (event,) = heard(JobDiscarded)
    assert (event.id, event.kind, event.reason) == (ID, REJECTED, "it is not signed")
    (line,) = [each for each in caplog.records if each.levelno >= logging.WARNING and each.name == "onward.job"]
    assert (line.levelno, line.event, line.job_id) == (logging.CRITICAL, "job.discarded", ID)


@pytest.mark.promise("S36")
@pytest.mark.parametrize("store", ["sqlite"])
def test_a_column_chooses_neither_code_nor_arguments(open_app, url, store, ran):
    jobs = strict(open_app)
    work = with_work(jobs, ran)

    @jobs.job
    def evil(n: int):
        ran.append("evil")

    kept, moved = work.enqueue(1), work.enqueue(2)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("UPDATE onward_jobs SET job = 'evil', rank = -9, attempts = 1, expires_at = NULL")
        connection.execute("UPDATE onward_jobs SET queue = 'ops' WHERE id = ?", [moved.id])
        connection.commit()
    jobs.drain()

    assert (ran, kept.state(), moved.state()) == ([1], "completed", "discarded")
    assert "signed for another queue" in moved.record().reason


@pytest.mark.promise("S38")
@pytest.mark.parametrize("mode", ["off", "warn", None])
def test_the_other_modes_run_it(open_app, ran, mode):
    jobs = strict(open_app, signing=mode)
    with_work(jobs, ran)
    jobs.backend.enqueue([a_job()])

    assert jobs.process_once().status == "acked"
    assert ran == [1]
    assert jobs.metrics.count("jobs_unverified") == (0 if mode == "off" else 1)


@pytest.mark.promise("S38")
def test_warn_counts_all_and_says_it_once_a_queue_and_problem(open_app, ran, caplog):
    jobs = strict(open_app, signing="warn")
    with_work(jobs, ran)
    stranger = Signer(KeyRing.parse(f"k9:{OLD}"), "default").sign
    jobs.backend.enqueue([a_job(id=f"{number:032}") for number in range(5)])
    jobs.backend.enqueue([a_job(stranger, id="f" * 32)])
    jobs.drain()

    lines = [each.getMessage() for each in caplog.records if getattr(each, "event", "") == "job.unverified"]
    assert (len(ran), jobs.metrics.count("jobs_unverified"), len(lines)) == (6, 6, 2)
    assert "runs although it is not signed: with signing='require' it would be refused" in lines[0]
    assert "key k9, which is not known here" in lines[1]


@pytest.mark.promise("S38")
def test_require_without_a_key_starts_nothing_and_can_still_look(open_app, ran):
    jobs = open_app(signing="require")
    work = with_work(jobs, ran)
    jobs.backend.enqueue([a_job()])

    for start in (jobs.process_once, jobs.drain, jobs.worker, work.enqueue, lambda: jobs.enqueue("other")):
        with pytest.raises(SigningKeyMissing, match="ONWARD_SIGNING_KEYS"):
            start()
    assert [record.state for record in jobs.list()] == ["available"]
    assert ran == []


def test_a_sync_store_signs_and_verifies_too(ran):
    with Onward("sync://", signing_keys=RING, signing="require") as jobs:
        work = with_work(jobs, ran)
        assert is_signed(work.enqueue().record())
        assert ran == [1]


@pytest.mark.promise("S36")
def test_a_newer_version_waits_for_a_day_where_signatures_are_required(open_app, clock):
    jobs = strict(open_app)
    data = a_job().data.replace(b"onward/1", b"onward/7")
    jobs.backend.enqueue([msgspec.structs.replace(a_job(), data=data)])

    assert jobs.process_once().status == "parked"
    clock.advance(DAY - 1)
    assert jobs.process_once().status == "parked"
    clock.advance(DAY)
    assert jobs.process_once().status == "rejected"
    assert jobs.get(ID).reason == "envelope version 7 is newer than 1: upgrade this worker"


# What becomes of it


@pytest.mark.promise("S36")
@pytest.mark.parametrize("store", ["sqlite"])
def test_a_refused_job_runs_when_the_cause_is_mended_and_it_is_replayed(open_app, store, ran):
    """A worker that was not given the new key refuses what is signed with it."""
    behind = strict(open_app, signing_keys=f"k1:{OLD}")
    with_work(behind, [])
    producer = strict(open_app)
    handle = with_work(producer, ran).enqueue()
    assert behind.process_once().status == "rejected"

    assert handle.record().reason == "it was signed with key k2, which is not known here"
    assert producer.dead_letters.replay([handle.id]) == 1
    producer.drain()

    assert (handle.state(), ran) == ("completed", [1])


@pytest.mark.promise("S36")
def test_a_replay_signs_nothing(open_app, ran):
    """Else it would be enough to have a job refused, and to wait until a person replays all."""
    jobs = strict(open_app)
    with_work(jobs, ran)
    jobs.backend.enqueue([a_job()])
    for _ in range(2):
        assert jobs.process_once().status == "rejected"
        jobs.dead_letters.replay()

    assert ran == []
    assert not is_signed(jobs.get(ID))


class TestDeadLetterQueue:
    QUEUE = "failed_jobs"

    @pytest.fixture
    def jobs(self, open_app):
        return strict(open_app, dead_letter_queue=self.QUEUE)

    @pytest.fixture
    def letters(self, jobs):
        """What the handler of dead letters is given."""
        letters = []

        @jobs.job(name="dead_letter", queue=self.QUEUE)
        def tell(ctx: JobContext, **letter: object):
            letters.append(ctx.payload)

        return letters

    @pytest.mark.promise("S23", "S36")
    def test_a_dead_letter_is_signed_and_carries_the_original(self, jobs):
        @jobs.job
        def fails(n: int):
            raise RuntimeError("no luck")

        fails.enqueue(7)
        jobs.drain("default")

        (copy,) = jobs.list(queue=self.QUEUE)
        assert is_signed(copy)
        assert (copy.payload["job"], copy.payload["payload"]) == ("fails", {"n": 7})
        assert jobs.dead_letters.store({"n": 1}, "elsewhere", "lost", 3)
        assert all(map(is_signed, jobs.list(queue=self.QUEUE)))

    @pytest.mark.promise("S23", "S36")
    def test_so_is_that_of_a_job_that_crashed(self, jobs, crash_elsewhere, clock):
        @jobs.job(max_crashes=1)
        def crashes(n: int): ...

        crashes.enqueue(7)
        crash_elsewhere(jobs)

        (copy,) = jobs.list(queue=self.QUEUE)
        assert is_signed(copy)
        assert copy.payload["payload"] == {"n": 7}

    @pytest.mark.promise("S36")
    def test_of_a_refused_job_nothing_is_signed_that_the_attacker_wrote(self, jobs):
        forged = a_job(meta={"tenant": "evil"}, payload=msgspec.Raw(b'{"evil":1}'), name="evil", job="evil")
        jobs.backend.enqueue([forged])
        jobs.drain("default")

        (copy,) = jobs.list(queue=self.QUEUE)
        assert (copy.payload["id"], copy.payload["reason"]) == (ID, "it is not signed")
        assert (copy.payload["payload"], copy.payload["meta"]) == (None, {})
        assert b"evil" not in copy.raw

    @pytest.mark.promise("S36")
    def test_nor_of_a_forged_one_that_crashes_before_it_is_checked(self, jobs, crash_elsewhere):
        jobs.backend.enqueue([a_job(payload=msgspec.Raw(b'{"evil":1}'), max_crashes=1)])
        crash_elsewhere(jobs)

        (copy,) = jobs.list(queue=self.QUEUE)
        assert copy.payload["payload"] is None

    @pytest.mark.promise("S36")
    @pytest.mark.parametrize("store", ["sqlite"])
    def test_nor_what_is_put_in_its_place_while_it_runs(self, jobs, url, store):
        evil = a_job(payload=msgspec.Raw(b'{"evil":1}')).data

        @jobs.job
        def fails(n: int):
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
                connection.execute("UPDATE onward_jobs SET sealed = ?", [evil])
                connection.commit()
            raise RuntimeError("no luck")

        fails.enqueue(7)
        jobs.drain("default")

        (copy,) = jobs.list(queue=self.QUEUE)
        assert copy.payload["payload"] == {"n": 7}
        assert b"evil" not in copy.raw


# Secrets


def test_no_secret_is_logged_stored_or_shown(open_app, ran, caplog, url, store, folder):
    caplog.set_level(logging.DEBUG)
    jobs = strict(open_app)
    with_work(jobs, ran).enqueue()
    jobs.backend.enqueue([a_job()])
    jobs.drain()
    shown = [repr(jobs.settings), repr(vars(jobs)), caplog.text, *(repr(record) for record in jobs.list())]
    if store == "sqlite":
        shown += [file.read_bytes().decode("latin-1") for file in folder.iterdir() if file.is_file()]

    assert not any(secret[:8] in text for text in shown for secret in (OLD, NEW))
