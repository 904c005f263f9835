"""Whole workers on beanstalkd."""

import pytest

from onward import Fixed, Onward
from onward.errors import Unsupported
from onward.telemetry import JobDiscarded
from tests.backends.broker_workers import BrokerWorkers, left
from tests.waiting import eventually


@pytest.fixture
def jobs(server):
    with Onward(server.url(), dead_letter_queue="dead") as jobs:
        yield jobs


@pytest.fixture
def kill_url(server):
    return server.url()


class TestBeanstalkWorkers(BrokerWorkers):
    broker, count, retry_after = "beanstalkd", 200, 1

    def check_runs(self, runs, of_the_killer):
        assert runs[1] >= self.count - (self.count // 20 + 1) - 4
        assert of_the_killer == 2


def test_what_fails_for_good_is_buried_and_leaves_a_dead_letter(jobs):
    seen, discarded = [], []
    jobs.on(JobDiscarded, discarded.append)

    @jobs.job(max_retries=1, retry=Fixed(1))
    def fail(number: int):
        raise ValueError(f"never {number}")

    @jobs.job(queue="dead")
    def dead_letter(id, job, name, queue, payload, meta, reason, attempts, errors):  # noqa: A002
        seen.append({"payload": payload, "attempts": attempts, "errors": errors})

    fail.enqueue(7)
    with jobs.worker(queues=["default", "dead"]):
        eventually(lambda: seen)
        eventually(lambda: left(jobs) == {"discarded": 1})

    (letter,) = seen
    assert (letter["attempts"], letter["payload"], letter["errors"][-1]["message"]) == (2, {"number": 7}, "never 7")
    eventually(lambda: discarded)


@pytest.mark.parametrize("verb", ["list", "replay", "purge"])
def test_dead_letters_are_an_error_that_names_the_fix(jobs, verb):
    with pytest.raises(Unsupported, match=r"is a broker and cannot .*store=.sqlite"):
        getattr(jobs.dead_letters, verb)()
