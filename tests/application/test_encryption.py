"""Encryption through the whole application: what lies in the store, who can read it, and what becomes of the unreadable."""

import asyncio
import json
import logging
import pickle
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from onward import Discard, JobContext, JobDiscardedError, NoDelay, Onward, Secret, State
from onward.base.failure import Failure
from onward.cli import main
from onward.errors import DecryptionFailed, EncryptionUnavailable, OptionError
from onward.job.envelope import Letter, Sealed, open_sealed, seal
from onward.job.lease import Lease
from onward.job.settlement import Settlement
from onward.operate.transfer import Transfer
from onward.security.encryption import Encryption
from onward.security.key_ring import KeyRing
from onward.security.signing import Signer
from onward.telemetry import JobFailed

OLD, NEW = "old-" * 10, "new-" * 10
RING = KeyRing.parse(f"k2:{NEW},k1:{OLD}")
BEFORE, AFTER = KeyRing.parse(f"k1:{OLD}"), KeyRing.parse(f"k2:{NEW},k1:revoked")
CANARY = "canary-4242-4242"
MARKER = "<encrypted with key k2>"
DAY = 86_400


@pytest.fixture
def private(open_app):
    """Opens an application that encrypts."""
    return lambda **settings: open_app(**{"signing_keys": RING, "encryption": True, **settings})


@pytest.fixture
def lying_in_store(url, store):
    """All that lies there, as bytes: of a file, every byte."""

    def lying_in_store(jobs):
        if store == "memory":
            return repr([jobs.backend.get(record.id) for record in jobs.list(limit=1000)]).encode()
        file = Path(url.removeprefix("sqlite:///"))
        # The file, its log and its index; the others are pipes.
        return b"".join(path.read_bytes() for path in file.parent.glob(f"{file.name}*") if path.is_file())

    return lying_in_store


def is_encrypted(record):
    return b'"enc":"A256GCM k2"' in record.raw


def with_work(jobs, ran):
    @jobs.job
    def work(n: int = 1, text: str = CANARY) -> str:
        ran.append(n)
        return f"{text} {n}"

    return work


def a_life(jobs):
    """Jobs that say the word in every place where a job can say something; gives the ids."""

    @jobs.job
    def succeed(ctx: JobContext, text: str) -> str:
        ctx.progress(0.5, f"halfway with {text}")
        return text

    @jobs.job(max_retries=1, retry=NoDelay())
    def fail(text: str) -> None:
        raise ValueError(text) from KeyError(text)

    @jobs.job
    def give_up(text: str) -> None:
        raise Discard(f"no use: {text}")

    @jobs.job
    def unreturnable(text: str) -> object:
        class Unreturnable:
            @property
            def model_dump(self):
                raise RuntimeError(text)

            model_validate = None

        return Unreturnable()

    handles = [
        succeed.using(unique_key=CANARY, idempotency_key=f"once-{CANARY}").enqueue(CANARY),
        fail.enqueue(CANARY),
        give_up.enqueue(CANARY),
        unreturnable.enqueue(CANARY),
        jobs.enqueue("elsewhere", {"text": CANARY}, queue="far", unique_key=CANARY, key_scope="global"),
        *succeed.enqueue_many([(CANARY,), (CANARY,)]),
    ]
    jobs.drain("default")
    return [handle.id for handle in handles]


# What lies in the store


@pytest.mark.promise("S47")
def test_nothing_of_it_lies_in_the_store_in_the_clear(private, lying_in_store):
    jobs = private(dead_letter_queue="dead")
    a_life(jobs)

    assert CANARY.encode() not in lying_in_store(jobs)
    assert len(jobs.list(queue="dead")) == 2


def test_without_encryption_it_does(open_app, lying_in_store):
    """Else the test above would show nothing."""
    jobs = open_app(dead_letter_queue="dead")
    ids = a_life(jobs)

    assert lying_in_store(jobs).count(CANARY.encode()) > 10
    places = [repr(jobs.backend.get(job_id)) for job_id in ids]
    assert all(CANARY in place for place in places)


