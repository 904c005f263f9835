"""Samples of processes over a store that loses calls and answers: every number arrives once, and the rows stay few."""

import itertools
import os
import random
from collections import Counter

import pytest

from onward.backend import SAMPLER, Look
from onward.backends.memory import MemoryBackend
from onward.contract.samples import MINUTE, TEN_MINUTES
from onward.errors import BackendUnavailable
from onward.operate.series.measured import MOST_SERIES, Measured
from onward.operate.series.sampling import Sampling
from onward.telemetry.numbers import BUCKETS, Histogram, Numbers
from onward.testing import FakeClock
from onward.testing.contract.builders import an_envelope, some_envelopes

EVERYTHING = (0, 1 << 52)
HOUR, DAY = 3600, 24 * 3600


class Process:
    """A process that counts and sends."""

    def __init__(self, backend, clock, build="b1"):
        self.totals = {}
        self.dropped = 0
        self.sampling = Sampling(
            backend, lambda: self.totals, clock=clock, build=build, every=0, dropped=lambda: self.dropped
        )

    def count(self, number=1, pair=("mail", "send"), ms=7):
        self.dropped += number  # as if each had dropped an event
        run = Histogram(number * ms, tuple(number if place == ms.bit_length() else 0 for place in range(BUCKETS)))
        self.totals = {
            **self.totals,
            pair: self.totals.get(pair, Numbers()).added(Numbers({"jobs_succeeded": number}, run)),
        }

    def round(self):
        """Renew, and do the work of the sampler; a store that does not answer is asked again in the next round."""
        try:
            renewal = self.sampling.extend("owner")
        except BackendUnavailable:
            return None
        self.sampling.work()
        return renewal


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def backend(clock):
    return MemoryBackend(clock=clock)


@pytest.fixture
def process(backend, clock):
    return Process(backend, clock)


def rows(backend):
    return backend.look(Look(series=EVERYTHING, at_most=100_000)).series


def stored(backend):
    """What all rows have counted, by pair.  As many events were dropped as jobs succeeded."""
    found, dropped = Counter(), 0
    for row in rows(backend):
        measured = Measured.decoded(row.data)
        dropped += measured.events_dropped
        for pair, numbers in measured.numbers.items():
            found[pair] += numbers.counters.get("jobs_succeeded", 0)
            found["ms"] += numbers.run.total_ms
    assert dropped == found.total() - found["ms"]
    return found


def test_a_sample_has_what_was_counted_in_its_minute(backend, clock, process):
    process.count(3)
    process.round()
    clock.advance(10)
    process.count(2)
    process.round()
    clock.advance(60)
    process.count(4)
    process.round()

    own = [Measured.decoded(row.data) for row in rows(backend) if row.reporter != SAMPLER]
    assert [each.numbers["mail", "send"].counters for each in own] == [{"jobs_succeeded": 5}, {"jobs_succeeded": 4}]
    assert [each.events_dropped for each in own] == [5, 4]
    assert {each.builds for each in own} == {("b1",)}


