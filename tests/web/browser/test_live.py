"""Pages that nobody touches: what happens to jobs, workers and the store shows there by itself."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from onward import State
from tests.servers.redis import redis_server
from tests.waiting import eventually
from tools.busy_store import fill

STUBBORN = """
import time
from onward import JobContext, Onward
jobs = Onward({url!r})

@jobs.job(queue="stock")
def count_stock(ctx: JobContext) -> None:
    ctx.progress(0.25, "shelf 1 of 4")
    while True:
        time.sleep(0.05)
"""


def test_a_job_is_seen_to_end(page, dashboard, seen):
    dashboard.go(page, f"jobs/{seen.due}")
    state = page.get_by_role("main").get_by_text("Available", exact=True).first
    expect(state).to_be_visible()

    assert dashboard.jobs.drain("mail") > 0

    expect(page.get_by_role("main").get_by_text("Completed", exact=True).first).to_be_visible()
    expect(page.get_by_text("receipt 100 sent to ada").first).to_be_visible()


def test_updates_can_be_paused(page, dashboard, seen):
    dashboard.go(page, f"jobs/{seen.due}")
    expect(page.get_by_role("main").get_by_text("Available", exact=True).first).to_be_visible()
    page.get_by_role("button", name="Pause updates").click()

    dashboard.jobs.drain("mail")
    expect(page.get_by_role("button", name="Go on with updates")).to_be_visible()
    expect(page.get_by_role("main").get_by_text("Available", exact=True).first).to_be_visible()

    page.get_by_role("button", name="Go on with updates").click()
    expect(page.get_by_role("main").get_by_text("Completed", exact=True).first).to_be_visible()


def test_the_store_goes_away_and_comes_back(visit, serve):
    with redis_server("redis") as server:
        url = server.url(timeout=1)
        fill(url)
        dashboard = serve(url)
        watched = visit(dashboard)
        watched.expected.append("status of 503")
        page = dashboard.opened(watched.page())
        expect(page.get_by_role("link", name="letters").first).to_be_visible()

        server.stop()
        expect(page.get_by_role("alert").filter(has_text="The store does not answer.")).to_be_visible()
        expect(page.get_by_role("link", name="letters").first).to_be_visible()  # the last picture stays

        server.start()
        expect(page.get_by_role("alert").filter(has_text="The store does not answer.")).to_have_count(0)
        dashboard.jobs.resume("letters", by="ada")
        page.get_by_role("link", name="Queues", exact=True).click()
        expect(page.get_by_role("button", name="Pause queue letters")).to_be_visible()


@contextmanager
def worker(url, folder):
    """`onward worker` with a job that never ends, in a session of its own."""
    (folder / "stubborn.py").write_text(STUBBORN.format(url=url))
    command = [sys.executable, "-m", "onward", "worker", "stubborn:jobs", "--shutdown-timeout", "0.1s"]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def test_a_worker_is_killed_while_its_page_is_open(visit, serve, url, tmp_path):
    dashboard = serve(url)
    handle = dashboard.jobs.enqueue("count_stock", queue="stock", max_retries=0)
    with worker(url, tmp_path):
        eventually(lambda: handle.state() is State.EXECUTING)
        (session,) = dashboard.jobs.sessions()
        page = dashboard.opened(visit(dashboard).page(), "workers")
        expect(page.get_by_role("main").get_by_role("link", name="count_stock").first).to_be_visible()
        worker_row = page.get_by_role("table", name="Workers").get_by_text(re.compile(rf"process {session.pid}$"))
        expect(worker_row).to_be_visible()

        os.kill(session.pid, signal.SIGKILL)

        expect(worker_row).to_have_count(0)
        dashboard.go(page, f"jobs/{handle.id}")
        expect(page.get_by_text("killed by SIGKILL").first).to_be_visible()


@pytest.mark.promise("S146")
def test_a_hidden_page_asks_nothing(visit, dashboard):
    watched = visit(dashboard, alone=True)
    page = watched.page()
    page.clock.install()  # the time of the page moves when the test says so
    dashboard.opened(page)
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    with page.expect_response(lambda answer: "/pulse" in answer.url):
        page.clock.run_for(3_000)

    page.evaluate(
        "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });"
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.clock.run_for(1_000)
    asked = len(watched.requests)
    page.clock.run_for(60_000)

    assert watched.requests[asked:] == []