@pytest.mark.promise("S47")
@pytest.mark.parametrize("store", ["sqlite"])
def test_a_worker_whose_setting_is_off_leaves_nothing_of_an_encrypted_job_in_the_clear(
    private, open_app, lying_in_store, store
):
    jobs, client = open_app(signing_keys=RING, dead_letter_queue="dead"), private()

    @jobs.job
    def fail(ctx: JobContext, text: str) -> None:
        ctx.progress(0.5, text)
        raise Discard(text)

    @jobs.job
    def succeed(text: str) -> str:
        return text

    for job in ("fail", "succeed"):
        client.enqueue(job, {"text": CANARY})
    jobs.drain("default")

    assert [record.state for record in jobs.list()] == ["discarded", "completed", "available"]
    assert CANARY.encode() not in lying_in_store(jobs)


@pytest.mark.promise("S47")
@pytest.mark.parametrize("store", ["sqlite"])
def test_a_dead_letter_hides_the_errors_that_were_hidden(private, open_app, lying_in_store, store):
    """The job itself was never encrypted; the worker that ran it first encrypts, the one that gives it up does not."""
    jobs = private()

    @jobs.job(max_retries=1, retry=NoDelay())
    def fail() -> None:
        raise ValueError(CANARY)

    plain = a_job(job="fail", payload=msgspec.Raw(b"{}"), max_retries=1)
    jobs.backend.enqueue([plain])
    assert jobs.process_once().status == "requeued"

    other = open_app(signing_keys=RING, dead_letter_queue="dead")
    other.job(name="fail")(lambda: 1 / 0)
    assert other.drain("default") == 1
    (letter,) = other.list(queue="dead")
    assert [error["message"] for error in letter.payload["errors"]] == [CANARY, "division by zero"]
    assert CANARY.encode() not in lying_in_store(jobs)


# Who can read it


@pytest.mark.promise("S47")
def test_with_the_key_everything_is_in_the_clear(private):
    jobs = private(dead_letter_queue="dead")
    succeed, fail, give_up, unreturnable, *_ = [jobs.get(job_id) for job_id in a_life(jobs)]

    assert (succeed.payload, succeed.reveal(), succeed.result) == ({"text": CANARY}, {"text": CANARY}, CANARY)
    assert succeed.progress.note == f"halfway with {CANARY}"
    assert jobs.handle(succeed.id).result() == CANARY
    assert [(error.kind, error.message) for error in fail.errors] == [("ValueError", CANARY)] * 2
    assert all(error.traceback.count(CANARY) == 2 for error in fail.errors)
    assert give_up.reason == f"no use: {CANARY}"
    assert unreturnable.reason == f"no result: RuntimeError: {CANARY}"
    with pytest.raises(JobDiscardedError, match=CANARY):
        jobs.handle(fail.id).result()
    letters = {record.payload["job"]: record.payload for record in jobs.list(queue="dead")}
    assert [letter["payload"] for letter in letters.values()] == [{"text": CANARY}] * 2
    assert [error["message"] for error in letters["fail"]["errors"]] == [CANARY] * 2
    assert [record.payload for record in jobs.dead_letters.list()] == [{"text": CANARY}] * 2


