"""What samples cost: nothing where there are none, one row for each process and round, one merge for each minute."""

from contextlib import closing

import pytest

from onward.backend import Sample
from onward.backends.sqlite import SqliteBackend
from onward.contract.samples import MINUTE
from onward.operate.series.sampling import Sampling
from onward.telemetry.numbers import Numbers
from onward.testing.contract.builders import a_session


@pytest.fixture
def traced(tmp_path, clock):
    """A store, and the statements that it runs."""
    with closing(SqliteBackend.open(tmp_path / "jobs.db", clock=clock)) as backend:
        statements = []
        with backend._connections.writing() as connection:
            connection.set_trace_callback(statements.append)
        with backend._connections.reading() as connection:
            connection.set_trace_callback(statements.append)
        statements.clear()
        yield backend, statements


def verbs(statements):
    return [sql.split()[0] for sql in statements]


@pytest.mark.promise("S121")
def test_a_renewal_without_a_sample_runs_the_statements_of_a_renewal_and_no_others(traced):
    backend, statements = traced
    backend.open_session(a_session("me"))
    statements.clear()

    backend.extend("me")

    assert verbs(statements) == ["BEGIN", "UPDATE", "SELECT", "COMMIT"]
    assert not any("onward_series" in sql for sql in statements)


def test_a_sample_is_a_second_transaction_with_one_row_of_its_own(traced, clock):
    backend, statements = traced
    backend.open_session(a_session("me"))
    minute = clock.micros() // MINUTE * MINUTE
    backend.extend("me", sample=Sample("host", minute, b"numbers"))
    statements.clear()

    backend.extend("me", sample=Sample("host", minute, b"more"))

    assert verbs(statements) == ["BEGIN", "UPDATE", "SELECT", "COMMIT", "BEGIN", "SELECT", "INSERT", "INSERT", "COMMIT"]
    assert sum("DO NOTHING" in sql for sql in statements) == 1  # the mark of the minute, which is there


@pytest.mark.promise("S122")
def test_a_fleet_writes_one_row_for_each_process_and_round_and_merges_once_a_minute(traced, clock, report):
    backend, statements = traced
    counted = {}
    fleet = [Sampling(backend, lambda: counted, clock=clock, build="1", every=0) for _ in range(5)]

    def rounds(minutes):
        for second in range(0, minutes * 60, 10):
            counted["mail", "send"] = Numbers({"jobs_succeeded": second})
            for process in fleet:
                process.extend("")
                process.work()
            clock.advance(10)

    rounds(5)
    statements.clear()
    rounds(10)

    upserts = [sql for sql in statements if "DO UPDATE SET width = 0" in sql]
    merges = [sql for sql in statements if sql.startswith("INSERT INTO onward_series") and "ON CONFLICT" not in sql]
    looks = [sql for sql in statements if sql.startswith("SELECT at, width, reporter, data FROM onward_series")]
    assert len(upserts) == 5 * 6 * 10 + 10  # each process every ten seconds, and the sampler of each minute
    assert len(merges) == 10
    assert len(looks) == 2 * 10
    report(f"5 processes, 10 min: {len(upserts)} samples, {len(merges)} merges, {len(looks)} looks at series")
