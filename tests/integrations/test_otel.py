"""Traces: a span for each enqueue and for each run, and no job that fails for them."""

import asyncio
import logging
import sqlite3

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from onward import Discard, JobContext, NoDelay, Onward, OptionError, Retry, Secret, Snooze
from onward.errors import BackendRefused, PayloadTooLarge
from onward.integrations import otel


class Spans:
    """The spans that were exported, and a tracer for those of the program itself."""

    def __init__(self):
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("tests")

    def named(self, name):
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name):
        (span,) = self.named(name)
        return span

    def all(self):
        return sorted(span.name for span in self._exporter.get_finished_spans())


@pytest.fixture
def spans():
    return Spans()


@pytest.fixture
def traced(jobs, spans):
    otel.install(jobs, tracer_provider=spans.provider)
    return jobs


def status(span):
    return span.status.status_code


@pytest.mark.promise("S154")
def test_a_run_is_a_child_of_the_span_that_enqueued_it(traced, spans):
    seen = []

    @traced.job(queue="mail")
    def work() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)

    with spans.tracer.start_as_current_span("request"):
        handle = work.enqueue()
    traced.drain()

    request, send, process = spans.one("request"), spans.one("send mail"), spans.one("process mail")
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert send.parent.span_id == request.context.span_id
    assert process.parent.span_id == send.context.span_id
    assert process.context.trace_id == request.context.trace_id
    assert [link.context.span_id for link in process.links] == [send.context.span_id]
    assert seen == [process.context.span_id]
    assert dict(send.attributes) == {
        "messaging.system": "onward",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": handle.id,
        "onward.job": "work",
    }
    assert dict(process.attributes) == {
        "messaging.system": "onward",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": handle.id,
        "onward.job": "work",
        "onward.attempt": 1,
        "onward.delivery": 1,
    }


@pytest.mark.promise("S154")
def test_with_links_a_run_begins_a_trace_of_its_own(jobs, spans):
    otel.install(jobs, parent="link", tracer_provider=spans.provider)

    @jobs.job
    def work() -> None: ...

    work.enqueue()
    with spans.tracer.start_as_current_span("elsewhere"):
        jobs.drain()

    send, process = spans.one("send default"), spans.one("process default")
    assert process.parent is None
    assert process.context.trace_id != send.context.trace_id
    assert [link.context.span_id for link in process.links] == [send.context.span_id]


@pytest.mark.promise("S154")
def test_the_second_run_is_a_child_of_the_same_span_with_its_attempt_and_a_link(traced, spans):
    @traced.job(max_retries=1, retry=NoDelay())
    def work(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise KeyError("once")

    work.enqueue()
    traced.drain()
    traced.drain()

    first, second = spans.named("process default")
    send = spans.one("send default")
    assert [run.attributes["onward.attempt"] for run in (first, second)] == [1, 2]
    assert [run.parent.span_id for run in (first, second)] == [send.context.span_id] * 2
    assert [link.context.span_id for link in second.links] == [send.context.span_id]
    assert (status(first), status(second)) == (StatusCode.ERROR, StatusCode.UNSET)
    assert first.attributes["error.type"] == "KeyError"
    assert "error.type" not in second.attributes


@pytest.mark.promise("S154")
@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (Snooze(5), None),
        (Retry(after=5), "onward.job.signals.Retry"),
        (Discard("no use"), "onward.job.signals.Discard"),
        (ValueError("no"), "ValueError"),
    ],
    ids=lambda end: type(end).__name__,
)
def test_only_a_failed_run_is_an_error(traced, spans, end, kind):
    @traced.job(max_retries=0)
    def work() -> None:
        raise end

    work.enqueue()
    traced.drain()

    process = spans.one("process default")
    assert process.attributes.get("error.type") == kind
    assert status(process) is (StatusCode.UNSET if kind is None else StatusCode.ERROR)


def test_a_cancelled_run_and_one_that_sleeps_are_no_errors(traced, spans):
    @traced.job(queue="stopped")
    def stopped(ctx: JobContext) -> None:
        ctx.ask_to_stop()
        raise RuntimeError("stopped half way")

    @traced.job(queue="asleep")
    def asleep(ctx: JobContext) -> None:
        ctx.sleep("night", 60)

    stopped.enqueue()
    asleep.enqueue()
    traced.drain()

    assert status(spans.one("process stopped")) is StatusCode.UNSET
    assert status(spans.one("process asleep")) is StatusCode.UNSET


