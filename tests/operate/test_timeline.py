"""The order in which a job's events are told."""

from datetime import timedelta

from onward import NoDelay, Onward
from onward.backend import Claim
from onward.operate.timeline import events_of


def kinds(app, job):
    return [(event.kind, event.text.split(":")[0]) for event in events_of(app.get(job.id))]


def failing(app, clock, *, takes):
    @app.job(max_retries=1, retry=NoDelay())
    def fail():
        clock.advance(takes)
        raise ValueError("no")

    return fail


def test_runs_of_the_same_instant_are_told_one_after_the_other(clock):
    with Onward("memory://", clock=clock) as app:
        job = failing(app, clock, takes=0).enqueue()
        app.drain()

        assert [kind for kind, _ in kinds(app, job)] == ["enqueued", "failed", "started", "failed", "ended"]
        assert [text for _, text in kinds(app, job)][1:4] == ["run 1 failed", "the last run started", "run 2 failed"]


def test_a_run_that_succeeds_in_the_instant_of_the_failure_before_it_is_told_after_it(clock):
    with Onward("memory://", clock=clock) as app:
        outcomes = iter([ValueError("no"), None])

        @app.job(max_retries=1, retry=NoDelay())
        def recover():
            if error := next(outcomes):
                raise error

        job = recover.enqueue()
        app.drain()

        assert [text for _, text in kinds(app, job)] == [
            "enqueued",
            "run 1 failed",
            "the last run started",
            "completed",
        ]


def test_a_failure_is_of_the_last_run_whatever_the_clock_of_its_worker_says(clock):
    with Onward("memory://", clock=clock) as app:
        job = failing(app, clock, takes=-1).enqueue()
        app.drain()

        assert [kind for kind, _ in kinds(app, job)] == ["enqueued", "failed", "started", "failed", "ended"]


def test_what_a_person_did_in_the_instant_of_the_enqueue_came_after_it(clock):
    with Onward("memory://", clock=clock) as app:
        job = app.enqueue("send", delay=60)
        job.cancel("called off", by="ada")

        told = [event.text for event in events_of(app.get(job.id), entries=app.audit(job=job.id))]

        assert told == ["enqueued", "cancel by ada: called off", "cancelled: called off"]


def test_runs_that_take_time_are_told_in_the_same_order(clock):
    with Onward("memory://", clock=clock) as app:
        job = failing(app, clock, takes=1).enqueue()
        app.drain()

        assert [kind for kind, _ in kinds(app, job)] == ["enqueued", "failed", "started", "failed", "ended"]


def test_a_run_that_goes_on_began_after_the_failure_before_it(clock):
    with Onward("memory://", clock=clock) as app:
        job = failing(app, clock, takes=0).enqueue()
        app.process_once()
        app.backend.claim(Claim(queues=("default",), owner="elsewhere", lease_for=timedelta(minutes=1)))

        assert [text for _, text in kinds(app, job)] == ["enqueued", "run 1 failed", "run 2 started"]


def test_a_job_that_waits_for_its_flow_is_due_at_no_instant(clock):
    with Onward("memory://", clock=clock) as app:

        @app.job
        def step():
            pass

        flow = app.flow("import")
        first = flow.add(step)
        second = flow.add(step, after=first)
        handle = flow.enqueue()
        waiting, begins = (
            next(record for record in app.list() if record.node == node.name) for node in (second, first)
        )

        assert waiting.flow == handle.id
        assert (waiting.due_at, waiting.awaits_node) == (None, True)
        assert [kind for kind, _ in kinds(app, waiting)] == ["enqueued"]
        assert (begins.due_at, begins.awaits_node) == (begins.available_at, False)
        assert [kind for kind, _ in kinds(app, begins)] == ["enqueued", "due"]
