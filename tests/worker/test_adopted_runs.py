"""A run whose session was adopted by a successor goes on: what it writes is fenced by the owner of now, on every store."""

import pytest

from onward import BackendUnavailable, JobContext
from onward.worker import breaker
from tests.application.every_store import redis_server, store, url  # noqa: F401


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(breaker, "_FIRST_PAUSE", 0.0005)
    monkeypatch.setattr(breaker, "_LONGEST_PAUSE", 0.004)


@pytest.fixture
def adopt(monkeypatch):
    """Lose the answer of one turn of a worker, and wait until a successor has adopted its session."""

    def adopt(jobs, worker):
        turn = jobs.backend.turn
        with monkeypatch.context() as patch:

            def lost(asked):
                turn(asked)
                patch.undo()
                raise BackendUnavailable("the answer was lost")

            patch.setattr(jobs.backend, "turn", lost, raising=False)
            worker._pump.wake()
            worker.milestones.wait_for("adopted")

    return adopt


def test_progress_is_kept_after_an_adoption(jobs, work_on, adopt, gate):
    @jobs.job
    def work(ctx: JobContext) -> bool:
        ctx.progress(0.1)
        gate.pass_through()
        ctx.progress(0.9, "after it")
        return ctx.lost

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    before = [each.owner for each in jobs.backend.sessions()]
    adopt(jobs, worker)
    assert [each.owner for each in jobs.backend.sessions()] != before
    gate.open()

    worker.milestones.wait_for("settled")
    assert handle.result() is False
    assert handle.record().progress.note == "after it"
