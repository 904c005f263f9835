"""What a look at the dead jobs of a file costs, and which index it walks."""

import pytest

from onward.backend import Look, Query, Settlement
from onward.backends.sql.deaths import death_groups
from onward.backends.sql.inspection import matching
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_failure, some_envelopes

COPY = """
    INSERT INTO onward_finished SELECT {columns} FROM onward_finished
      JOIN (WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {times}) SELECT x FROM n)
"""


@pytest.fixture
def grown(backend):
    """Return a function that fills the file: so many copies of three dead jobs and of one that succeeded."""

    def grow(times):
        backend.empty()
        backend.enqueue([envelope for job in "abcd" for envelope in some_envelopes(1, job=job)])
        *dead, success = backend.claim(a_claim(limit=4))
        backend.settle(
            [*(Settlement.abandon(lease, "gave up", failure=a_failure()) for lease in dead), Settlement.ack(success)]
        )
        with backend._writing() as tx:
            names = [row[1] for row in tx._connection.execute("PRAGMA table_info(onward_finished)")]
            columns = ", ".join("printf('%s-%08d', id, x)" if name == "id" else name for name in names)
            tx._connection.execute(COPY.format(columns=columns, times=times))

    return grow


def steps_of(backend, act):
    """Count the steps of the virtual machine that some reads take."""
    steps = 0

    def step():
        nonlocal steps
        steps += 1

    with backend._reading() as tx:
        tx._connection.set_progress_handler(step, 1)
        try:
            act(tx)
        finally:
            tx._connection.set_progress_handler(None, 0)
    return steps


@pytest.mark.promise("S125")
def test_groups_cost_the_same_however_many_jobs_have_died(backend, grown):
    costs = []
    for times in (200, 20_000):
        grown(times)
        costs.append(steps_of(backend, lambda tx: death_groups(tx, 100)))

    assert [group.count for group in backend.look(Look(deaths=True, at_most=100)).deaths] == [100] * 3
    assert costs[1] <= costs[0] * 1.01


@pytest.mark.promise("S125")
def test_counts_cost_the_same_however_many_jobs_have_died(backend, grown):
    costs = []
    for times in (200, 20_000):
        grown(times)
        costs.append(steps_of(backend, lambda tx: backend._overview(tx, 100, tx.now)))

    assert costs[1] <= costs[0] * 1.01


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_page_of_a_group_costs_the_same_however_large_it_is(backend, grown, newest_first):
    query = Query(job="b", fingerprint="unexplained", limit=10, newest_first=newest_first)
    costs = []
    for times in (200, 20_000):
        grown(times)
        costs.append(steps_of(backend, lambda tx: matching(tx, query, within=frozenset({State.DISCARDED}))))

    assert len(backend.list(query)) == 10
    assert costs[1] <= costs[0] * 1.01


def test_a_job_that_succeeds_is_in_no_index_of_the_dead(backend, grown):
    grown(1)

    with backend._reading() as tx:
        sql = "SELECT count(*) FROM onward_finished INDEXED BY onward_finished_deaths_idx WHERE fingerprint IS NOT NULL"
        assert tx._connection.execute(sql).fetchone() == (6,)
        assert tx._connection.execute("SELECT count(*) FROM onward_finished").fetchone() == (8,)