@pytest.mark.promise("S121")
def test_a_sample_whose_answer_was_lost_is_sent_again_and_not_counted_twice(backend, clock, process, monkeypatch):
    extend, is_lost = backend.extend, iter([True])

    def lossy(owner, *, sample=None):
        renewal = extend(owner, sample=sample)
        if next(is_lost, False):
            raise BackendUnavailable("the answer was lost")
        return renewal

    monkeypatch.setattr(backend, "extend", lossy)
    clock.advance(55)
    process.count(3)
    assert process.round() is None
    clock.advance(10)
    process.count(2)
    process.round()
    clock.advance(10)
    process.round()

    own = [
        (row.at % (60 * MINUTE) // MINUTE, Measured.decoded(row.data)) for row in rows(backend) if row.reporter != "*"
    ]
    assert [(at, each.numbers["mail", "send"].counters["jobs_succeeded"]) for at, each in own] == [(0, 3), (1, 2)]


def test_a_sample_of_a_wrong_clock_is_corrected_by_that_of_the_store(backend, clock):
    wrong = FakeClock()
    wrong.advance(-DAY)
    process = Process(backend, wrong)
    process.count(3)
    process.round()
    assert rows(backend) == ()

    process.round()

    assert stored(backend)["mail", "send"] == 3
    assert {row.at for row in rows(backend)} == {clock.micros()}


@pytest.mark.parametrize("back", [30, 3600], ids=["a little", "far"])
def test_a_clock_that_is_set_back_loses_nothing(backend, clock, process, back):
    clock.advance(65)
    process.count(3)
    process.round()
    clock.advance(-back)
    for _ in range(3):
        process.count(2)
        process.round()
        clock.advance(30)

    assert stored(backend)["mail", "send"] == 9


def test_the_sampler_stores_how_full_the_queues_are(backend, clock, process):
    backend.enqueue([an_envelope(queue="mail")])
    clock.advance(20)
    backend.enqueue(some_envelopes(2, queue="mail"))
    process.round()

    (row,) = [row for row in rows(backend) if row.reporter == SAMPLER]
    measured = Measured.decoded(row.data)
    assert (measured.looked, measured.minutes) == (True, 0)
    assert {name: (level.depth, level.age_ms) for name, level in measured.queues.items()} == {"mail": (3, 20_000)}


@pytest.mark.promise("S121")
def test_a_sampler_that_dies_leaves_its_work_to_the_next(backend, clock, process):
    other = Process(backend, clock)
    other.sampling.work = lambda: None  # it dies when it is the sampler
    for minute in range(10):
        for each in (other, process) if minute < 6 else (process, other):
            each.count()
            each.round()
        clock.advance(60)

    assert stored(backend)["mail", "send"] == 20
    widths = {row.at: row.width for row in rows(backend)}
    assert Counter(widths.values()) == {MINUTE: 7, 0: 3}


@pytest.mark.promise("S121", "S122")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_over_six_hours_of_lost_answers_every_number_arrives_once_and_the_rows_stay_few(backend, clock, seed, report):
    report(f"seed {seed}: {lose_answers(backend, clock, seed, hours=6)}")


@pytest.mark.promise("S121", "S122")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql", "redis"])
def test_every_store_keeps_each_number_once_over_lost_answers(open_store, clock, kind, report):
    report(f"{kind}: {lose_answers(open_store(kind), clock, seed=4, hours=3)}")


def lose_answers(backend, clock, seed, *, hours):
    """Let three processes send samples, one call in seven of which is lost, unanswered or repeated; compare the sums."""
    draw = random.Random(seed)
    processes = [Process(backend, clock) for _ in range(3)]
    extend = backend.extend
    lost = Counter()

    def lossy(owner, *, sample=None):
        die = draw.random()
        if die < 0.05:
            lost["calls"] += 1
            raise BackendUnavailable("the call was lost")
        renewal = extend(owner, sample=sample)
        if die < 0.1:
            lost["answers"] += 1
            raise BackendUnavailable("the answer was lost")
        if sample is not None and die < 0.15:
            extend(owner, sample=sample)  # it arrives twice
            lost["repeated"] += 1
        return renewal

    backend.extend = lossy
    counted = Counter()
    for _ in range(hours * HOUR // 20):
        clock.advance(20)
        for number, process in enumerate(processes):
            if draw.random() < 0.7:
                pair, ms = (f"queue-{number}", "send"), draw.randrange(10_000)
                process.count(1, pair, ms)
                counted[pair] += 1
                counted["ms"] += ms
            process.round()
    backend.extend = extend
    for process in processes:  # the last answers
        process.round()
        process.round()

    assert stored(backend) == counted
    assert min(lost.values()) > 10 * hours
    found = Counter(row.width for row in rows(backend))
    assert found[TEN_MINUTES] >= 6 * hours - 16
    assert found[MINUTE] <= 145
    assert found[0] <= 6 * 4
    return f"{hours} hours of 3 processes: {dict(lost)}, {len(rows(backend))} rows, sums are equal"


@pytest.mark.promise("S122")
@pytest.mark.timeout(600)
def test_200_queues_of_50_jobs_stay_within_the_bounds_and_are_removed_after_seven_days(backend, clock, report):
    process = Process(backend, clock)
    pairs = itertools.cycle([(f"queue-{q}", f"job-{j}") for q in range(200) for j in range(50)])
    times = Histogram(90_000, (1_000,) * BUCKETS)
    hours = 8 * 24 if float(os.environ.get("ONWARD_PROOF_SCALE", "0")) >= 1 else 5
    for minute in range(hours * 60):
        if minute % 5 == 0:  # 255 of them, as many as a table of counters has
            process.sampling._told = {}
            process.totals = dict.fromkeys(itertools.islice(pairs, 255), Numbers({"jobs_succeeded": 9}, times, times))
        process.round()
        clock.advance(60)

    found = rows(backend)
    kept = min(hours, 7 * 24)
    assert found[0].at >= clock.micros() - (kept * HOUR + 120) * 1_000_000
    assert len(found) <= (kept - 2) * 6 + 120 + 20
    assert max(len(Measured.decoded(row.data).numbers) for row in found if row.width) == MOST_SERIES
    largest = max(len(row.data) for row in found if row.width)
    report(f"200 queues x 50 jobs, {hours} h: {len(found):,} rows, none larger than {largest:,} bytes")
    assert largest * 1_130 <= 15_000_000

    clock.advance(7 * DAY)
    process.round()
    assert min(row.at for row in rows(backend)) >= clock.micros() - 2 * MINUTE


def test_history_that_was_left_when_no_process_ran_is_merged_later(backend, clock, process):
    for _ in range(60):
        process.count()
        process.round()
        clock.advance(60)
    clock.advance(2 * DAY)
    assert Counter(row.width for row in rows(backend))[TEN_MINUTES] == 0

    for _ in range(2 * 60):
        process.round()
        clock.advance(60)

    old = [row for row in rows(backend) if row.at < clock.micros() - DAY * 1_000_000]
    assert Counter(row.width for row in old) == {TEN_MINUTES: 6}
    assert stored(backend)["mail", "send"] == 60


def test_a_row_that_cannot_be_read_is_left_as_it_is_and_so_are_those_beside_it(backend, clock, process):
    process.count()
    process.round()
    (row,) = [row for row in rows(backend) if row.reporter != SAMPLER]
    backend._store.series[row.at, "other"] = type(row)(at=row.at, width=0, reporter="other", data=b"\xff")
    clock.advance(240)
    process.round()

    assert {each.reporter for each in rows(backend) if each.at == row.at} == {SAMPLER, row.reporter, "other"}


class TestTrouble:
    @pytest.mark.promise("S123")
    def test_a_store_that_refuses_samples_is_told_of_once_and_asked_less_often(
        self, backend, clock, caplog, monkeypatch
    ):
        asked = []

        def refusing(sample):
            asked.append(sample)
            raise BackendUnavailable("no room for samples")

        monkeypatch.setattr(backend, "_keep_sample", refusing)
        process = Process(backend, clock)
        for _ in range(20):
            assert process.round() is not None

        assert len(asked) == 1
        lines = [record.getMessage() for record in caplog.records if record.name == "onward.series"]
        assert len(lines) == 1
        assert "the store refused a sample: no room for samples" in lines[0]
        assert "jobs go on" in lines[0]

    @pytest.mark.promise("S123")
    def test_numbers_that_cannot_be_read_change_no_renewal(self, backend, clock, caplog):
        sampling = Sampling(backend, lambda: 1 // 0, clock=clock, build="b", every=0)

        for _ in range(3):
            assert not sampling.extend("nobody").alive

        (line,) = [record.getMessage() for record in caplog.records if record.name == "onward.series"]
        assert line == (
            "a sample could not be made: ZeroDivisionError: integer division or modulo by zero; jobs go on, and this is "
            "not logged again"
        )

    @pytest.mark.promise("S123")
    def test_a_look_that_fails_is_left_to_the_next_sampler(self, backend, clock, process, caplog, monkeypatch):
        def slow(look):
            raise BackendUnavailable("a look took longer than 2 s")

        with monkeypatch.context() as patch:
            patch.setattr(backend, "look", slow)
            assert process.round() is not None
        assert "the store could not be sampled" in caplog.text
        clock.advance(60)
        process.round()

        assert [Measured.decoded(row.data).looked for row in rows(backend) if row.reporter == SAMPLER] == [False, True]

    @pytest.mark.promise("S123")
    def test_a_last_sample_that_cannot_be_sent_is_no_error(self, backend, process):
        backend.close()

        process.sampling.finish()


def test_samples_are_not_sent_more_often_than_every_nine_seconds(backend, clock):
    sampling = Sampling(backend, dict, clock=clock, build="b")
    sent = [sampling.extend("owner").now is not None for _ in range(50)]

    assert sent == [True] + [False] * 49


def test_the_last_sample_does_not_wait(backend, clock):
    counted = {}
    sampling = Sampling(backend, lambda: counted, clock=clock, build="b", dropped=lambda: len(counted))
    sampling.extend("owner")
    counted["mail", "send"] = Numbers({"jobs_succeeded": 1})

    sampling.finish()

    assert stored(backend)["mail", "send"] == 1