@pytest.mark.promise("S154")
def test_a_batch_has_one_span_for_all_of_its_jobs(traced, spans):
    @traced.job
    def work(n: int) -> None: ...

    work.enqueue_many([(n,) for n in range(3)])
    traced.drain()

    send = spans.one("send default")
    assert send.attributes["messaging.batch.message_count"] == 3
    assert {run.parent.span_id for run in spans.named("process default")} == {send.context.span_id}
    assert len(spans.named("process default")) == 3


def test_every_way_to_enqueue_has_its_span(traced, spans, store, folder):
    @traced.job
    def work(n: int = 0) -> None: ...

    work.enqueue()
    work.using(delay=5).enqueue()
    traced.enqueue("work")
    traced.enqueue_many("work", [{}, {}])
    asyncio.run(work.aenqueue())
    asyncio.run(work.aenqueue_many([(1,), (2,)]))
    flow = traced.flow("pair")
    flow.add(work, 1)
    flow.enqueue()
    with traced.batch("many") as batch:
        batch.add(work, 1)
        batch.add(work, 2)
    expected = 8
    if store == "sqlite":
        with sqlite3.connect(folder / "jobs.db") as connection:
            connection.execute("BEGIN IMMEDIATE")
            with traced.transaction(connection) as tx:
                tx.enqueue(work)
        connection.close()
        expected += 1

    sends = spans.named("send default")
    assert len(sends) == expected
    assert [span.attributes.get("messaging.batch.message_count", 1) for span in sends][3] == 2
    assert {span.attributes.get("error.type") for span in sends} == {None}
    assert set(spans.all()) == {"send default"}


def test_what_is_not_stored_has_a_span_with_the_error_and_the_next_has_one_of_its_own(traced, spans, monkeypatch):
    @traced.job
    def work(text: str) -> None: ...

    def refuse(envelopes, *, retried=False):
        raise BackendRefused("no")

    with pytest.raises(PayloadTooLarge):
        work.enqueue("x" * 2_000_000)
    with monkeypatch.context() as patched:
        patched.setattr(traced.client._commit, "_enqueue", refuse)
        with pytest.raises(BackendRefused):
            work.enqueue("a")
    work.enqueue("b")

    assert [span.attributes["error.type"] for span in spans.named("send")] == [
        "onward.errors.PayloadTooLarge",
        "onward.errors.BackendRefused",
    ]
    assert status(spans.one("send default")) is StatusCode.UNSET


def test_async_handlers_run_inside_their_span(traced, spans):
    @traced.job
    async def work() -> int:
        await asyncio.sleep(0)
        return trace.get_current_span().get_span_context().span_id

    handle = work.enqueue()
    with traced.worker():
        seen = handle.result(20)

    assert seen == spans.one("process default").context.span_id
    assert not trace.get_current_span().get_span_context().is_valid


def test_what_a_handler_enqueues_belongs_to_its_run(traced, spans):
    @traced.job(queue="second")
    def second() -> None: ...

    @traced.job
    def first() -> None:
        second.enqueue()

    first.enqueue()
    traced.drain()
    traced.drain("second")

    assert spans.one("send second").parent.span_id == spans.one("process default").context.span_id
    assert spans.one("process second").context.trace_id == spans.one("send default").context.trace_id


@pytest.mark.promise("S142")
def test_secrets_of_arguments_are_in_no_span(traced, spans):
    @traced.job(max_retries=0)
    def login(token: Secret[str]) -> None:
        raise ValueError(f"{token.reveal()} is refused")

    login.enqueue(Secret("canary-4711"))
    traced.drain()

    process = spans.one("process default")
    assert process.status.description == "*** is refused"
    assert process.events[0].attributes["exception.type"] == "ValueError"
    assert "canary-4711" not in process.to_json() + spans.one("send default").to_json()


