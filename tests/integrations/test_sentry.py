"""Reports to Sentry: one event for what failed, grouped well, without secrets."""

import asyncio
import logging

import pytest
import sentry_sdk
from sentry_sdk.transport import Transport

from onward import Discard, JobContext, NoDelay, OptionError, Retry, Secret, Snooze
from onward.integrations import sentry
from onward.telemetry import JobDiscarded

CANARY = f"canary-{4700 + 11}"  # not in the lines of code that an event quotes


class Kept(Transport):
    """A transport that keeps what it is given, and sends nothing."""

    def __init__(self, options=None):
        super().__init__(options)
        self.events = []
        self.transactions = []

    def capture_envelope(self, envelope):
        for item in envelope.items:
            if item.type == "event":
                self.events.append(item.payload.json)
            elif item.type == "transaction":
                self.transactions.append(item.payload.json)


@pytest.fixture
def kept():
    kept = Kept()
    sentry_sdk.init(dsn="http://public@localhost/1", transport=kept, traces_sample_rate=1.0, default_integrations=False)
    yield kept
    sentry_sdk.get_global_scope().set_client(None)  # as if it had never been set up


@pytest.fixture
def reported(jobs, kept):
    sentry.install(jobs)
    return jobs


def fails_twice(jobs):
    @jobs.job(max_retries=1, retry=NoDelay())
    def work(n: int) -> None:
        raise KeyError(f"row {n}")

    return work


def run(jobs, times=2):
    for _ in range(times):
        jobs.drain()


def test_a_job_that_is_given_up_is_one_event_with_its_exception_and_tags(reported, kept):
    handle = fails_twice(reported).enqueue(7)
    run(reported)

    (event,) = kept.events
    (raised,) = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("KeyError", "'row 7'")
    assert event["level"] == "error"
    assert {name: event["tags"][name] for name in ("job", "queue", "attempt")} == {
        "job": "work",
        "queue": "default",
        "attempt": "2",
    }
    assert event["contexts"]["onward"]["job_id"] == handle.id
    assert [frame["function"] for frame in raised["stacktrace"]["frames"]] == ["work"]


def test_with_failure_every_failed_run_is_an_event(jobs, kept):
    sentry.install(jobs, on="failure")
    fails_twice(jobs).enqueue(7)
    run(jobs)

    assert [event["tags"]["attempt"] for event in kept.events] == ["1", "2"]


def test_the_same_failure_has_the_same_fingerprint_whatever_it_says(reported, kept):
    work = fails_twice(reported)
    work.enqueue_many([(1,), (2,)])
    run(reported)

    first, second = (event["fingerprint"] for event in kept.events)
    assert first == second
    assert first[:2] == ["onward", "work"]


def test_an_issue_is_a_group_of_dead_jobs(reported, kept):
    work = fails_twice(reported)
    work.enqueue(1)
    run(reported)

    (event,) = kept.events
    (group,) = reported.dead_letters.groups()
    assert event["fingerprint"] == ["onward", group.job, group.fingerprint]


@pytest.mark.parametrize(
    ("end", "reported_kinds"),
    [
        (Snooze(5), []),
        (Retry(after=5), []),
        (Discard("no use"), ["Discard"]),
        (LookupError("no"), ["LookupError"]),
        (ValueError("no"), []),
    ],
    ids=lambda end: type(end).__name__,
)
def test_only_what_is_given_up_is_reported(reported, kept, end, reported_kinds):
    @reported.job(max_retries=3, discard_on=(LookupError,))
    def work() -> None:
        raise end

    work.enqueue()
    reported.drain()

    assert [event["exception"]["values"][-1]["type"] for event in kept.events] == reported_kinds


def test_a_cancelled_run_is_not_reported(reported, kept):
    @reported.job(max_retries=0)
    def work(ctx: JobContext) -> None:
        ctx.ask_to_stop()
        raise RuntimeError("stopped half way")

    work.enqueue()
    reported.drain()

    assert kept.events == []
    assert [each["contexts"]["trace"]["status"] for each in kept.transactions] == ["ok"]


def test_behind_a_retry_the_cause_is_reported(reported, kept):
    @reported.job(max_retries=0)
    def work() -> None:
        try:
            open("nowhere").close()  # noqa: PTH123  it is not there
        except OSError as error:
            raise Retry(after=5) from error

    work.enqueue()
    reported.drain()

    (event,) = kept.events
    assert [each["type"] for each in event["exception"]["values"]] == ["FileNotFoundError"]
    (group,) = reported.dead_letters.groups()
    assert (event["fingerprint"][2], group.kind) == (group.fingerprint, "FileNotFoundError")


