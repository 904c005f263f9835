"""A data pipeline: 20,000 readings from an API that allows so many calls a second, and one report at the end.

    python examples/pipeline.py                              # takes two minutes
    python examples/pipeline.py --items 200 --rate 400/s     # takes seconds

Everything is in one SQLite file.  Stop it with Ctrl-C, or kill it, and start it again: it goes on where it was, and no
reading counts twice.  `onward top --url sqlite:///pipeline.db` watches it from another terminal.
"""

import argparse
import json
import logging
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from onward import Exponential, FlowHandle, JobContext, Limit, Onward, ResultTimeout, Throttle

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--items", type=int, default=20_000, help="readings to fetch (20000)")
options.add_argument("--rate", default="200/s", help="calls that the API allows, as in 200/s")
options.add_argument("--store", default="sqlite:///pipeline.db", help="where the jobs are")
OPTIONS = options.parse_args()
FLAKY = 50  # the API fails at each so many-th sensor, the first time that it is asked

jobs = Onward(OPTIONS.store)


# The jobs


@jobs.job(limit=Limit(rate=OPTIONS.rate), max_retries=5, retry=Exponential(base=0.1), timeout="10s")
def fetch(sensor: int) -> float:
    """Read one sensor.  The limit holds for all workers together; if the API still says no, the job waits as told."""
    try:
        with urllib.request.urlopen(f"{api.base}/sensors/{sensor}", timeout=5) as answer:  # noqa: S310  our own address
            return float(json.load(answer)["celsius"])
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 429:
                raise Throttle(after=float(error.headers["Retry-After"])) from error
            raise


class Report(NamedTuple):
    readings: int
    mean: float
    hottest: float


@jobs.job
def summarize(ctx: JobContext) -> Report:
    """Read the results page by page: it does not matter how many there are."""
    count, total, hottest = 0, 0.0, float("-inf")
    for celsius in ctx.results_of(fetch):
        count, total, hottest = count + 1, total + celsius, max(hottest, celsius)
    return Report(count, total / count, hottest)


def main() -> None:
    with jobs, api.serving():
        pipeline = start_or_go_on()
        with jobs.worker(concurrency=16):
            show_progress(pipeline)
        report = pipeline.result_of(summarize)
        print(f"{report.readings} readings, {report.mean:.2f} °C on average, {report.hottest:.2f} °C at most")
        print(f"the API answered {api.answered} calls, failed {api.failed}, refused {api.refused}")
        assert report.readings == OPTIONS.items


def start_or_go_on() -> FlowHandle:
    """Return the pipeline that is under way, or start one: all of it is stored in one write."""
    for running in jobs.flows.list(name="readings", running=True):
        print("going on with the pipeline of the last start")
        return jobs.flows.get(running.id)
    flow = jobs.flow("readings")
    flow.add(summarize, after=flow.map(fetch, [(sensor,) for sensor in range(OPTIONS.items)]))
    return flow.enqueue()


def show_progress(pipeline: FlowHandle) -> None:
    """Write one line that grows; into a file or a pipe, a line for each tenth."""
    told, live, ended = -1, sys.stdout.isatty(), False
    while not ended:
        with suppress(ResultTimeout):
            ended = bool(pipeline.wait(timeout=0.2))
        done = pipeline.progress()
        if live or int(done * 10) > told:
            told = int(done * 10)
            print(f"{int(done * 100):4}% [{'#' * int(done * 40):40}]", end="\r" if live else "\n", flush=True)
    print(end="\n" if live else "")


# What stands in for somebody else's API


class Call(BaseHTTPRequestHandler):
    """One call of the API."""

    def do_GET(self) -> None:
        code, body = api.answer(int(self.path.rpartition("/")[2]))
        self.send_response(code)
        if code == 429:
            self.send_header("Retry-After", "0.5")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class Server(ThreadingHTTPServer):
    request_queue_size = 64


class Api:
    """Answers at most so many calls in a second, and fails now and then."""

    def __init__(self, per_second: int) -> None:
        self.base = ""
        self.answered = self.failed = self.refused = 0
        self._lock, self._failed_for = threading.Lock(), set[int]()
        self._allowed, self._tokens, self._at = per_second, float(per_second), time.monotonic()

    def answer(self, sensor: int) -> tuple[int, bytes]:
        with self._lock:
            now = time.monotonic()
            self._tokens, self._at = min(self._allowed, self._tokens + (now - self._at) * self._allowed), now
            if self._tokens < 1:
                self.refused += 1
                return 429, b""
            self._tokens -= 1
            if sensor % FLAKY == 1 and sensor not in self._failed_for:
                self._failed_for.add(sensor)
                self.failed += 1
                return 503, b""
            self.answered += 1
        return 200, json.dumps({"celsius": 15 + sensor % 100 / 10}).encode()

    @contextmanager
    def serving(self) -> Iterator[None]:
        with Server(("127.0.0.1", 0), Call) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.base = f"http://127.0.0.1:{server.server_address[1]}"
            yield
            server.shutdown()


api = Api(per_second=int(OPTIONS.rate.partition("/")[0]))

if __name__ == "__main__":
    logging.getLogger("onward").setLevel(logging.CRITICAL)  # what fails here fails on purpose
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped: start it again, and it goes on")