def test_baggage_travels_only_if_that_is_asked_for(jobs, spans, open_app):
    otel.install(jobs, baggage=True, tracer_provider=spans.provider)

    @jobs.job
    def work() -> None:
        seen.append(baggage.get_baggage("tenant"))

    seen = []
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    try:
        handle = work.enqueue()
        other = open_app()
        otel.install(other, tracer_provider=spans.provider)
        silent = other.enqueue("work")
    finally:
        context.detach(token)
    jobs.drain()

    assert "acme" in seen
    assert "onward.baggage" in handle.record().meta
    assert sorted(silent.record().meta) == ["onward.traceparent"]


class Broken:
    """A tracer that raises whenever it is used."""

    def get_tracer(self, *args, **kwargs):
        return self

    def start_span(self, *args, **kwargs):
        raise RuntimeError("the exporter is gone")


@pytest.mark.promise("S155")
def test_a_tracer_that_raises_fails_no_job_and_is_logged_once(jobs, caplog):
    otel.install(jobs, tracer_provider=Broken())

    @jobs.job
    def work(n: int) -> int:
        return n

    with caplog.at_level(logging.WARNING, "onward"):
        handles = [work.enqueue(n) for n in range(3)]
        jobs.drain()

    assert [handle.result(1) for handle in handles] == [0, 1, 2]
    lines = [record.getMessage() for record in caplog.records if "jobs go on without it" in record.getMessage()]
    assert len(lines) == len(set(lines)) == 2


@pytest.mark.promise("S155")
def test_a_span_that_raises_at_its_end_hides_no_error(traced, spans, monkeypatch):
    from opentelemetry.sdk.trace import Span

    def raises(*args, **kwargs):
        raise RuntimeError("the exporter is gone")

    @traced.job(max_retries=0)
    def work() -> None:
        raise KeyError("mine")

    handle = work.enqueue()
    with monkeypatch.context() as patched:
        patched.setattr(Span, "set_status", raises)
        patched.setattr(Span, "end", raises)
        traced.drain()

    assert handle.record().errors[0].kind == "KeyError"


def test_headers_that_are_damaged_begin_a_new_trace(traced, spans):
    @traced.job
    def work() -> None: ...

    traced.client.letters.stamps.observe(Damaged())
    handle = work.enqueue()
    traced.drain()

    assert handle.result(1) is None
    assert spans.one("process default").parent is None
    assert not spans.one("process default").links


class Damaged:
    def stamp(self, job):
        return {"onward.traceparent": "00-zz", "onward.baggage": ["no", "text"]}

    def sent(self, envelopes): ...

    def unsent(self, error): ...


def test_an_application_without_it_sends_the_same_bytes(open_app):
    """No key in the meta, and a letter that is filled from a form as ever."""
    plain = open_app()

    @plain.job
    def work() -> None: ...

    handle = work.enqueue()

    (sealed,) = work.sealed([((), {})])
    assert handle.record().meta == {}
    assert b"meta" not in sealed.data
    assert not plain.client.letters.stamps.used
    assert plain.client.letters.registry.hooks in (None, ())


class TestStatements:
    """Of SQLite, as the connection ran them."""

    @pytest.fixture
    def store(self):
        return "sqlite"

    def test_a_trace_costs_no_statement(self, open_app, spans):
        plain, traced = open_app(), open_app(namespace="traced")
        otel.install(traced, tracer_provider=spans.provider)

        counts = [self.count(jobs) for jobs in (plain, traced)]

        assert counts[0] == counts[1] > 4
        assert spans.all() == ["process default", "send default"]

    def count(self, jobs):
        jobs.connect()
        statements = []
        with jobs.backend._connections.tidying() as writer, jobs.backend._reading() as reading:
            for connection in (writer, reading._connection):
                connection.set_trace_callback(statements.append)

        @jobs.job
        def work() -> None: ...

        work.enqueue()
        jobs.drain()
        return len(statements)


def test_what_is_wrong_is_refused_with_the_fix(jobs):
    with pytest.raises(OptionError, match="'child' or 'link'"):
        otel.install(jobs, parent="both")
    with pytest.raises(OptionError, match="takes an application"):
        otel.install("jobs")
    otel.install(jobs)
    with pytest.raises(OptionError, match="installed in this application already"):
        otel.install(jobs)
    assert isinstance(jobs, Onward)
