"""`onward forget`."""

import pytest

from onward.backend import Claim


@pytest.fixture
def charge(jobs):
    return jobs.job(name="charge")(lambda: None)


@pytest.fixture
def done(jobs, charge):
    """A key under which the work is done, and one of all jobs."""
    charge.using(idempotency_key="order:42").enqueue()
    charge.using(idempotency_key="all", key_scope="global").enqueue()
    jobs.drain()


def test_a_key_is_forgotten(onward, done, jobs, charge):
    ran = onward("forget", "order:42", "--job", "charge")

    assert (ran.code, ran.out) == (0, "forgot order:42 of charge: its work may be done again\n")
    charge.using(idempotency_key="order:42").enqueue()
    assert jobs.process_once().status == "acked"


def test_a_key_of_all_jobs_has_no_name(onward, done):
    assert onward("forget", "all").out == "forgot all: its work may be done again\n"


def test_machines_get_an_object(onward, done):
    first, second = (onward("forget", "order:42", "--job", "charge", "--json") for _ in range(2))

    assert first.json == [{"key": "order:42", "job": "charge", "forgotten": True}]
    assert second.json == [{"key": "order:42", "job": "charge", "forgotten": False}]
    assert (first.code, second.code) == (0, 6)


def test_a_key_that_is_not_remembered_is_nothing_and_a_job_that_was_left_out_is_asked_for(onward, done):
    named, unnamed = onward("forget", "order:43", "--job", "charge"), onward("forget", "order:42")

    assert (named.code, named.out, unnamed.code, unnamed.out) == (6, "", 6, "")
    assert "no success is remembered under the key order:43 of charge" in named.err
    assert "--job" not in named.err
    assert "a key that belongs to a job needs --job" in unnamed.err


def test_a_key_that_a_running_job_holds_is_left_alone(onward, jobs, charge):
    handle = charge.using(idempotency_key="order:42").enqueue()
    jobs.backend.claim(Claim(queues=("default",), owner="elsewhere"))

    ran = onward("forget", "order:42", "--job", "charge")

    assert (ran.code, ran.out) == (1, "")
    assert f"is held by job {handle.id}, which runs" in ran.err


def test_what_can_be_no_key_is_refused(onward, done):
    assert onward("forget", "").code == 2
