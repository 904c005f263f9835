"""Random flows while processes and servers are killed, and very large ones; `make proof` runs the same at full scale."""

import tracemalloc
from contextlib import closing

import pytest

from onward import Onward
from tests.proof import proofs

pytestmark = pytest.mark.slow

on_every_store = pytest.mark.parametrize("place", ["a_file", "postgres", "mariadb", "redis"])


def prove(name, place, tmp_path, scale, report):
    ledger = getattr(proofs, f"{name}_on_{place}")(tmp_path, scale, lambda _: None)
    report(str(ledger))
    assert ledger.flawless, ledger


@pytest.mark.promise("W71", "W72", "W76", "W77", "W78")
@pytest.mark.timeout(3_600)
@on_every_store
def test_every_flow_ends_by_the_rules_whatever_is_killed(place, tmp_path, scale, report):
    prove("flows_under_fire", place, tmp_path, scale, report)


@pytest.mark.promise("W74")
@pytest.mark.timeout(3_600)
@on_every_store
def test_what_comes_after_very_many_jobs_starts_once(place, tmp_path, scale, report):
    prove("chord", place, tmp_path, scale, report)


@pytest.mark.promise("W74")
def test_the_memory_of_a_client_does_not_grow_with_a_batch(tmp_path, report):
    jobs = Onward(f"sqlite:///{tmp_path}/jobs.db")

    @jobs.job
    def work(number: int) -> None:
        raise AssertionError("no worker runs here")

    held = []

    def numbers():
        for number in range(20_000):
            if number in (5_000, 19_999):
                held.append(tracemalloc.get_traced_memory()[0])
            yield (number,)

    with closing(jobs.connect()), jobs.batch("large") as batch:
        tracemalloc.start()
        try:
            batch.add_many(work, numbers())
        finally:
            tracemalloc.stop()

    grown = held[1] - held[0]
    report(f"a batch of 20,000 jobs: its client holds {grown / 1024:,.0f} KiB more at the end than after 5,000")
    assert grown < 2**20  # a chunk of 1,000 jobs is in hand at both moments
