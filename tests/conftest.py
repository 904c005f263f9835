"""What all tests share: how hard Hypothesis tries, and a place to report what a run has shown."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.servers.crashes import crashed
from tests.servers.mariadb import mariadb_server
from tests.servers.postgres import VERSIONS, postgres_server
from tests.servers.redis import PRODUCTS, redis_server

for module in ("broker_workers", "contention", "forking", "restarting", "sweeping"):
    pytest.register_assert_rewrite(f"tests.backends.{module}")
pytest.register_assert_rewrite("tests.web.browser.watched")
pytest_plugins = [
    *("tests.collecting", "tests.ignored_signals", "tests.pairs", "tests.run_again", "tests.scheduling"),
    *("tests.slowest", "tests.standstill"),
]

# No deadlines: on a loaded machine the slow example is the machine's, not the code's.
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("proof", max_examples=5_000, deadline=None, print_blob=True)

collect_ignore = ["hostile.py"]  # whatever looks for examples in there meets what it is made of

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def report(request):
    """Print a line at the end of the run: ``report("claims: 4 processes x 2,500 = 10,000")``.

    ``engine`` and ``counts`` are for the totals of `make proof`, in the words of `tests.proof.totals`.
    """

    def add(line, engine=None, counts=None):
        # Properties travel with the result of the test, so they come home from the processes of xdist too.
        request.node.user_properties.append(("report", line))
        if counts:
            request.node.user_properties.append(("counts", [engine, counts]))

    return add


@pytest.fixture
def private_files():
    """What the test writes is for its user alone, as key files must be."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="session", params=VERSIONS, ids=lambda version: f"pg{version}")
def postgres(request):
    """A PostgreSQL server of its own for every process of the test run, once for each major version."""
    with postgres_server(request.param) as server:
        yield server


@pytest.fixture(scope="session")
def newest_postgres():
    """For what does not depend on the version."""
    with postgres_server(VERSIONS[-1]) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb():
    """A MariaDB server of its own for every process of the test run."""
    with mariadb_server() as server:
        yield server


@pytest.fixture(scope="session", params=PRODUCTS)
def redis(request):
    """A Redis and a Valkey server of its own for every process of the test run."""
    with redis_server(request.param) as server:
        yield server


@pytest.fixture(scope="session")
def any_redis():
    """For what does not depend on the product."""
    with redis_server(PRODUCTS[0]) as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A server that crashes by itself is not our failure: the test is skipped, loudly, and the server started again."""
    report = yield
    if report.failed and (crashes := crashed()):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], f"Skipped: {', '.join(crashes)}")
        report.user_properties.append(("report", f"{item.nodeid}: SKIPPED, {', '.join(crashes)}"))
    return report


def pytest_terminal_summary(terminalreporter):
    outcomes = [outcome for outcomes in terminalreporter.stats.values() for outcome in outcomes]
    # A test's later phases repeat its properties: read them once.
    calls = [outcome for outcome in outcomes if getattr(outcome, "when", None) == "call"]
    told = [each for call in sorted(calls, key=lambda call: call.nodeid) for each in call.user_properties]
    lines = [line for name, line in told if name == "report"]
    if counts := os.environ.get("PROOF_COUNTS"):
        Path(counts).write_text("".join(f"{json.dumps(each)}\n" for name, each in told if name == "counts"))
    if lines:
        terminalreporter.section("what this run has shown")
        for line in lines:
            terminalreporter.write_line(line)
