"""`jobs.forget`: whose key is meant, and what cannot be forgotten."""

import pickle

import pytest

from onward import InvalidName
from onward.errors import KeyInUse

pytestmark = pytest.mark.promise("S33")


def test_a_job_is_known_by_its_old_names(jobs):
    @jobs.job(aliases=["bill"])
    def charge(): ...

    charge.using(idempotency_key="k").enqueue()
    jobs.drain()

    assert jobs.forget("k", job="bill")


def test_the_key_of_another_job_is_another_key(jobs):
    @jobs.job
    def charge(): ...

    charge.using(idempotency_key="k").enqueue()
    jobs.drain()

    assert not jobs.forget("k", job="refund")
    assert jobs.forget("k", job="charge")


def test_a_named_job_is_meant_by_its_name_and_not_by_its_handler(open_app):
    jobs = open_app(handlers={"shell": {"allow": ["/bin/echo"]}}, queue_handlers={"default": ["shell"]})
    jobs.define("shell", ["/bin/echo"]).named("backup").idempotency_key("k").dispatch()
    jobs.drain()

    assert not jobs.forget("k", job="shell")
    assert jobs.forget("k", job="backup")


def test_it_finds_the_key_where_keys_are_digests(open_app):
    jobs = open_app(encryption=True, signing_keys=f"k1:{'s' * 40}")

    @jobs.job
    def charge(): ...

    charge.using(idempotency_key="k").enqueue()
    jobs.drain()

    assert jobs.forget("k", job=charge)


@pytest.mark.parametrize(("key", "job"), [("", "charge"), (42, "charge"), ("k", "no name"), ("k", "")])
def test_what_can_be_no_key_or_no_name_is_refused(jobs, key, job):
    with pytest.raises(InvalidName):
        jobs.forget(key, job=job)


def test_a_waiting_job_with_the_key_does_not_hold_it(jobs):
    @jobs.job
    def charge(): ...

    once = charge.using(idempotency_key="k")
    once.enqueue()
    jobs.drain()
    once.enqueue()

    assert jobs.forget("k", job=charge)
    assert jobs.process_once().status == "acked"


def test_the_refusal_travels_between_processes():
    error = pickle.loads(pickle.dumps(KeyInUse("k", "charge", "0123")))

    assert (error.key, error.job_id) == ("k", "0123")