@pytest.mark.promise("S47")
@pytest.mark.parametrize("store", ["sqlite"])
@pytest.mark.parametrize(
    "keys", [None, {"k9": NEW}, {"k9": NEW, "k2": "revoked"}, {"k2": OLD}], ids=["none", "other", "revoked", "wrong"]
)
def test_without_the_key_there_is_a_marker_and_what_is_not_secret(private, open_app, store, keys):
    ids = a_life(private(dead_letter_queue="dead"))
    jobs = open_app(signing_keys=keys)
    succeed, fail, give_up, unreturnable, *_ = [jobs.get(job_id) for job_id in ids]

    assert (succeed.payload, succeed.reveal(), succeed.result) == (MARKER, None, MARKER)
    assert (succeed.progress.fraction, succeed.progress.note) == (1, MARKER)
    assert [(error.kind, error.message, error.traceback) for error in fail.errors] == [
        ("ValueError", MARKER, MARKER)
    ] * 2
    assert fail.reason == "gave up after 2 attempts: max_retries is 1"
    assert (give_up.reason, unreturnable.reason) == (MARKER, MARKER)
    assert [record.payload for record in jobs.dead_letters.list()] == [MARKER] * 2
    assert CANARY not in repr([asdict(record) for record in jobs.list()])
    with pytest.raises(JobDiscardedError, match=MARKER):
        jobs.handle(fail.id).result()
    with pytest.raises(DecryptionFailed, match=f"the result of job {succeed.id} is {MARKER}"):
        jobs.handle(succeed.id).result()


@pytest.mark.parametrize("store", ["sqlite"])
def test_the_command_line_shows_the_same(private, url, store, capsys, monkeypatch):
    ids = a_life(private())
    shown = []
    for keys in ("", f"k2:{NEW}"):
        if keys:
            monkeypatch.setenv("ONWARD_SIGNING_KEYS", keys)
        for job_id in ids[:2]:
            assert main(["job", "show", job_id, "--json", "--url", url]) == 0
        shown.append(capsys.readouterr().out)

    assert CANARY not in shown[0]
    assert shown[0].count(MARKER) >= 5
    assert MARKER not in shown[1]
    told = [json.loads(line) for line in shown[1].splitlines()]
    assert [(each["payload"], "--app" in each["hidden"]) for each in told] == [(None, True)] * 2
    assert CANARY in shown[1]  # what is no argument is decrypted


def test_masks_stay_after_decryption(private):
    jobs = private()

    @jobs.job
    def charge(card: Secret[str], password: str) -> None:
        raise ValueError(card.reveal())

    handle = charge.enqueue(Secret(CANARY), "hunter2")
    jobs.drain()
    record = pickle.loads(pickle.dumps(jobs.get(handle.id)))

    assert record.payload == {"card": "***", "password": "***"}
    assert record.errors[0].message == "***"
    assert record.reveal() == {"card": CANARY, "password": "hunter2"}
    assert CANARY not in repr(asdict(record))


def test_logs_and_events_tell_errors_as_ever(private, listen, caplog):
    jobs = private()
    heard = listen(jobs)
    with caplog.at_level(logging.WARNING):
        a_life(jobs)

    assert [event.error for event in heard(JobFailed)] == [CANARY]
    assert f"ValueError: {CANARY}" in caplog.text
    assert "A256GCM" not in caplog.text


# Every way in


@pytest.mark.promise("S47")
def test_every_way_to_enqueue_encrypts(private):
    jobs, ran = private(signing="require"), []
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
    assert jobs.dead_letters.store({}, "work", "why", 1) is False  # there is no such queue

    assert all(is_encrypted(handle.record()) for handle in [*handles, stranger])
    jobs.backend.clock.advance(1)
    jobs.drain("default")
    assert sorted(ran) == list(range(1, 11))
    assert handles[0].result() == f"{CANARY} 1"
    assert jobs.metrics.count("jobs_rejected_signature") == 0


@pytest.mark.promise("S47")
@pytest.mark.parametrize("store", ["sqlite"])
def test_transactions_encrypt_what_they_enqueue_and_what_they_complete(private, url, store, lying_in_store):
    jobs, ran = private(), []
    work = with_work(jobs, ran)

    @jobs.job
    def parent(ctx: JobContext, text: str) -> None:
        with ctx.transaction() as connection:
            connection.enqueue(work, 2)
            connection.complete(text)
        raise RuntimeError(f"{text}, too late")

    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        with jobs.transaction(connection) as tx:
            tx.enqueue(work, 1)
        connection.commit()
    handle = parent.enqueue(CANARY)
    jobs.drain()

    assert sorted(ran) == [1, 2]
    assert all(map(is_encrypted, jobs.list()))
    assert handle.result() == CANARY
    assert handle.record().errors[0].message == f"{CANARY}, too late"
    assert CANARY.encode() not in lying_in_store(jobs)


