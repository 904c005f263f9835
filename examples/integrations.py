"""One trace from a request to its job, with the job on every log line: `pip install 'onward[otel]' opentelemetry-sdk`.

    python examples/integrations.py

Everything that is told is also asserted.
"""

import logging
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onward import NoDelay, Onward
from onward.integrations import logs, otel

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))

jobs = Onward("memory://")
otel.install(jobs, tracer_provider=provider)
logs.install(jobs)

log = logging.getLogger("shop")
handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(logging.Formatter("%(message)s (%(job)s, attempt %(attempt)s)"))
handler.addFilter(logs.JobFilter())
log.addHandler(handler)
log.setLevel(logging.INFO)
log.propagate = False
logging.getLogger("onward").setLevel(logging.CRITICAL)  # what fails here fails on purpose

BANK = iter([False, True])  # whether it answers


@jobs.job(max_retries=3, retry=NoDelay())
def charge(order: int) -> None:
    log.info("charging order %d", order)
    if not next(BANK):
        raise ConnectionError("the bank is away")


with provider.get_tracer("shop").start_as_current_span("POST /orders"):
    charge.enqueue(7)
jobs.drain()
jobs.drain()

done = spans.get_finished_spans()
for span in done:
    print(f"{span.name}: {span.status.status_code.name.lower()}")

(request,) = [span for span in done if span.name == "POST /orders"]
runs = [span for span in done if span.name == "process default"]
assert [run.status.status_code for run in runs] == [trace.StatusCode.ERROR, trace.StatusCode.UNSET]
assert {span.context.trace_id for span in done} == {request.context.trace_id}
print(f"{len(done)} spans, one trace.")
