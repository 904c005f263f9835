"""Jobs that no worker here can run: unknown ones wait for a worker that knows them, unreadable ones are kept as they are."""

import logging
import sqlite3

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward import JobContext, NoDelay, Onward
from onward.backend import Envelope
from onward.job.envelope import Letter, seal
from onward.telemetry import JobDiscarded, JobFailed, JobParked
from onward.testing import FakeClock

ID = "0190" + "0" * 28
DAY = 86_400

shared = pytest.mark.parametrize("store", ["sqlite"])  # each memory:// application is its own store


def an_envelope(data, *, job_id=ID, queue="default"):
    return Envelope(job_id, queue, data, job="work", enqueued_at=0, max_crashes=3)


def a_letter(**fields):
    return Letter(
        **{
            "id": ID,
            "namespace": "default",
            "queue": "default",
            "job": "work",
            "max_crashes": 3,
            "enqueued_at": 0,
            **fields,
        }
    )


def wait_of(jobs, job_id, clock):
    return (jobs.get(job_id).available_at - clock.now()).total_seconds()


class TestAnUnknownJob:
    @pytest.mark.promise("F56")
    def test_it_is_parked_and_burns_nothing(self, jobs, clock):
        handle = jobs.enqueue("unknown_here", {"n": 1})

        result = jobs.process_once()

        record = jobs.get(handle.id)
        assert (result.status, record.state, record.attempts, record.crashes) == ("parked", "scheduled", 0, 0)
        assert wait_of(jobs, handle.id, clock) == 10

    @pytest.mark.promise("F56")
    def test_it_is_looked_at_less_and_less_often(self, jobs, clock):
        handle = jobs.enqueue("unknown_here")
        waits = []
        for _ in range(8):
            jobs.process_once()
            waits.append(wait_of(jobs, handle.id, clock))
            clock.advance(waits[-1])

        assert waits == [10, 20, 40, 80, 160, 320, 600, 600]

    @pytest.mark.promise("F56")
    def test_only_the_first_parking_warns_and_says_what_may_be_wrong(self, jobs, clock, caplog):
        jobs.enqueue("unknown_here")
        for _ in range(3):
            jobs.process_once()
            clock.advance(600)

        (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert "is its module imported?" in line.getMessage()
        assert "unknown_here" in line.getMessage()

    @pytest.mark.promise("F56")
    def test_it_is_run_by_the_first_worker_that_knows_it(self, jobs, clock):
        handle = jobs.enqueue("work", {"n": 3})
        jobs.process_once()

        @jobs.job
        def work(n: int) -> int:
            return n

        clock.advance(10)
        jobs.drain()

        assert handle.result() == 3
        assert jobs.get(handle.id).attempts == 1

    @pytest.mark.promise("F56")
    def test_after_its_grace_it_is_discarded_with_the_reason(self, open_app, clock):
        jobs = open_app(unknown_grace="1h")
        handle = jobs.enqueue("unknown_here")
        jobs.process_once()
        clock.advance(3599)
        assert jobs.process_once().status == "parked"

        clock.advance(3600)
        assert jobs.process_once().status == "dead-lettered"
        record = jobs.get(handle.id)
        assert (record.state, record.attempts) == ("discarded", 0)
        assert record.reason == "job 'unknown_here' is not registered here: is its module imported?"

    @pytest.mark.promise("F56", "S29")
    def test_its_discard_is_not_counted_as_a_failure(self, jobs, clock):
        jobs.enqueue("unknown_here")
        jobs.process_once()
        clock.advance(DAY)
        jobs.process_once()

        count = jobs.metrics.count
        assert (count("jobs_parked"), count("jobs_unknown")) == (1, 1)
        assert (count("jobs_failed"), count("jobs_failed_permanently")) == (0, 0)

    def test_its_parking_is_told_as_an_event_and_its_end_as_a_discard(self, jobs, clock, listen):
        heard = listen(jobs)
        handle = jobs.enqueue("unknown_here")
        jobs.process_once()
        clock.advance(DAY)
        jobs.process_once()

        parked, discarded = heard(JobParked, JobDiscarded, JobFailed)
        assert (parked.id, parked.delay) == (handle.id, 10)
        assert (discarded.id, discarded.kind) == (handle.id, "UnknownJob")

    @pytest.mark.promise("F56")
    def test_an_alias_finds_the_job_that_was_renamed(self, jobs):
        handle = jobs.enqueue("old_name", {"n": 3})

        @jobs.job(aliases=["old_name", "older_name"])
        def new_name(n: int) -> int:
            return n

        jobs.drain()

        assert handle.result() == 3

    @shared
    @pytest.mark.promise("F56")
    def test_a_deployment_halfway_through_drops_nothing(self, open_app, clock):
        """Old and new workers share a store; the new job is met by old workers first."""
        old, new = open_app(), open_app()

        @new.job
        def invented_today(n: int) -> int:
            return n

        handles = invented_today.enqueue_many([(n,) for n in range(20)])
        old.drain()
        clock.advance(10)
        new.drain()

        assert [handle.result() for handle in handles] == list(range(20))


UNREADABLE = {
    "empty": b"",
    "noise": b"\x00\xff\xfe not a job",
    "text": b"hello",
    "no header": msgspec.json.encode(a_letter()),
    "header only": b"onward/1 - -\n",
    "broken header": b"onward/1\n{}",
    "version zero": b"onward/0 - -\n{}",
    "not JSON": b"onward/1 - -\n{'id': 1}",
    "wrong shape": b'onward/1 - -\n{"id": 1}',
    "invalid UTF-8": b'onward/1 - -\n{"id": "\xff"}',
    "cut off": seal(a_letter()).data[:-5],
    "deep": b"onward/1 - -\n" + b"[" * 100_000,
    "another id": seal(a_letter(id="f" * 32)).data,
    "another queue": seal(a_letter(queue="mail")).data,
    "another namespace": seal(a_letter(namespace="elsewhere")).data,
}


class TestUnreadableBytes:
    @pytest.mark.promise("F57")
    @pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
    def test_they_are_discarded_at_once_with_the_reason_and_the_raw_bytes(self, jobs, data):
        jobs.backend.enqueue([an_envelope(data)])

        result = jobs.process_once()

        record = jobs.get(ID)
        assert (result.status, record.state, record.attempts) == ("rejected", "discarded", 0)
        assert record.raw == data
        assert record.reason == record.errors[-1].message

    @pytest.mark.promise("F57")
    @pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
    def test_they_can_be_looked_at_before_and_after(self, jobs, data):
        jobs.backend.enqueue([an_envelope(data)])
        before = (jobs.get(ID).raw, [record.raw for record in jobs.list()], jobs.handle(ID).state())
        jobs.drain()
        after = (jobs.get(ID).raw, [record.raw for record in jobs.list()], jobs.handle(ID).state())

        assert before == (data, [data], "available")
        assert after == (data, [data], "discarded")

    @pytest.mark.promise("F57")
    def test_they_hold_up_no_job_behind_them(self, jobs):
        jobs.backend.enqueue([an_envelope(b"noise")])

        @jobs.job
        def work(): ...

        handle = work.enqueue()
        jobs.drain()

        assert handle.state() == "completed"

    @pytest.mark.promise("F84")
    @pytest.mark.parametrize("store", ["memory"])  # SQLite's tables are strict
    @pytest.mark.parametrize("engine", ["process_once", "worker"])
    def test_what_is_no_bytes_at_all_is_a_failure_of_that_job(self, jobs, engine, eventually, caplog):
        """A store that hands back something else than was stored: nothing here expects that."""
        noise = an_envelope(7)

        @jobs.job
        def work(): ...

        jobs.backend.enqueue([noise])
        handle = work.enqueue()
        if engine == "process_once":
            assert [jobs.process_once().status for _ in range(2)] == ["dead-lettered", "acked"]
        else:
            with jobs.worker() as worker:
                eventually(lambda: handle.state() == "completed")
                eventually(lambda: jobs.counts()["discarded"] == 1)
                assert worker.running
        (line,) = [line for line in caplog.records if "the engine failed on job" in line.getMessage()]
        assert (line.levelname, noise.id in line.getMessage()) == ("CRITICAL", True)

    @pytest.mark.promise("F57", "S29")
    def test_they_are_counted_as_unreadable_and_not_as_failed_or_forged(self, jobs):
        jobs.backend.enqueue([an_envelope(b"noise")])
        jobs.drain()

        count = jobs.metrics.count
        assert (count("jobs_unreadable"), count("jobs_rejected_signature"), count("jobs_failed")) == (1, 0, 0)

    @pytest.mark.promise("F57", "S23")
    def test_they_are_copied_to_the_dead_letter_queue_too(self, open_app):
        jobs = open_app(dead_letter_queue="failed_jobs")
        jobs.backend.enqueue([an_envelope(b"noise")])
        jobs.drain("default")

        (copy,) = jobs.list(queue="failed_jobs")
        assert (copy.payload["id"], copy.payload["payload"]) == (ID, None)

    @pytest.mark.promise("F57", "F60")
    @pytest.mark.parametrize(
        "payload", [b'{"n": "\xff"}', b'{"n": "\\ud800"}', b"[" * 900 + b"]" * 900, b'{"n": 1e999}']
    )
    def test_a_payload_that_no_version_can_read_is_a_failure_and_can_be_looked_at(self, jobs, payload):
        @jobs.job
        def work(n: int): ...

        jobs.backend.enqueue([seal(a_letter(payload=msgspec.Raw(payload)))])
        jobs.drain()

        assert jobs.get(ID).state == "discarded"
        assert jobs.list()[0].id == ID
        assert payload in jobs.get(ID).raw

    @pytest.mark.promise("F57")
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_no_damage_to_the_bytes_stops_a_worker(self, data):
        sealed = seal(a_letter(payload=msgspec.Raw(b'{"n": 1}'), meta={"k": "v"}, max_retries=0)).data
        cut = data.draw(st.integers(0, len(sealed)))
        patch = data.draw(st.binary(max_size=8))
        damaged = sealed[:cut] + patch + sealed[cut + len(patch) :]

        with Onward("memory://", clock=FakeClock()) as jobs:

            @jobs.job
            def work(n: int): ...

            jobs.backend.enqueue([an_envelope(damaged)])
            status = jobs.process_once().status
            record = jobs.get(ID)

        assert status in ("acked", "rejected", "dead-lettered", "parked", "requeued", "skipped-idempotent", "cancelled")
        assert record.raw == damaged


class TestANewerEnvelope:
    @pytest.fixture
    def newer(self):
        return seal(a_letter()).data.replace(b"onward/1", b"onward/7")

    @pytest.mark.promise("F64")
    def test_it_is_parked_untouched_and_burns_nothing(self, jobs, clock, newer):
        jobs.backend.enqueue([an_envelope(newer)])

        result = jobs.process_once()

        record = jobs.get(ID)
        assert (result.status, record.state, record.attempts) == ("parked", "scheduled", 0)
        assert record.raw == newer
        assert wait_of(jobs, ID, clock) == 10

    @pytest.mark.promise("F64")
    def test_it_is_never_given_up(self, jobs, clock, newer):
        jobs.backend.enqueue([an_envelope(newer)])
        for _ in range(10):
            jobs.process_once()
            clock.advance(DAY)

        assert jobs.get(ID).state == "scheduled"

    @pytest.mark.promise("F64")
    def test_the_first_parking_says_what_to_do(self, jobs, newer, caplog):
        jobs.backend.enqueue([an_envelope(newer)])
        jobs.process_once()

        assert "envelope version 7 is newer than 1: upgrade this worker" in caplog.text


class TestAWrongPayloadByName:
    def test_it_is_refused_where_the_job_is_known(self, jobs):
        @jobs.job
        def work(n: int): ...

        with pytest.raises(TypeError, match="work: Expected `int`, got `str`"):
            jobs.enqueue("work", {"n": "three"})
        assert sum(jobs.counts().values()) == 0

    def test_it_is_parked_where_the_job_was_not_known(self, jobs):
        handle = jobs.enqueue("work", {"n": "three"})

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(n: int): ...

        assert jobs.process_once().status == "parked"
        assert (handle.state(), handle.record().attempts) == ("scheduled", 0)

    def test_the_context_shows_the_payload_as_it_came(self, jobs):
        seen = []
        jobs.enqueue("work", {"n": 3})

        @jobs.job
        def work(ctx: JobContext, n: int):
            seen.append(ctx.payload)

        jobs.drain()

        assert seen == [{"n": 3}]


class Account(msgspec.Struct):
    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("no account has that number")
        if self.number == 13:
            raise KeyError("the validator is broken")


class Amount(pydantic.BaseModel):
    cents: int


def with_a_new_parameter(order: int, currency: str): ...
def without_a_parameter(): ...
def with_another_type(order: list[int]): ...
def with_a_struct(order: Account): ...
def with_a_model(order: Amount): ...


ANOTHER = "it was enqueued by another version of the code, so"
UNTIL = "run that version until its jobs are done"
ENQUEUED_BY_ANOTHER_VERSION = {
    with_a_new_parameter: (
        {"order": 1},
        f"job 'charge' has no value for parameter 'currency': {ANOTHER} give the parameter a default, or {UNTIL}",
    ),
    without_a_parameter: (
        {"order": 1},
        f"job 'charge' has no parameter 'order': {ANOTHER} keep the parameter, or {UNTIL}",
    ),
    with_another_type: (
        {"order": 1},
        "job 'charge': parameter 'order' does not fit this version of the code: Expected `array`, got `int`",
    ),
    with_a_struct: (
        {"order": {"number": -1}},
        "job 'charge': parameter 'order' does not fit this version of the code: no account has that number",
    ),
    with_a_model: (
        {"order": {"cents": "all"}},
        "job 'charge': parameter 'order' does not fit this version of the code: cents: Input should be a valid integer",
    ),
}
misfits = pytest.mark.parametrize(
    ("function", "payload", "reason"),
    [(function, *case) for function, case in ENQUEUED_BY_ANOTHER_VERSION.items()],
    ids=[function.__name__ for function in ENQUEUED_BY_ANOTHER_VERSION],
)


class TestArgumentsOfAnotherVersion:
    """A deployment halfway through: a job was enqueued by another version of its code, and this worker cannot call it."""

    @misfits
    @pytest.mark.promise("F56")
    def test_the_job_is_parked_and_the_log_names_the_parameter(self, jobs, caplog, clock, function, payload, reason):
        handle = jobs.enqueue("charge", payload, max_retries=0)
        jobs.job(name="charge")(function)

        result = jobs.process_once()

        record = handle.record()
        assert (result.status, record.state, record.attempts, record.errors) == ("parked", "scheduled", 0, ())
        assert wait_of(jobs, handle.id, clock) == 10
        (line,) = [line for line in caplog.records if line.levelno >= logging.WARNING]
        assert f"job.parked charge {handle.id}, looked at again in 10 s: {reason}" in line.getMessage()

    @misfits
    @pytest.mark.promise("F56")
    def test_after_its_grace_it_is_discarded_with_that_reason(self, jobs, clock, function, payload, reason):
        handle = jobs.enqueue("charge", payload, max_retries=0)
        jobs.job(name="charge")(function)
        jobs.process_once()
        clock.advance(DAY)

        assert jobs.process_once().status == "dead-lettered"
        record = handle.record()
        assert (record.state, record.attempts, record.errors[-1].kind) == (
            "discarded",
            0,
            "onward.job.arguments.DoesNotFit",
        )
        assert record.reason.startswith(reason)
        count = jobs.metrics.count
        assert (count("jobs_parked"), count("jobs_misfit"), count("jobs_failed")) == (1, 1, 0)

    @pytest.mark.promise("F56")
    def test_an_async_job_is_parked_too(self, jobs):
        handle = jobs.enqueue("charge", {"order": 1})

        @jobs.job
        async def charge(order: int, currency: str): ...

        assert jobs.process_once().status == "parked"
        assert handle.record().attempts == 0

    @shared
    @pytest.mark.promise("F56")
    def test_a_worker_of_the_right_version_runs_it(self, open_app, clock):
        old, new = open_app(), open_app()
        ran = []

        @old.job(name="charge")
        def charge_before(order: int):
            ran.append(("old", order))

        @new.job(name="charge")
        def charge_after(order: int, currency: str):
            ran.append(("new", order, currency))

        handles = [charge_before.enqueue(1), charge_after.enqueue(2, "EUR")]
        for _ in range(2):
            new.process_once()
        for _ in range(2):
            clock.advance(10)
            old.process_once()
        clock.advance(20)
        new.drain()

        assert ran == [("new", 2, "EUR"), ("old", 1)]
        assert [handle.state() for handle in handles] == ["completed", "completed"]

    def test_what_a_handler_raises_itself_is_a_failure(self, jobs):
        @jobs.job
        def charge(order: int):
            msgspec.convert("one", int)

        handle = charge.enqueue(1)

        assert jobs.process_once().status == "dead-lettered"
        assert handle.record().errors[-1].kind == "msgspec.ValidationError"

    def test_a_validator_that_breaks_is_a_failure(self, jobs):
        """It does not say that the value does not fit."""
        handle = jobs.enqueue("charge", {"order": {"number": 13}})
        jobs.job(name="charge")(with_a_struct)

        assert jobs.process_once().status == "dead-lettered"
        assert (handle.record().errors[-1].kind, handle.record().attempts) == ("KeyError", 1)

    def test_a_secret_is_not_in_the_reason(self, jobs, clock, caplog):
        handle = jobs.enqueue("charge", {"token": {"cents": "hunter2-and-more"}})

        @jobs.job
        def charge(token: Amount): ...

        jobs.process_once()
        clock.advance(DAY)
        jobs.process_once()

        assert handle.state() == "discarded"
        assert "hunter2-and-more" not in handle.record().reason + caplog.text


@shared
@pytest.mark.promise("F57")
def test_bytes_damaged_on_disk_are_kept_and_hold_up_no_other(open_app, folder):
    jobs = open_app()

    @jobs.job
    def work(): ...

    damaged, sound = work.enqueue(), work.enqueue()
    connection = sqlite3.connect(folder / "jobs.db")
    connection.execute("UPDATE onward_jobs SET sealed = x'00ff' WHERE id = ?", (damaged.id,))
    connection.commit()
    connection.close()
    jobs.drain()

    assert (damaged.state(), sound.state()) == ("discarded", "completed")
    assert jobs.get(damaged.id).raw == b"\x00\xff"
