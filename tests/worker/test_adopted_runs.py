"""A run whose session was adopted by a successor goes on: what it writes is fenced by the owner of now, on every store."""

import threading

import pytest

from onward import BackendUnavailable, JobContext, NoDelay
from onward.worker import breaker
from tests.application.every_store import redis_server, store, url  # noqa: F401
from tests.waiting import eventually


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


@pytest.fixture
def needs_notes(jobs):
    if not jobs.backend.capabilities.notes:
        pytest.skip("this store does not declare: notes")


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


@pytest.mark.promise("S62")
@pytest.mark.usefixtures("needs_notes")
def test_a_step_is_noted_after_an_adoption(jobs, work_on, adopt, gate):
    calls = []

    @jobs.job(max_retries=1, retry=NoDelay())
    def work(ctx: JobContext) -> list[int]:
        ctx.step("before", calls.append, 1)
        if ctx.attempt == 1:
            gate.pass_through()
        ctx.step("after", calls.append, 2)
        if ctx.attempt == 1:
            raise ConnectionError
        return calls

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    adopt(jobs, worker)
    gate.open()

    worker.milestones.wait_for("settled", 2)
    assert handle.result() == [1, 2]


@pytest.mark.promise("S62")
@pytest.mark.usefixtures("needs_notes")
def test_a_step_that_ends_while_a_successor_adopts_the_session_is_noted_under_its_name(
    jobs, work_on, gate, monkeypatch
):
    """The store knows the new owner, and this process does not yet."""
    adopted, refused = threading.Event(), threading.Event()
    turn, open_session, note = jobs.backend.turn, jobs.backend.open_session, jobs.backend.note

    def lost(asked):
        turn(asked)
        monkeypatch.setattr(jobs.backend, "turn", turn)
        raise BackendUnavailable("the answer was lost")

    def slow(session, *, adopts=None):
        held = open_session(session, adopts=adopts)
        adopted.set()
        assert refused.wait(30)
        return held

    def watched(lease, name, value):
        noted = note(lease, name, value)
        if not noted:
            refused.set()
        return noted

    @jobs.job
    def work(ctx: JobContext) -> bool:
        gate.pass_through()
        assert adopted.wait(30)
        ctx.step("x", int)
        return ctx.lost

    handle = work.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    monkeypatch.setattr(jobs.backend, "turn", lost)
    monkeypatch.setattr(jobs.backend, "open_session", slow)
    monkeypatch.setattr(jobs.backend, "note", watched)
    worker._pump.wake()
    gate.open()

    worker.milestones.wait_for("settled")
    assert handle.result() is False
    assert [note.name for note in jobs.notes(handle.id)] == ["x"]


@pytest.mark.promise("W76")
def test_jobs_are_added_to_a_flow_after_an_adoption(jobs, work_on, adopt, gate):
    if not jobs.backend.capabilities.flows:
        pytest.skip("this store does not declare: flows")

    @jobs.job
    def child(number: int) -> int:
        return number

    @jobs.job
    def work(ctx: JobContext) -> bool:
        gate.pass_through()
        ctx.flow.map(child, [(1,), (2,)], node="child")
        return ctx.lost

    flow = jobs.flow("adopted")
    flow.node("child", after=flow.add(work))
    handle = flow.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    adopt(jobs, worker)
    gate.open()

    # The application does not know of this worker: its own wait would raise while no job of the flow runs.
    eventually(lambda: handle.state() != "running")
    assert handle.state() == "completed"
    assert handle.result_of(work) is False
    assert list(handle.results_of(child)) == [1, 2]
