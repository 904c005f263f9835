"""Worker processes, and the processes in which they run single jobs, encrypt what they write."""

import os

import pytest

KEYS = f"k2:{'new-' * 10}"
CANARY = "canary-4242-4242"

SHOP = """
import os

from onward import JobContext, Onward

jobs = Onward()


@jobs.job(isolation="process")
def alone(ctx: JobContext, text: str) -> tuple[str, int]:
    ctx.progress(0.5, text)
    return text, os.getpid()


@jobs.job(isolation="process")
def complete(ctx: JobContext, text: str) -> None:
    with ctx.transaction() as connection:
        connection.enqueue(fail, text)
        connection.complete(text)


@jobs.job(isolation="process")
def fail(text: str) -> None:
    raise ValueError(text)
"""


@pytest.mark.promise("S47")
def test_jobs_in_processes_of_their_own_are_decrypted_there(shell, open_app, tmp_path, monkeypatch):
    (tmp_path / "private_shop.py").write_text(SHOP)
    monkeypatch.setenv("ONWARD_SIGNING_KEYS", KEYS)
    monkeypatch.setenv("ONWARD_ENCRYPTION", "yes")
    jobs = open_app()
    handle, completed = [jobs.enqueue(job, {"text": CANARY}) for job in ("alone", "complete")]

    ran = shell("worker", "private_shop:jobs", "--until-empty", "--concurrency", "1", PYTHONPATH=str(tmp_path))

    assert ran.code == 0, ran.err
    text, pid = handle.result()
    assert (text, handle.record().progress.note) == (CANARY, CANARY)
    assert pid != os.getpid()
    assert completed.result() == CANARY
    (failed,) = jobs.list(state="discarded")
    assert failed.errors[0].message == CANARY
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("jobs.db*") if path.is_file())
