"""One browser for all of these tests, pages on which nothing may go wrong, and dashboards over busy stores.

The whole folder is run by one process of a run (`tests.scheduling`): a browser needs as much memory as all other tests.
"""

import gc
import os
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from tests.servers.chromium import chromium
from tests.servers.engines import PostgresStore, RedisStore
from tests.web.browser.serving import served
from tests.web.browser.watched import Watched
from tools.busy_store import fill

expect.set_options(timeout=30_000)  # reached only when something is broken: facts come long before

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(autouse=True)
def own_settings(monkeypatch):
    """No setting of the person who runs the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ONWARD_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def serve():
    """Serve the dashboard of a store: ``serve(url, read_only=True)``."""
    with ExitStack() as stack:
        yield lambda url, **options: stack.enter_context(served(url, **options))
    gc.collect()  # sockets of requests that a page has left are closed here, not in another test


@pytest.fixture
def visit(browser, serve, request):
    """Open pages in a context of their own: ``visit(dashboard, color_scheme="dark")``; they are watched until the end.

    They are closed before the servers are, of which they would tell.
    """
    contexts = []

    def visit(*dashboards, **options):
        watched = Watched(browser, {each.netloc for each in dashboards}, **options)
        contexts.append(watched)
        return watched

    yield visit
    failed = request.node.stash.get(_FAILED, True)
    for watched in contexts:
        if failed:
            watched.picture(request.node.name)
        watched.close()
    for watched in contexts:
        watched.check()


@pytest.fixture(params=["sqlite"])
def store(request):
    return request.param


@pytest.fixture
def url(store, request, tmp_path):
    match store:
        case "postgres":
            return PostgresStore(request.getfixturevalue("newest_postgres"), tmp_path).url()
        case "redis":
            return RedisStore(request.getfixturevalue("any_redis"), tmp_path).url()
        case _:
            return f"sqlite:///{tmp_path / 'jobs.db'}?durability=relaxed"


@pytest.fixture
def seen(url):
    """A busy store: the ids of jobs that are worth a look."""
    return fill(url)


@pytest.fixture
def dashboard(serve, url, seen):
    """The dashboard of the busy store."""
    return serve(url)


@pytest.fixture
def watched(visit, dashboard):
    return visit(dashboard)


@pytest.fixture
def page(watched, dashboard):
    """The overview of the busy store, signed in."""
    return dashboard.opened(watched.page())
