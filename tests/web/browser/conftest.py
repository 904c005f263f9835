"""One browser for all of these tests, pages on which nothing may go wrong, and dashboards over busy stores.

The whole folder is run by one process of a run (`tests.scheduling`): a browser needs as much memory as all other tests.  It
ends with the folder, because playwright leaves an event loop running in the thread of the tests.
"""

import gc
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.servers.chromium import chromium
from tests.servers.engines import PostgresStore, RedisStore
from tests.web.browser.serving import served
from tests.web.browser.shared import Shared
from tests.web.browser.watched import Kept, Watched
from tools.busy_store import fill

expect.set_options(timeout=30_000)  # reached only when something is broken: facts come long before

_FAILED = pytest.StashKey[bool]()
_FOLDER = Path(__file__).parent
_browsers = []  # one, while tests of this folder run, and what is kept of it between them
_until_the_end = ExitStack()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """End the browser with the last test of the folder.  A fixture cannot: without an __init__.py there is no package."""
    yield
    if nextitem is None or not nextitem.path.is_relative_to(_FOLDER):
        _browsers.clear()
        _until_the_end.close()


@pytest.fixture(scope="module")
def browser():
    """The browser of all modules."""
    if not _browsers:
        browser = _until_the_end.enter_context(chromium())
        _browsers[:] = browser, Kept(browser)
    return _browsers[0]


@pytest.fixture(scope="module")
def kept(browser):
    """The context that tests use one after the other."""
    return _browsers[1]


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
def visit(browser, kept, serve, request):
    """Open pages of dashboards: ``visit(dashboard, color_scheme="dark")``; they are watched until the end.

    ``alone``, and with options, they are in a context of their own.  They leave the servers before those end, of which
    they would tell.
    """
    contexts, lent = [], []

    def visit(*dashboards, alone=False, **options):
        hosts = {each.netloc for each in dashboards}
        if alone or options or kept.is_taken:
            contexts.append(Watched(browser, hosts, **options))
            return contexts[-1]
        lent.append(kept.take(hosts))
        return lent[-1]

    yield visit
    failed = request.node.stash.get(_FAILED, True)
    for watched in [*contexts, *lent] if failed else ():
        watched.picture(request.node.name)
    for watched in contexts:
        watched.close()
    if lent:
        kept.give_back(failed=failed)
    for watched in [*contexts, *lent]:
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


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A file with a busy store, made once: the file, and the ids of jobs that are worth a look."""
    file = tmp_path_factory.mktemp("busy") / "jobs.db"
    return file, fill(f"sqlite:///{file}?durability=relaxed")


@pytest.fixture
def seen(store, request, tmp_path):
    """A busy store: the ids of jobs that are worth a look."""
    if store != "sqlite":
        return fill(request.getfixturevalue("url"))
    file, seen = request.getfixturevalue("filled")
    if not _only_looks(request):
        _copy(file, tmp_path)
    return seen


@pytest.fixture
def dashboard(request, seen):
    """The dashboard of the busy store."""
    if _only_looks(request):
        return request.getfixturevalue("shared").dashboard
    return request.getfixturevalue("serve")(request.getfixturevalue("url"))


@pytest.fixture(scope="module")
def shared_url(filled, tmp_path_factory):
    """The busy store of tests that change nothing."""
    file, _ = filled
    folder = tmp_path_factory.mktemp("shared")
    _copy(file, folder)
    return f"sqlite:///{folder / file.name}?durability=relaxed"


@pytest.fixture(scope="module")
def shared(kept, shared_url):
    """What the tests of a module share that only look (`pytest.mark.only_looks`)."""
    with served(shared_url) as dashboard:
        shared = Shared(kept, dashboard)
        yield shared
        shared.close()


@pytest.fixture
def watched(request, dashboard):
    if not _only_looks(request):
        yield request.getfixturevalue("visit")(dashboard)
        return
    shared = request.getfixturevalue("shared")
    watched = shared.begin()
    yield watched
    failed = request.node.stash.get(_FAILED, True)
    if failed:
        watched.picture(request.node.name)
    shared.end(failed=failed)
    watched.check()


@pytest.fixture
def page(request, watched, dashboard):
    """The overview of the busy store, signed in."""
    if _only_looks(request):
        return request.getfixturevalue("shared").page
    return dashboard.opened(watched.page())


def _only_looks(request):
    return request.node.get_closest_marker("only_looks") is not None


def _copy(file, folder):
    """Copy a store: the file, and its log if there is one."""
    for part in filter(Path.is_file, file.parent.iterdir()):
        shutil.copy(part, folder)
