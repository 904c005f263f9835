"""`onward_due(queue)`: what an autoscaler asks, answered as a worker would find it, at a bounded cost."""

import psycopg
import pytest

from onward.backend import Settlement
from onward.backends.postgres import queries
from onward.backends.postgres.tables import PostgresTables
from onward.testing.contract.builders import an_envelope, some_envelopes
from onward.testing.contract.lanes import claimed, in_lane


@pytest.fixture
def backend(open_backend):
    """On the server's own clock, which is the one that the function reads."""
    return open_backend(clock=None)


@pytest.fixture
def due(sql):
    def ask(queue="default"):
        ((number,),) = sql("SELECT onward_due(%s)", queue)
        return number

    return ask


def fall_due(sql):
    sql("UPDATE onward_jobs SET available_at = onward_now(NULL) - 1 WHERE state IN ('scheduled', 'retryable')")


def test_every_queue_is_counted_by_itself(backend, due):
    backend.enqueue(some_envelopes(3, queue="mail") + some_envelopes(2, queue="reports"))

    assert (due("mail"), due("reports"), due("nothing was ever on it")) == (3, 2, 0)


@pytest.mark.promise("S169")
def test_what_is_due_later_counts_when_it_is_due_also_where_no_worker_has_made_it_available(backend, due, sql):
    backend.enqueue([an_envelope(), an_envelope(delay=3600)])
    (lease,) = claimed(backend)
    backend.settle([Settlement.nack(lease, delay=3_600_000_000)])
    assert due() == 0

    fall_due(sql)

    assert sql("SELECT state FROM onward_jobs ORDER BY state") == [("retryable",), ("scheduled",)]
    assert due() == 2


@pytest.mark.promise("S169")
def test_it_counts_what_a_worker_then_claims_and_goes_on_counting_while_it_runs(backend, due, sql):
    backend.enqueue(some_envelopes(4) + in_lane(3, "acme") + some_envelopes(2, delay=3600))
    fall_due(sql)
    backend.enqueue([an_envelope(delay=3600), an_envelope(queue="elsewhere")])
    assert due() == 9

    leases = claimed(backend)

    assert len(leases) == 9
    assert due() == 9  # or a pod that is busy would be scaled away
    backend.settle([Settlement.ack(lease) for lease in leases])
    assert due() == 0


@pytest.mark.promise("S169")
def test_of_a_paused_queue_only_what_runs_counts(backend, due):
    backend.enqueue(some_envelopes(3))
    claimed(backend, limit=1)

    backend.pause("default")
    assert due() == 1
    backend.pause("default", paused=False)
    assert due() == 3


def test_what_waits_for_the_token_of_a_rate_counts_when_it_is_there(backend, due, sql):
    backend.enqueue(in_lane(2, "acme"))
    later = "state = 'scheduled', booked = true, available_at = onward_now(NULL) + 3600000000"
    sql(f"UPDATE onward_jobs SET {later}")  # as a claim does that finds no token
    assert due() == 0

    fall_due(sql)

    assert due() == 2
    assert len(claimed(backend)) == 2


def test_each_namespace_and_schema_has_its_own(fresh_url):
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA apart")
        tables = PostgresTables(
            f"{fresh_url}{'&' if '?' in fresh_url else '?'}options=-c%20search_path%3Dapart", "shop"
        )
        tables.migrate()
        tables.close()

        assert connection.execute("SELECT apart.onward_shop_due('default')").fetchone() == (0,)


@pytest.mark.promise("S169")
@pytest.mark.parametrize("statistics", ["old", "new"])
def test_every_branch_walks_its_index_and_stops_at_its_limit(backend, sql, statistics):
    """Looked at in the text of the function itself, with a limit that takes fewer jobs to reach."""
    ((text, settings),) = sql("SELECT prosrc, proconfig FROM pg_proc WHERE proname = 'onward_due'")
    assert text.count("LIMIT 10000") == 6
    backend.enqueue(some_envelopes(300, queue="mail") + in_lane(300, "acme", queue="mail"))
    backend.enqueue(some_envelopes(300, queue="elsewhere") + some_envelopes(900, queue="mail", delay=3600))
    claimed(backend, queues=("elsewhere",), limit=300)
    sql("""
        UPDATE onward_jobs SET available_at = CASE number % 3 WHEN 0 THEN available_at ELSE onward_now(NULL) - 1 END,
                               booked = CASE number % 3 WHEN 1 THEN true END
          FROM (SELECT id, row_number() OVER () AS number FROM onward_jobs WHERE state = 'scheduled') AS numbered
         WHERE onward_jobs.id = numbered.id
    """)
    if statistics == "new":
        sql("ANALYZE onward_jobs")

    for setting in settings:
        name, _, value = setting.partition("=")
        sql(f"SELECT set_config('{name}', $value${value}$value$, false)")
    smaller = text.replace("10000", "100").replace("of_queue", "'mail'")
    ((plan,),) = sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {smaller}")

    walks = [step for step in steps(plan[0]["Plan"]) if step.get("Relation Name") == "onward_jobs"]
    assert {step["Index Name"] for step in walks} == {
        "onward_jobs_claim_idx",
        "onward_jobs_lanes_idx",
        "onward_jobs_due_idx",
        "onward_jobs_owner_idx",
    }
    assert all(step["Actual Rows"] <= 100 and step.get("Rows Removed by Filter", 0) == 0 for step in walks)
    assert sum(step["Actual Rows"] for step in walks) <= 200  # of those that wait, and of those that run


def steps(plan):
    yield plan
    for inner in plan.get("Plans", ()):
        yield from steps(inner)


def test_onward_itself_never_calls_it():
    """A job pays nothing for it: it is no index, no trigger, no column, and stands in no statement."""
    assert [name for name, (sql, _) in queries.load("onward_").items() if b"onward_due" in sql] == []
