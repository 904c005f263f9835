"""The raw loops of the bench claim along the index of Onward's own claims.

An index that gets another condition leaves the loops to sort all that waits, and every ratio beside them says too much.
"""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from bench.contenders import raw_mysql, raw_postgres, raw_sqlite
from onward import Onward
from tests.servers.databases import in_mariadb, in_postgres, in_sqlite


@pytest.fixture
def made(request, tmp_path):
    """A database with Onward's tables."""
    places = {
        "sqlite": lambda: in_sqlite(tmp_path),
        "postgres": lambda: in_postgres(request.getfixturevalue("newest_postgres")),
        "mariadb": lambda: in_mariadb(request.getfixturevalue("mariadb")),
    }
    database = places[request.param]()
    with Onward(database.url) as jobs:
        jobs.counts()
    return database


@pytest.mark.parametrize("made", ["sqlite"], indirect=True)
def test_the_raw_loop_on_sqlite_walks_the_index_of_claims(made):
    with closing(sqlite3.connect(made.address["file"])) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {raw_sqlite.FIND}", (500,)).fetchall()

    assert [row[-1] for row in plan] == ["SEARCH onward_jobs USING INDEX onward_jobs_claim_idx (queue=?)"]


@pytest.mark.parametrize("made", ["postgres"], indirect=True)
def test_the_raw_loop_on_postgres_walks_the_index_of_claims(made):
    with psycopg.connect(made.url) as connection:
        connection.execute("SET enable_seqscan = off")  # of an empty table it would think that best
        connection.execute("SET enable_bitmapscan = off")
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN (COSTS off) {raw_postgres.FIND}"))

    assert "Index Scan using onward_jobs_claim_idx" in plan
    assert "Sort" not in plan


@pytest.mark.parametrize("made", ["mariadb"], indirect=True)
def test_the_raw_loop_on_mariadb_walks_the_index_of_claims(made):
    (row,) = made.query(f"EXPLAIN {raw_mysql.FIND}")

    assert "place_idx" in row
    assert "filesort" not in str(row)
