"""Processes that are killed, paused and replaced all the time; `make proof` runs the same at full scale."""

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow


@pytest.mark.promise("F01", "F02", "F04", "F24")
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "proof",
    [
        proofs.worker_processes_are_killed,
        proofs.worker_processes_are_killed_on_postgres,
        proofs.worker_processes_are_killed_on_mariadb,
        proofs.worker_processes_are_killed_on_redis,
    ],
    ids=["sqlite", "postgres", "mariadb", "redis"],
)
def test_nothing_is_lost_and_every_second_run_is_explained(proof, tmp_path, scale, report):
    ledger = proof(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger
    done = ("kills of workers", "kills of supervisors", "pauses", "cut replies", "clock jumps", "deploys")
    assert all(ledger.figures[each] for each in done), ledger


@pytest.mark.promise("A12", "F90", "F91")
@pytest.mark.parametrize(
    "proof",
    [proofs.transactions_on_a_file, proofs.transactions_on_postgres, proofs.transactions_on_mariadb],
    ids=["sqlite", "postgres", "mariadb"],
)
def test_every_effect_of_a_transaction_happens_exactly_once(proof, tmp_path, scale, report):
    ledger = proof(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger


@pytest.mark.promise("A22")
def test_every_job_that_moves_is_there_once_and_what_it_was(tmp_path, scale, report):
    ledger = proofs.jobs_are_transferred(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger
    assert ledger.figures["kills of transfers"] > 0
