"""What is asked of every store, of some of them, and only in `make proof`.

**Of two servers that run the same code of ours, the second is asked what depends on the server.**

PostgreSQL 18 is the first, and 15 the second, as is 15 behind a pooler; Redis is the first, and Valkey the second.  The same
statements and scripts run on both.  What a server can spoil is asked of both in every run: every test of the contract once,
and everything in the files of `WHOLE`, about plans, privileges, opening, schemas and the wire.  Left to the proof are, on
the second, the other cases of tests with many, and what is about the order in which our own code takes its steps.

**MariaDB is not asked what the supervisor does and what the small runs of the proof show.**  They talk to a store through
the verbs of the contract, and take SQLite, PostgreSQL and, where sessions decide, Redis.  The contract, the model machine,
damage, transactions and the applications are asked of MariaDB in every run, and in the proof the rest.
"""

import os

import pytest

SECOND = {("postgres", "15"): "PostgreSQL 15", ("redis", "valkey"): "Valkey"}  # by the fixture and its parameter
ONCE = ("tests/contract/test_pgbouncer.py", "tests/contract/test_redis.py")  # one case of each test
WHOLE = (
    "tests/backends/postgres/test_due.py",
    "tests/backends/postgres/test_faults.py",
    "tests/backends/postgres/test_health.py",
    "tests/backends/postgres/test_opening.py",
    "tests/backends/postgres/test_privileges.py",
    "tests/backends/postgres/test_queries.py",
    "tests/backends/postgres/test_queue_marks.py",
    "tests/backends/postgres/test_schema.py",
    "tests/backends/postgres/test_wire.py",
    "tests/backends/redis/test_failover.py",
    "tests/backends/redis/test_opening.py",
    "tests/backends/redis/test_restarts.py",
)
# Folders of which these stores are asked in the proof only.
PROOF_ONLY = {"tests/supervisor/": {"mariadb": "MariaDB"}, "tests/proof/": {"mariadb": "MariaDB"}}
MARK = "second_of_a_pair"
_left = pytest.StashKey[dict[str, int]]()


def second(item):
    """The name of the second server of a pair, if the test runs on one."""
    if marker := item.get_closest_marker(MARK):
        return marker.args[0]
    chosen = item.callspec.params.items() if hasattr(item, "callspec") else ()
    return next((SECOND[each] for each in chosen if isinstance(each[1], str) and each in SECOND), None)


def proof_only(item):
    """The name of the store of a test, if it is asked that in the proof only."""
    case = item.nodeid.partition("[")[2]
    folders = (stores for folder, stores in PROOF_ONLY.items() if item.nodeid.startswith(folder))
    return next((name for stores in folders for store, name in stores.items() if store in case), None)


def divided(items):
    """Return the tests that are asked now, and those that are left to the proof with the names of their servers."""
    asked, left, seen = [], [], set()
    for item in items:
        if store := proof_only(item):
            left.append((store, item))
            continue
        file, name = item.nodeid.partition("::")[0], second(item)
        # The first case of those that are there: who asks for another one by its name gets it.
        function = (name, item.nodeid.partition("[")[0])
        if name is None or file in WHOLE or (file.startswith(ONCE) and function not in seen):
            asked.append(item)
        else:
            left.append((name, item))
        seen.add(function)
    return asked, left


def pytest_configure(config):
    config.addinivalue_line("markers", f"{MARK}(name): runs on the second server of a pair (tests/pairs.py)")
    config.stash[_left] = {}


@pytest.hookimpl(trylast=True)  # what `-k` leaves out is not there
def pytest_collection_modifyitems(config, items):
    # A single test that is asked for by its name is run, as when it has failed and is run again.
    if os.environ.get("HYPOTHESIS_PROFILE") == "proof" or any("::" in each for each in config.args):
        return
    asked, left = divided(items)
    for name, _ in left:
        config.stash[_left][name] = config.stash[_left].get(name, 0) + 1
    if left:
        config.hook.pytest_deselected(items=[item for _, item in left])
        items[:] = asked
    if hasattr(config, "workerinput"):
        config.workeroutput[MARK] = config.stash[_left]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Take over what a process of xdist has counted: each collects the same."""
    node.config.stash[_left] = getattr(node, "workeroutput", {}).get(MARK) or node.config.stash[_left]


def pytest_terminal_summary(terminalreporter, config):
    if left := config.stash[_left]:
        told = ", ".join(f"{count:,} test{'s' * (count > 1)} on {name}" for name, count in sorted(left.items()))
        terminalreporter.section("left to `make proof`")
        terminalreporter.write_line(f"{told}: the same code passed on another server")
