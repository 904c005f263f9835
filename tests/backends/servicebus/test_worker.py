"""Whole workers on Service Bus."""

import pytest

from onward import Fixed, Onward
from onward.cli.ids import find_dead
from onward.errors import OptionError, Unsupported
from onward.telemetry import JobDiscarded
from tests.backends.broker_workers import BrokerWorkers, left
from tests.servers.servicebus import entity, servicebus, url_of
from tests.waiting import eventually


@pytest.fixture(scope="module")
def module_server():
    """Goes by the machine's clock."""
    with servicebus(lock_duration=30, duplicate_detection_window=600) as server:
        yield server


@pytest.fixture
def jobs(module_server):
    """An application of its own for every test: a test that is run again registers its jobs again."""
    module_server.clear()
    with Onward(url_of(module_server), dead_letter_queue="dead") as jobs:
        yield jobs


@pytest.fixture
def kill_url():
    with servicebus(lock_duration=5) as server:
        yield url_of(server)


class TestServiceBusWorkers(BrokerWorkers):
    broker, count, retry_after = "Service Bus", 40, 0.1
    # A process that gets no processor for five seconds has crashed, as far as the broker can tell; that may happen often.
    options = {"lease_for": 5, "max_crashes": 100}  # noqa: RUF012


def test_what_fails_for_good_is_a_dead_letter_that_can_be_listed_and_replayed(jobs):
    seen, discarded, healed = [], [], []
    jobs.on(JobDiscarded, discarded.append)

    @jobs.job(max_retries=1, retry=Fixed(0.1))
    def fail(number: int):
        if not healed:
            raise ValueError(f"never {number}")
        healed.append(number)

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

    (record,) = jobs.dead_letters.list()
    assert (record.job, record.attempts, record.queue) == ("fail", 2, "default")
    assert "2 attempts" in record.reason
    assert record.errors[-1].message == "never 7"
    assert jobs.dead_letters.list("dead") == []
    assert jobs.dead_letters.list(job="other") == []

    healed.append(0)
    assert jobs.dead_letters.replay([record.id]) == 1
    assert jobs.process_once().status == "acked"
    assert healed == [0, 7]
    assert not left(jobs)


def test_some_dead_letters_are_picked_and_the_others_stay(jobs):
    @jobs.job
    def fall(number: int):
        raise ValueError(number)

    for number in range(5):
        fall.enqueue(number)
    jobs.drain("default")
    records = jobs.dead_letters.list()
    assert jobs.dead_letters.get(records[2].id) == records[2]
    assert find_dead(jobs, records[2].id[:31]) == records[2]

    assert jobs.dead_letters.replay([records[3].id, records[1].id]) == 2
    assert jobs.dead_letters.purge([records[0].id]) == 1

    assert [record.id for record in jobs.dead_letters.list()] == [records[2].id, records[4].id]
    assert left(jobs, "default") == {"available": 2, "discarded": 2}


def test_with_a_store_beside_it_jobs_can_be_asked_about(module_server, tmp_path):
    """The queue detects duplicates: whatever is put there again must not be taken for a repetition."""
    module_server.clear()
    with Onward(url_of(module_server), store=f"sqlite:///{tmp_path}/jobs.db") as jobs:
        runs = []

        @jobs.job(retry=Fixed(0.1), max_retries=1)
        def add(a: int, b: int) -> int:
            runs.append(a)
            if len(runs) < 4:
                raise ValueError("not yet")
            return a + b

        handle = add.using(idempotency_key="once").enqueue(1, 2)
        with jobs.worker(concurrency=2):
            eventually(lambda: handle.state() == "discarded")
            assert jobs.dead_letters.replay([handle.id]) == 1
            assert handle.result(timeout=60) == 3
            eventually(lambda: not module_server.messages(entity()))
    assert len(runs) == 4


def test_with_a_store_beside_it_flows_run(module_server, tmp_path):
    module_server.clear()
    with Onward(url_of(module_server), store=f"sqlite:///{tmp_path}/jobs.db") as jobs:
        ran = []

        @jobs.job
        def note(word: str) -> str:
            ran.append(word)
            return word

        flow = jobs.flow("letters")
        middle = flow.map(note, [("left",), ("right",)], after=flow.add(note, "first"), node="middle")
        flow.add(note, "last", after=middle)
        handle = flow.enqueue()
        assert len(module_server.messages(entity())) == 1
        with jobs.worker(concurrency=2):
            assert handle.wait(timeout=60) == "completed"
            eventually(lambda: not module_server.messages(entity()))

    assert (ran[0], sorted(ran[1:3]), ran[3]) == ("first", ["left", "right"], "last")


def test_without_a_store_flows_are_refused_and_the_fix_is_named(jobs):
    for build in (lambda: jobs.flow("a"), lambda: jobs.batch("a"), jobs.flows.list):
        with pytest.raises(Unsupported, match=r'keeps no flows .*store="sqlite:///onward\.db"\) or ONWARD_STORE'):
            build()
    assert not left(jobs)


def test_a_priority_is_an_error_where_it_is_asked_for(jobs):
    with pytest.raises(OptionError, match="priority"):
        jobs.enqueue("unknown", priority=5)
    assert not left(jobs)