@pytest.mark.promise("S47")
@pytest.mark.parametrize("store", ["sqlite"])
def test_it_survives_a_move_to_another_store(private, store, tmp_path):
    jobs, ran = private(), []

    @jobs.job(max_retries=0)
    def fail(text: str) -> None:
        raise ValueError(text)

    fail.enqueue(CANARY)
    jobs.drain()
    with_work(jobs, ran).enqueue(1)
    there = Onward(f"sqlite:///{tmp_path / 'there.db'}", signing_keys=RING, encryption=True, clock=jobs.backend.clock)
    with there:
        with_work(there, ran)
        assert Transfer(jobs.backend, there.backend).move("default").is_complete
        there.resume("default")
        there.drain()

        assert ran == [1]
        assert [record.errors[0].message for record in there.dead_letters.list()] == [CANARY]
        assert there.list(job="work")[0].result == f"{CANARY} 1"


def test_a_job_whose_dead_letter_is_refused_keeps_its_reason_to_itself(private, open_app_on, lying_in_store):
    from onward.errors import BackendRefused

    class Refuses:
        refusing = True

        def turn(self, turn):
            if self.refusing and any(item.dead_letter is not None for item in turn.settlements):
                raise BackendRefused("no room for letters")
            return super().turn(turn)

    jobs = open_app_on(Refuses, signing_keys=RING, encryption=True, dead_letter_queue="dead")

    @jobs.job
    def give_up(text: str) -> None:
        raise Discard(f"no use: {text}")

    handle = give_up.enqueue(CANARY)
    jobs.drain("default")
    assert handle.state() is State.RETRYABLE
    assert CANARY.encode() not in lying_in_store(jobs)

    jobs.backend.refusing = False
    jobs.backend.clock.advance(61)
    jobs.drain("default")
    assert handle.record().reason == f"no use: {CANARY}"
    assert [letter.payload["reason"] for letter in jobs.list(queue="dead")] == [f"no use: {CANARY}"]
    assert CANARY.encode() not in lying_in_store(jobs)


# What cannot be decrypted


def a_job(*, encryption=None, sign=None, found=None, **changes):
    """A job of an attacker who knows the format."""
    fields = {
        "id": "0" * 31 + "1",
        "namespace": "default",
        "queue": "default",
        "job": "work",
        "payload": msgspec.Raw(b'{"n":1}'),
        "max_crashes": 3,
        "enqueued_at": 0,
    }
    letter = Letter(**(fields | changes))
    if encryption is not None:
        letter = encryption.close(letter)
    return seal(msgspec.structs.replace(letter, **(found or {})), sign=sign)


@pytest.mark.promise("S46")
@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"id": "0" * 31 + "2"}, id="id"),
        pytest.param({"queue": "ops"}, id="queue"),
        pytest.param({"job": "pay"}, id="job"),
        pytest.param({"enc": "A256GCM k1"}, id="key"),
        pytest.param({"payload": msgspec.Raw(b'"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="')}, id="other ciphertext"),
        pytest.param({"payload": msgspec.Raw(b'{"n":1}')}, id="clear text"),
        pytest.param({"payload": msgspec.Raw(b'""')}, id="nothing"),
    ],
)
@pytest.mark.parametrize("signed", [True, False])
def test_what_does_not_decrypt_runs_nothing_and_is_kept_counted_and_told(private, found, signed):
    """Also if it is signed: a worker that is tricked into signing, or one that does not look, decrypts nothing more."""
    jobs, ran = private(), []
    with_work(jobs, ran)
    jobs.job(name="pay")(lambda n=1: ran.append("paid"))
    sign = Signer(RING, "default").sign if signed else None
    forged = a_job(encryption=Encryption(RING, "default", enabled=True), sign=sign, found=found)
    jobs.backend.enqueue([forged])

    assert jobs.process_once(forged.queue).status == "rejected"
    record = jobs.get(forged.id)
    assert (ran, record.state, record.raw) == ([], State.DISCARDED, forged.data)
    assert record.reason.startswith(f"the text does not decrypt with key {found.get('enc', 'A256GCM k2')[8:]}: ")
    assert record.errors[0].kind == "onward.errors.DecryptionFailed"
    assert record.payload in ("<encrypted with key k2>", "<encrypted with key k1>")
    assert (jobs.metrics.count("jobs_undecryptable"), jobs.metrics.count("jobs_rejected_signature")) == (1, 0)


