"""Traces, reports and log lines over processes: a client here, a real worker there, and jobs in processes of their own."""

import json

import pytest
import sentry_sdk
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onward.integrations import otel

TRACED = """
import logging
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from onward.integrations import logs, otel


class Diary(SpanExporter):
    def export(self, spans):
        for span in spans:
            parent = None if span.parent is None else span.parent.span_id
            links = [link.context.span_id for link in span.links]
            note(
                "span", name=span.name, kind=span.kind.name, parent=parent, trace=span.context.trace_id, links=links,
                status=span.status.status_code.name, attempt=span.attributes.get("onward.attempt"),
            )
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Diary()))
otel.install(jobs, tracer_provider=provider)
logs.install(jobs)
logging.getLogger("shop").setLevel(logging.INFO)


def tell():
    logging.getLogger("shop").info("told")
    return trace.format_trace_id(trace.get_current_span().get_span_context().trace_id)


@jobs.job
def in_thread() -> str:
    return tell()


@jobs.job
async def in_task() -> str:
    return tell()


@jobs.job(isolation="process")
def in_process() -> str:
    return tell()


@jobs.job(max_retries=1, retry=NoDelay())
def once_more(ctx: JobContext) -> None:
    if ctx.attempt == 1:
        raise KeyError("once")
"""


class Client:
    """What this process enqueues, and the spans of that."""

    def __init__(self, shop):
        self._jobs = shop.jobs
        self._spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        otel.install(shop.jobs, tracer_provider=provider)

    def enqueue(self, name):
        """Enqueue a job that only the worker knows; return its handle and its span."""
        handle = self._jobs.enqueue(name)
        return handle, self._spans.get_finished_spans()[-1]


@pytest.mark.promise("S154", "S156")
def test_one_trace_goes_from_the_client_to_the_worker_and_its_log(shop, start):
    shop.add(TRACED)
    client = Client(shop)
    fleet = start(shop, "--log-format", "json")

    for name in ("in_thread", "in_task", "in_process"):
        handle, send = client.enqueue(name)

        trace_id = trace.format_trace_id(send.context.trace_id)
        assert handle.result(30) == trace_id
        run = shop.noted("span", name="process default", trace=send.context.trace_id)
        assert (run["kind"], run["parent"], run["links"]) == ("CONSUMER", send.context.span_id, [send.context.span_id])
        assert (send.kind.name, send.name, run["status"]) == ("PRODUCER", "send default", "UNSET")
        fleet.said(handle.id)
        (line,) = [json.loads(line) for line in fleet.log.splitlines() if handle.id in line]
        assert {name: line[name] for name in ("message", "job", "queue", "attempt", "trace_id")} == {
            "message": "told",
            "job": name,
            "queue": "default",
            "attempt": 1,
            "trace_id": trace_id,
        }
    assert fleet.stop() == 0


@pytest.mark.promise("S154")
def test_the_second_run_in_a_worker_belongs_to_the_same_send(shop, start):
    shop.add(TRACED)
    client = Client(shop)
    fleet = start(shop)

    handle, send = client.enqueue("once_more")
    handle.result(30)

    shop.noted("span", 2, trace=send.context.trace_id)
    first, second = shop.diary("span", trace=send.context.trace_id)
    assert [(run["attempt"], run["status"]) for run in (first, second)] == [(1, "ERROR"), (2, "UNSET")]
    assert first["parent"] == second["parent"] == send.context.span_id
    assert second["links"] == [send.context.span_id]
    assert fleet.stop() == 0


REPORTED = """
import os
import sentry_sdk
from sentry_sdk.transport import Transport
from onward.integrations import sentry


class Diary(Transport):
    def capture_envelope(self, envelope):
        for item in envelope.items:
            if item.type == "event":
                event = item.payload.json
                note("event", tags=event["tags"], fingerprint=event["fingerprint"])


sentry_sdk.init(dsn="http://public@localhost/1", transport=Diary(), default_integrations=False)
sentry.install(jobs)


@jobs.job(max_retries=0, isolation="process")
def fails_alone() -> None:
    raise KeyError("alone")


@jobs.job(max_crashes=1, isolation="process")
def dies() -> None:
    os._exit(3)
"""


def test_what_is_given_up_in_a_process_of_its_own_is_reported_once_and_so_is_a_crash(shop, start):
    shop.add(REPORTED)
    fleet = start(shop)

    shop.ended(shop.jobs.enqueue("fails_alone"), shop.jobs.enqueue("dies"))
    shop.noted("event", 2)

    assert fleet.stop() == 0
    assert not sentry_sdk.is_initialized()
    events = {event["tags"]["job"]: event["fingerprint"] for event in shop.diary("event")}
    assert len(shop.diary("event")) == 2
    fingerprints = {group.job: group.fingerprint for group in shop.jobs.dead_letters.groups()}
    assert events == {
        "fails_alone": ["onward", "fails_alone", fingerprints["fails_alone"]],
        "dies": ["onward", "dies", "crashed"],
    }
