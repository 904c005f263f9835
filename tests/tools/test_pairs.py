"""What the second server of a pair is asked in a run, and what is left to the proof."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.pairs import ONCE, PROOF_ONLY, WHOLE, divided

HOUSE = Path(__file__).parents[2]


def collected(nodeid, mark=None, **params):
    """A test as pytest collects it, as far as it is looked at."""
    marker = mark and SimpleNamespace(args=(mark,))
    return SimpleNamespace(
        nodeid=nodeid, callspec=SimpleNamespace(params=params), get_closest_marker=lambda name: marker
    )


def asked_and_left(*items):
    asked, left = divided(items)
    return [item.nodeid for item in asked], [(name, item.nodeid) for name, item in left]


def test_the_first_server_is_asked_everything():
    tests = [
        collected("tests/contract/test_redis.py::test_it[redis-1]", redis="redis"),
        collected("tests/contract/test_redis.py::test_it[redis-2]", redis="redis"),
        collected("tests/backends/postgres/test_flows.py::test_it[pg18]", postgres="18"),
        collected("tests/base/test_ids.py::test_it[15]", number="15"),
    ]

    assert asked_and_left(*tests) == ([test.nodeid for test in tests], [])


def test_the_second_is_asked_each_test_of_the_contract_once():
    contract = "tests/contract/test_redis.py::test_it"
    tests = [collected(f"{contract}[{server}-{n}]", redis=server) for server in ("redis", "valkey") for n in (1, 2)]

    asked, left = asked_and_left(*tests)

    assert asked == [f"{contract}[redis-1]", f"{contract}[redis-2]", f"{contract}[valkey-1]"]
    assert left == [("Valkey", f"{contract}[valkey-2]")]


def test_so_is_a_class_that_says_that_its_server_is_one():
    contract = "tests/contract/test_pgbouncer.py::TestPgBouncer::test_it"
    tests = [collected(f"{contract}[{n}]", mark="a pooler") for n in (1, 2)]

    assert asked_and_left(*tests) == ([f"{contract}[1]"], [("a pooler", f"{contract}[2]")])


def test_it_is_asked_everything_that_depends_on_the_server():
    tests = [collected(f"{WHOLE[0]}::test_it[pg15-{n}]", postgres="15") for n in (1, 2)]

    assert asked_and_left(*tests) == ([test.nodeid for test in tests], [])


def test_all_else_is_left_to_the_proof():
    test = collected("tests/backends/postgres/test_flows.py::test_it[pg15]", postgres="15")

    assert asked_and_left(test) == ([], [("PostgreSQL 15", test.nodeid)])


def test_of_some_folders_a_store_is_asked_in_the_proof_only():
    tests = [
        collected(f"{folder}/test_crashes.py::test_it[{store}-1]")
        for folder in ("tests/supervisor", "tests/damage")
        for store in ("postgres", "mariadb")
    ]

    asked, left = asked_and_left(*tests)

    assert left == [("MariaDB", "tests/supervisor/test_crashes.py::test_it[mariadb-1]")]
    assert asked == [test.nodeid for test in tests if test.nodeid != left[0][1]]


@pytest.mark.parametrize("path", [*ONCE, *WHOLE, *PROOF_ONLY])
def test_what_is_named_exists(path):
    assert (HOUSE / path).exists()