@pytest.mark.promise("S46")
@pytest.mark.parametrize(
    "place", [("b", "mail", 7), ("a", "ops", 7), ("a", "mail", 6)], ids=["id", "queue", "delivery"]
)
def test_results_and_errors_cannot_be_put_elsewhere(place):
    encryption = Encryption(RING, "default", enabled=True)
    lease = Lease(envelope=Sealed("a", "mail", b""), token=7, owner="me", expires_at=0, claimed_at=0)
    acked = encryption.settlement(Settlement.ack(lease, b'"yes"'))
    nacked = encryption.settlement(Settlement.nack(lease, failure=Failure("ValueError", "no", "there")))

    assert encryption.read_result("a", "mail", 7, acked.result) == b'"yes"'
    assert encryption.read_failure("a", "mail", 7, nacked.failure) == Failure("ValueError", "no", "there")
    assert encryption.read_result(*place, acked.result) == MARKER
    assert encryption.read_failure(*place, nacked.failure) == Failure("ValueError", MARKER, MARKER)
    swapped = Failure("ValueError", nacked.failure.traceback, acked.result.decode())
    assert encryption.read_failure("a", "mail", 7, swapped) == Failure("ValueError", MARKER, MARKER)


def test_a_job_of_another_namespace_does_not_decrypt(private):
    jobs, ran = private(), []
    with_work(jobs, ran)
    forged = a_job(encryption=Encryption(RING, "staging", enabled=True))
    jobs.backend.enqueue([forged])

    assert jobs.process_once().status == "rejected"
    assert ran == []


@pytest.mark.promise("S47")
@pytest.mark.parametrize("store", ["sqlite"])
def test_a_worker_without_the_key_leaves_the_job_to_others_for_a_while(private, open_app, clock, store):
    handle = private().enqueue("work", {"n": 1})
    jobs, ran = open_app(), []
    with_work(jobs, ran)

    jobs.drain("default")
    record = handle.record()
    assert (ran, record.state, record.attempts) == ([], State.SCHEDULED, 0)

    clock.advance(DAY)
    jobs.drain("default")
    clock.advance(DAY)
    jobs.drain("default")
    assert handle.record().state is State.DISCARDED
    assert handle.record().reason == "it is encrypted with key 'k2', which is not known here: give this program the key"

    able = private()
    with_work(able, ran)
    assert able.dead_letters.replay() == 1
    able.drain("default")
    assert (ran, handle.result()) == ([1], f"{CANARY} 1")


@pytest.mark.promise("S47")
@pytest.mark.parametrize("store", ["sqlite"])
def test_a_rotation_loses_nothing_and_a_revoked_key_reads_nothing(private, store):
    ran = []
    with private(signing_keys=BEFORE) as jobs:
        work = with_work(jobs, ran)
        done = work.enqueue(1).id
        jobs.drain()
        waiting, too_late = work.enqueue(2).id, work.using(delay=60).enqueue(3).id

    jobs = private()
    with_work(jobs, ran)
    jobs.drain()
    assert (ran, [jobs.handle(job_id).result() for job_id in (done, waiting)]) == (
        [1, 2],
        [f"{CANARY} 1", f"{CANARY} 2"],
    )
    assert b" k2 " in jobs.backend.get(waiting).result

    later = private(signing_keys=AFTER)
    with_work(later, ran)
    later.backend.clock.advance(61)
    later.drain()
    assert (ran, later.get(too_late).reason) == ([1, 2], "it is encrypted with key k1, which is revoked")
    assert later.get(done).result == "<encrypted with key k1>"
    assert later.handle(waiting).result() == f"{CANARY} 2"


