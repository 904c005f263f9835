"""The counter table: one process writes, another reads while it does, and neither waits."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from msgspec import structs

from onward import NoDelay, Onward
from onward.attempt.attempt import Attempt
from onward.attempt.report import Reporter
from onward.job import outcome, states
from onward.job.envelope import Letter, Sealed
from onward.job.lease import Lease
from onward.job.outcome import Released
from onward.supervisor.run_board import RunBoard
from onward.telemetry.counters import COUNTERS, OTHER, SERIES, CounterTable
from onward.telemetry.numbers import Numbers
from onward.testing import FakeClock

SEND = ("mail", "send")


@pytest.fixture
def table():
    return CounterTable.anonymous()


def test_what_is_added_is_read(table):
    table.add("jobs_failed", SEND, 2)
    table.add("jobs_failed", SEND)
    table.add_first_deliveries(SEND, [0, 3, 1000])
    table.add_successes(SEND, [1, 1, 5])
    table.add_runs(SEND, [2**40])
    table.add("leases_lost", ("mail", "check"))

    read = table.numbers()
    sent = read[SEND]

    assert sent.counters == {"jobs_failed": 3, "jobs_fetched": 3, "jobs_succeeded": 3}
    assert (sent.run.total_ms, sent.run.count, sent.run.buckets[1], sent.run.buckets[3]) == (2**40 + 7, 4, 2, 1)
    assert sent.run.buckets[-1] == 1
    assert (sent.wait.total_ms, sent.wait.count) == (1003, 3)
    assert read["mail", "check"] == Numbers({"leases_lost": 1})
    assert len(read) == 2


def test_every_counter_has_a_column_of_its_own(table):
    for number, name in enumerate(COUNTERS):
        table.add(name, SEND, number + 1)
    table.add_runs(SEND, [0])
    table.add_first_deliveries(SEND, [])

    read = table.numbers()[SEND]
    assert read.counters == {name: number + 1 for number, name in enumerate(COUNTERS)}
    assert (read.run.total_ms, read.run.count, read.wait.total_ms, read.wait.count) == (0, 1, 0, 0)


def test_every_counter_of_the_tables_of_moves_and_outcomes_is_there():
    rows = [*states.SETTLING.values(), states.LEASE_GONE, states.DROPPED, states.DEAD_LETTER_REFUSED]
    moved = {name for row in rows for name in row.counters} | {
        name for names in outcome.DISCARDS.values() for name in names
    }

    assert moved <= COUNTERS.keys()


@pytest.mark.promise("S124")
def test_more_pairs_than_there_are_series_are_counted_as_other(table):
    for number in range(3 * SERIES):
        table.add("jobs_fetched", ("mail", f"job{number}"))
        table.add_first_deliveries(("mail", f"job{number}"), [7])
        assert (OTHER in table.numbers()) == (number >= SERIES - 1)

    read = table.numbers()

    assert len(read) == SERIES
    assert read["mail", "job0"].counters == {"jobs_fetched": 2}
    assert read[OTHER].counters == {"jobs_fetched": 2 * (3 * SERIES - (SERIES - 1))}
    assert sum(each.counters["jobs_fetched"] for each in read.values()) == 2 * 3 * SERIES
    assert sum(each.wait.count for each in read.values()) == 3 * SERIES


@pytest.mark.promise("S124")
@pytest.mark.parametrize("pair", [("q" * 400, "j"), ("q", "j" * 400), ("", "j"), ("other", "other")])
def test_names_that_do_not_fit_are_counted_as_other(table, pair):
    table.add("jobs_fetched", pair)

    assert table.numbers() == {OTHER: Numbers({"jobs_fetched": 1})}


@pytest.mark.parametrize("pair", [("\ud800", "\udfff"), ("é" * 50, "☃" * 50), ('"\\\n', "\0"), ("q" * 100, "j" * 200)])
def test_any_name_is_read_again(table, pair):
    table.add("jobs_fetched", pair)
    table.add("jobs_fetched", (pair[0] + "?", pair[1]))

    assert sum(each.counters["jobs_fetched"] for each in table.numbers().values()) == 2
    assert pair[0].encode(errors="replace").decode() in {queue for queue, _ in table.numbers()}


def test_a_sum_of_lengths_that_does_not_fit_stays_at_its_most(table):
    for _ in range(3):
        table.add_first_deliveries(SEND, [2**63])

    assert table.numbers()[SEND].wait.total_ms == 2**63
    assert table.numbers()[SEND].wait.count == 3


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(lambda metrics, name: metrics.add(name, "mail"), id="a batch"),
        pytest.param(lambda metrics, name: metrics.add_one(name, ("mail", "send")), id="one job"),
    ],
)
def test_an_error_in_counting_is_logged_once_and_raises_nothing(caplog, count):
    jobs = Onward("memory://")

    def raises():
        try:
            count(jobs.metrics, "no_such_counter")
        except KeyError:
            return True
        return False

    assert [raises() for _ in range(3)] == [False] * 3
    count(jobs.metrics, "jobs_fetched")

    assert [line.message for line in caplog.records if "could not be counted" in line.message] == [
        "something could not be counted; further errors of this kind are not logged"
    ]
    assert jobs.metrics.snapshot() == {"jobs_fetched": {"mail": 1}}


def test_the_first_delivery_tells_how_long_a_job_was_due():
    clock = FakeClock()
    jobs = Onward("memory://", clock=clock)

    @jobs.job(retry=NoDelay(), max_retries=3)
    def work():
        if jobs.metrics.count("jobs_failed") < 3:
            raise RuntimeError

    work.enqueue()
    work.using(delay=60).enqueue()
    clock.advance(64)
    jobs.drain()
    numbers = jobs.metrics.numbers()["default", "work"]

    assert numbers.counters["jobs_fetched"] == 5
    assert (numbers.wait.count, numbers.wait.total_ms) == (2, 64_000 + 4_000)
    assert numbers.run.count == numbers.counters["jobs_failed"] + numbers.counters["jobs_succeeded"] == 5


@pytest.mark.parametrize(
    ("enqueued", "not_before", "claimed", "waited"),
    [
        (0, None, 5_000_999, 5000),
        (0, 4_000_000, 5_000_000, 1000),
        (4_000_000, 1, 5_000_000, 1000),
        (9_000_000, None, 1, 0),
    ],
)
def test_a_job_waits_from_when_it_was_due_and_never_less_than_nothing(enqueued, not_before, claimed, waited):
    jobs = Onward("memory://")
    letter = Letter(
        id="a", namespace="n", queue="mail", job="send", max_crashes=1, enqueued_at=enqueued, not_before=not_before
    )
    lease = Lease(envelope=Sealed("a", "mail", b""), token=1, owner="o", expires_at=0, claimed_at=claimed)
    opened = Attempt(lease=lease, letter=letter, outcome=Released())

    Reporter(jobs.metrics, jobs.telemetry).fetched([opened])
    assert jobs.metrics.numbers()[SEND].wait.total_ms == waited

    again = structs.replace(opened, lease=structs.replace(lease, token=2))
    Reporter(jobs.metrics, jobs.telemetry).fetched([again])
    Reporter(jobs.metrics, jobs.telemetry).fetched([opened], inherited=True)
    assert jobs.metrics.numbers()[SEND].wait.count == 1
    assert jobs.metrics.count("jobs_fetched", "mail") == 3


def test_metrics_that_are_off_count_nothing():
    with Onward("memory://", metrics=False) as jobs:
        work = jobs.job(name="work")(lambda: None)
        work.enqueue()

        assert jobs.drain() == 1
        assert jobs.metrics.numbers() == {}


def test_a_fork_counts_apart_from_its_parent():
    board = RunBoard.create()
    jobs = Onward("memory://")
    jobs.metrics.add("jobs_fetched", "mail", 5, job="send")
    jobs.metrics.count_into(board.counters)
    jobs.metrics.add("jobs_fetched", "mail", 2, job="send")

    pid = os.fork()
    if pid == 0:
        jobs.metrics.add("jobs_fetched", "mail", 100, job="send")
        os._exit(jobs.metrics.count("jobs_fetched"))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    jobs.metrics.add("jobs_fetched", "mail", 1, job="send")

    assert code == 107
    assert board.counters.numbers() == {SEND: Numbers({"jobs_fetched": 8})}


WRITER = textwrap.dedent(
    """
    import sys
    from onward.supervisor.run_board import RunBoard
    table = RunBoard(int(sys.argv[1])).counters
    step = 0x0101_0101_0101
    while True:
        table.add("jobs_fetched", ("mail", "send"), step)
    """
)


@pytest.mark.promise("S120")
def test_a_reader_never_sees_half_of_a_number_nor_one_that_goes_back():
    board = RunBoard.create()
    step, seen = 0x0101_0101_0101, 0
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(board.fd)], pass_fds=(board.fd,))
    try:
        while seen < 30_000 * step:
            read = board.counters.numbers().get(SEND, Numbers()).counters.get("jobs_fetched", 0)
            assert read % step == 0, hex(read)
            assert read >= seen
            seen = read
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert board.counters.numbers()[SEND].counters["jobs_fetched"] >= seen  # what was counted survives its process
    board.close()