@pytest.mark.promise("S142")
def test_secrets_of_arguments_are_in_no_event(reported, kept):
    @reported.job(max_retries=0)
    def login(token: Secret[str]) -> None:
        clear = token.reveal()
        try:
            {}[f"{clear} is unknown"]
        except KeyError as error:
            raise ValueError(f"{clear} is refused") from error

    login.enqueue(Secret(CANARY))
    reported.drain()

    (event,) = kept.events
    assert [each["value"] for each in event["exception"]["values"]] == ["'*** is unknown'", "*** is refused"]
    assert CANARY not in repr(kept.events) + repr(kept.transactions)


def test_a_run_continues_the_trace_of_its_enqueue(reported, kept):
    @reported.job(queue="mail")
    def work() -> None: ...

    with sentry_sdk.start_transaction(op="http.server", name="request") as request:
        handle = work.enqueue()
        work.enqueue_many([(), ()])
    run(reported, 1)

    sent, *runs = kept.transactions
    publish, many = sent["spans"]
    assert (publish["op"], publish["data"]["messaging.message.id"]) == ("queue.publish", handle.id)
    assert many["data"]["messaging.batch.message_count"] == 2
    assert [each["contexts"]["trace"]["op"] for each in runs] == ["queue.process"] * 3
    assert {each["contexts"]["trace"]["trace_id"] for each in runs} == {request.trace_id}
    by_id = {each["contexts"]["trace"]["data"]["messaging.message.id"]: each for each in runs}
    assert by_id[handle.id]["contexts"]["trace"]["parent_span_id"] == publish["span_id"]


def test_tags_of_one_job_are_not_on_the_events_of_another(reported, kept):
    @reported.job(max_retries=0)
    async def slow(n: int) -> None:
        sentry_sdk.set_tag("row", str(n))
        await asyncio.sleep(0)
        raise KeyError(n)

    with reported.worker(concurrency=4):
        handles = [slow.enqueue(n) for n in range(4)]
        for handle in handles:
            with pytest.raises(Exception, match="KeyError"):
                handle.result(20)
    sentry_sdk.capture_message("elsewhere")

    *events, elsewhere = kept.events
    assert sorted((event["tags"]["row"], event["exception"]["values"][0]["value"]) for event in events) == [
        (str(n), str(n)) for n in range(4)
    ]
    assert "row" not in elsewhere.get("tags", {})


def test_a_job_whose_processes_died_is_reported_from_the_event(reported, kept):
    common = {"id": "1", "job": "work", "queue": "default", "attempt": 0, "duration_ms": 0}
    reported.telemetry.emit(JobDiscarded(**common, error="signal 9", kind="Crash", reason="crashed 3 times"))
    reported.telemetry.emit(JobDiscarded(**common, error="no", kind="ValueError", reason="gave up"))
    assert reported.telemetry.flush(10)

    (event,) = kept.events
    assert event["fingerprint"] == ["onward", "work", "crashed"]
    assert event["message"] == "work: crashed 3 times"
    assert event["tags"]["queue"] == "default"


@pytest.mark.promise("S155")
def test_an_sdk_that_raises_fails_no_job_and_hides_no_error(reported, monkeypatch, caplog):
    def raises(*args, **kwargs):
        raise RuntimeError("the SDK is broken")

    @reported.job
    def good(n: int) -> int:
        return n

    bad = fails_twice(reported)
    for name in ("get_traceparent", "capture_event"):
        monkeypatch.setattr(sentry_sdk, name, raises)

    with caplog.at_level(logging.WARNING, "onward"):
        handles, failing = [good.enqueue(n) for n in range(3)], bad.enqueue(1)
        run(reported)

    assert [handle.result(1) for handle in handles] == [0, 1, 2]
    assert [error.kind for error in failing.record().errors] == ["KeyError", "KeyError"]
    lines = [record.getMessage() for record in caplog.records if "jobs go on without it" in record.getMessage()]
    assert len(lines) == len(set(lines)) == 2


def test_without_a_client_nothing_is_sent_and_jobs_run(jobs):
    sentry.install(jobs)
    handle = fails_twice(jobs).enqueue(1)
    run(jobs)

    assert handle.record().errors[0].kind == "KeyError"


def test_what_is_wrong_is_refused_with_the_fix(jobs):
    with pytest.raises(OptionError, match="'discard' or 'failure'"):
        sentry.install(jobs, on="always")
    sentry.install(jobs)
    with pytest.raises(OptionError, match="installed in this application already"):
        sentry.install(jobs)