def test_what_is_not_encrypted_runs(private, lying_in_store):
    """A queue need not be empty before encryption is switched on; who may write a job is the signature's question."""
    jobs, ran = private(), []
    with_work(jobs, ran)
    plain = a_job()
    jobs.backend.enqueue([plain])
    jobs.drain()

    assert ran == [1]
    assert jobs.handle(plain.id).result() == f"{CANARY} 1"
    assert CANARY.encode() not in lying_in_store(jobs)  # what this worker wrote is encrypted


# Keys of jobs


@pytest.mark.promise("S34")
def test_unique_keys_are_hashed_and_still_unique(private):
    jobs, ran = private(), []
    work = with_work(jobs, ran)
    first = work.using(unique_key=CANARY).enqueue(1)

    assert not work.using(unique_key=CANARY).enqueue(2).created
    assert work.using(unique_key=f"{CANARY}2").enqueue(3).created
    assert work.using(unique_key=CANARY, unique_strategy="cancel_existing").enqueue(4).created
    assert first.state() is State.CANCELLED
    assert jobs.enqueue("other", {}, unique_key=CANARY).created
    jobs.enqueue("work", {}, unique_key=CANARY, key_scope="global")
    keys = [open_sealed(Sealed(each.id, each.queue, each.raw)).unique_key for each in jobs.list(state="available")]
    assert len(set(keys)) == 4  # the same word of two jobs looks different
    assert all(len(key) == 43 for key in keys)


@pytest.mark.promise("S33")
@pytest.mark.parametrize("store", ["sqlite"])
def test_keys_outlive_a_rotation(private, store):
    ran = []
    with private(signing_keys=BEFORE) as jobs:
        work = with_work(jobs, ran)
        work.using(idempotency_key=CANARY).enqueue(1)
        jobs.drain()
        work.using(unique_key=CANARY).enqueue(2)

    jobs = private()
    work = with_work(jobs, ran)
    assert not work.using(unique_key=CANARY).enqueue(3).created
    work.using(idempotency_key=CANARY).enqueue(4)
    jobs.drain()
    assert ran == [1, 2]
    assert jobs.metrics.count("jobs_skipped_idempotent") == 1


# Settings


def test_without_a_key_it_does_not_start(open_app, monkeypatch):
    with pytest.raises(EncryptionUnavailable, match="encryption is on and there is no key: set ONWARD_SIGNING_KEYS"):
        open_app(encryption=True)
    monkeypatch.setenv("ONWARD_ENCRYPTION", "true")
    with pytest.raises(EncryptionUnavailable):
        open_app()
    with pytest.raises(OptionError, match="encryption must be true or false"):
        open_app(encryption="AES")


def test_a_file_and_the_environment_can_say_it(open_app, monkeypatch, tmp_path):
    (tmp_path / "onward.toml").write_text("encryption = true\n")
    monkeypatch.setenv("ONWARD_SIGNING_KEYS", f"k2:{NEW}")

    assert is_encrypted(open_app().enqueue("work").record())


# Texts that only look like it


def test_a_text_that_looks_encrypted_is_shown_and_raises_nothing(jobs):
    lookalike = f"onward/1 A256GCM k2 {'A' * 40}"

    @jobs.job
    def fail(text: str) -> None:
        raise ValueError(text)

    handles = [fail.enqueue(text) for text in (lookalike, "onward/1 is our format", "onward/1 A256GCM k2 AAAA")]
    jobs.drain()

    messages = [handle.record().errors[0].message for handle in handles]
    assert messages == [MARKER, "onward/1 is our format", "onward/1 A256GCM k2 AAAA"]
