"""Notes that were changed, copied or written by a stranger: the run fails, and says so; no step is called for it."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from onward import JobContext, NoDelay, Onward
from onward.errors import EncryptionUnavailable
from onward.security.key_ring import KeyRing
from onward.testing import FakeClock

OLD, NEW = "old-" * 10, "new-" * 10
RING = KeyRing.parse(f"k2:{NEW},k1:{OLD}")
CANARY = "canary-4242-4242"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def open_app(file, clock, monkeypatch):
    monkeypatch.chdir(file.parent)
    opened = []

    def open_app(**settings: Any) -> Onward:
        opened.append(Onward(f"sqlite:///{file}", clock=clock, **settings))
        return opened[-1]

    yield open_app
    for jobs in opened:
        jobs.close()


@pytest.fixture
def execute(file):
    def execute(sql, *values):
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            return connection.execute(sql, values).fetchall()

    return execute


class Work:
    """A job with a step that says a secret word, which fails in its first run, and a wait."""

    def __init__(self, jobs):
        self.calls = []

        @jobs.job(name="work", max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> Any:
            found = ctx.step("say", self.say)
            if ctx.attempt == 1:
                raise ConnectionError
            return [found, ctx.wait_for("go", timeout=60)]

        self.job = work

    def say(self) -> str:
        self.calls.append(1)
        return CANARY


def last_error(jobs, handle):
    return jobs.get(handle.id).errors[-1]


@pytest.mark.parametrize("encryption", [False, True])
def test_signed_notes_and_signals_are_read_again(open_app, encryption):
    jobs = open_app(signing_keys=RING, signing="require", encryption=encryption)
    work = Work(jobs)
    handle = work.job.enqueue()
    jobs.signal(handle.id, "go", "now")
    jobs.drain()

    assert handle.result() == [CANARY, "now"]
    assert len(work.calls) == 1


def test_with_encryption_nothing_of_them_lies_in_the_clear(open_app, execute):
    jobs = open_app(signing_keys=RING, encryption=True)
    work = Work(jobs)
    handle = work.job.enqueue()
    jobs.signal(handle.id, "go", CANARY)
    jobs.drain()

    assert handle.result() == [CANARY, CANARY]
    stored = [bytes(value) for (value,) in execute("SELECT value FROM onward_notes")]
    assert len(stored) == 2
    assert all(value.startswith(b"onward/1 k2 ") and b"\nonward/1 A256GCM k2 " in value for value in stored)
    assert CANARY.encode() not in b"".join(stored)


def test_a_program_that_does_not_encrypt_encrypts_the_signal_of_a_job_that_came_encrypted(open_app, execute):
    jobs = open_app(signing_keys=RING, encryption=True)
    handle = Work(jobs).job.enqueue()

    assert open_app(signing_keys=RING).signal(handle.id, "go", CANARY)
    ((stored,),) = execute("SELECT value FROM onward_notes")
    assert CANARY.encode() not in bytes(stored)


def test_a_program_without_a_key_cannot_signal_a_job_that_came_encrypted(open_app, execute):
    handle = Work(open_app(signing_keys=RING, encryption=True)).job.enqueue()

    with pytest.raises(EncryptionUnavailable, match="ONWARD_SIGNING_KEYS"):
        open_app().signal(handle.id, "go", CANARY)
    assert execute("SELECT * FROM onward_notes") == []


TAMPER = {
    "a bit of the value": lambda value: value[:-2] + bytes([value[-2] ^ 1]) + value[-1:],
    "the signature": lambda value: value[:20] + b"A" + value[21:],
    "no signature": lambda value: b"onward/1 - -\n" + value.partition(b"\n")[2],
    "an unknown key": lambda value: value.replace(b" k2 ", b" k9 ", 1),
    "no header": lambda value: value.partition(b"\n")[2],
    "nothing": lambda value: b"",
}


@pytest.mark.parametrize("encryption", [False, True])
@pytest.mark.parametrize("tamper", TAMPER.values(), ids=TAMPER.keys())
def test_a_step_that_was_tampered_with_fails_the_run_and_is_not_called_again(open_app, execute, tamper, encryption):
    jobs = open_app(signing_keys=RING, signing="require", encryption=encryption)
    work = Work(jobs)
    handle = work.job.enqueue()
    jobs.process_once()
    ((value,),) = execute("SELECT value FROM onward_notes")
    execute("UPDATE onward_notes SET value = ?", tamper(bytes(value)))
    jobs.drain()

    error = last_error(jobs, handle)
    assert (handle.state(), error.kind) == ("discarded", "onward.errors.NoteRejected")
    assert error.message.startswith(f"the note '=say' of job {handle.id} cannot be trusted: ")
    assert len(work.calls) == 1


@pytest.mark.parametrize("encryption", [False, True])
def test_a_note_of_another_job_or_name_is_none_of_this_one(open_app, execute, encryption):
    jobs = open_app(signing_keys=RING, signing="require", encryption=encryption)
    work = Work(jobs)
    one = work.job.enqueue()
    jobs.signal(one.id, "go", "yes")
    jobs.process_once()
    other = work.job.using(priority=10).enqueue()
    jobs.process_once()
    ((said,),) = execute("SELECT value FROM onward_notes WHERE job_id = ? AND name = '=say'", one.id)
    execute("UPDATE onward_notes SET value = ? WHERE job_id = ?", said, other.id)
    execute("UPDATE onward_notes SET value = ? WHERE name = '!go'", said)
    jobs.drain()

    assert last_error(jobs, other).message.startswith(f"the note '=say' of job {other.id}")
    assert last_error(jobs, one).message.startswith(f"the note '!go' of job {one.id}")


def test_a_stranger_cannot_signal_where_signatures_are_required(open_app):
    jobs = open_app(signing_keys=RING, signing="require")
    handle = Work(jobs).job.enqueue()
    open_app().signal(handle.id, "go", "forged")
    jobs.drain()

    assert last_error(jobs, handle).kind == "onward.errors.NoteRejected"
    assert "it is not signed" in last_error(jobs, handle).message


def test_where_signatures_are_not_required_it_is_told(open_app, caplog):
    jobs = open_app(signing_keys=RING, signing="warn")
    handle = Work(jobs).job.enqueue()
    open_app().signal(handle.id, "go", "unsigned")
    jobs.drain()

    assert handle.result() == [CANARY, "unsigned"]
    assert any("of its note '!go' it is not signed" in line for line in caplog.messages)


def test_a_note_outlives_the_rotation_of_its_key(open_app):
    jobs = open_app(signing_keys=KeyRing.parse(f"k1:{OLD}"), signing="require", encryption=True)
    handle = Work(jobs).job.enqueue()
    jobs.process_once()
    later = open_app(signing_keys=RING, signing="require", encryption=True)
    work = Work(later)
    later.signal(handle.id, "go")
    later.drain()

    assert later.get(handle.id).result == [CANARY, None]
    assert work.calls == []
