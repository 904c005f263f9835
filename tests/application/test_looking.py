"""Looking at jobs: one by one, page by page, counted."""

import pytest

from onward import NoDelay, Snooze, State


@pytest.fixture
def work(jobs):
    @jobs.job(max_retries=1)
    def work(outcome: str = "completed"):
        if outcome == "retryable":
            raise RuntimeError
        if outcome == "scheduled":
            raise Snooze(60)

    return work


@pytest.fixture
def one_in_each_state(jobs, work, claim_elsewhere):
    """The ids of jobs, by the state they are in."""

    @jobs.job
    def hopeless():
        raise RuntimeError

    ids = {state: work.enqueue(state).id for state in ("completed", "retryable", "scheduled")}
    ids["discarded"] = hopeless.enqueue().id
    jobs.drain()
    ids["executing"] = work.enqueue().id
    claim_elsewhere(jobs)
    ids["cancelled"] = work.enqueue().id
    jobs.cancel(ids["cancelled"])
    ids["available"] = work.enqueue().id
    return ids


@pytest.mark.promise("S25")
def test_counts_name_every_state(jobs, one_in_each_state):
    assert jobs.counts() == dict.fromkeys(State, 1)


@pytest.mark.promise("S25")
def test_counts_can_be_had_for_one_queue(jobs, work):
    work.enqueue()
    work.using(queue="mail").enqueue_many([(), ()])

    assert jobs.counts("mail")["available"] == 2
    assert jobs.counts("default")["available"] == 1
    assert sum(jobs.counts("nowhere").values()) == 0


def test_jobs_are_listed_by_state(jobs, one_in_each_state):
    for state, job_id in one_in_each_state.items():
        assert [record.id for record in jobs.list(state=state)] == [job_id]


def test_jobs_are_listed_by_several_states_at_once(jobs, one_in_each_state):
    found = {record.state for record in jobs.list(state=["completed", State.DISCARDED])}

    assert found == {"completed", "discarded"}


def test_jobs_are_listed_by_queue_and_by_job(jobs, work):
    @jobs.job
    def other(): ...

    here, there, another = work.enqueue(), work.using(queue="mail").enqueue(), other.enqueue()

    assert [record.id for record in jobs.list(queue="mail")] == [there.id]
    assert [record.id for record in jobs.list(job="work")] == [here.id, there.id]
    assert [record.id for record in jobs.list(job="other", queue="default")] == [another.id]


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_follow_each_other_without_gap_or_repetition(jobs, work, newest_first):
    handles = work.enqueue_many([()] * 25)
    found, after = [], None
    while page := jobs.list(limit=10, after=after, newest_first=newest_first):
        found += [record.id for record in page]
        after = found[-1]

    ids = [handle.id for handle in handles]
    assert found == (ids[::-1] if newest_first else ids)


def test_pages_stay_true_while_jobs_move(jobs, work):
    """Pages walk the ids, so a job that finishes between two pages is neither missed nor seen twice."""
    handles = work.enqueue_many([()] * 20)
    first = jobs.list(limit=10)
    jobs.drain()
    second = jobs.list(limit=20, after=first[-1].id)

    assert [record.id for record in (*first, *second)] == [handle.id for handle in handles]


def test_a_listed_job_has_its_errors_with_it(jobs):
    @jobs.job(max_retries=1, retry=NoDelay())
    def failing():
        raise RuntimeError("no luck")

    failing.enqueue()
    jobs.drain()

    (record,) = jobs.list()
    assert [error.message for error in record.errors] == ["no luck", "no luck"]


def test_a_running_job_shows_who_runs_it_and_since_when(jobs, work, claim_elsewhere, clock):
    handle = work.enqueue()
    clock.advance(5)
    claim_elsewhere(jobs, owner="worker-a")

    record = jobs.get(handle.id)
    assert (record.state, record.owner, record.started_at, record.delivery) == ("executing", "worker-a", clock.now(), 1)


def test_a_finished_job_shows_when_it_ended(jobs, work, clock):
    handle = work.enqueue()
    clock.advance(5)
    jobs.drain()

    record = jobs.get(handle.id)
    assert record.finished_at == clock.now()
    assert record.is_finished


def test_queues_are_those_that_hold_live_jobs_or_are_paused(jobs, work):
    work.enqueue()
    jobs.drain()
    work.using(queue="mail").enqueue_many([(), ()])
    jobs.pause("night")

    found = [(queue.name, queue.live, queue.paused) for queue in jobs.queues()]
    assert found == [("mail", 2, False), ("night", 0, True)]


def test_the_store_says_how_it_is(jobs):
    assert all(check.status in ("ok", "warn", "fail") for check in jobs.health())


def test_an_overview_has_states_and_queues(jobs, one_in_each_state):
    seen = jobs.overview()

    assert seen.counts == dict.fromkeys(State, 1)
    assert [(queue.name, sum(queue.counts.values())) for queue in seen.queues] == [("default", 4)]


def test_an_overview_counts_no_further_than_its_limit(jobs, work):
    work.enqueue_many([()] * 5)

    assert jobs.overview(3).counts["available"] == 3


def test_who_is_at_work_is_listed_with_what_they_hold(jobs, work, claim_elsewhere):
    assert jobs.sessions() == []
    work.enqueue()

    claim_elsewhere(jobs)

    (session,) = jobs.sessions()
    assert (session.leases, session.alive) == (1, True)
    assert session.renewed_at < session.expires_at


def test_a_session_that_is_not_renewed_is_seen_to_have_expired(jobs, work, claim_elsewhere, clock):
    work.enqueue()
    claim_elsewhere(jobs)
    (before,) = jobs.sessions()

    clock.set(before.expires_at)

    (after,) = jobs.sessions()
    assert (before.alive, after.alive) == (True, False)
    assert jobs.reap()
    assert jobs.sessions() == []
