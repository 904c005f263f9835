"""Many processes and threads on one store: nothing is lost, claimed twice or settled twice, and no lock error shows."""

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow


@pytest.fixture
def prove(tmp_path, scale, report):
    """Run a proof as large as asked for, and say how large that was."""

    def run(proof):
        ledger = proof(tmp_path, scale, lambda _: None)
        report(str(ledger))
        return ledger

    return run


@pytest.mark.promise("F47", "F48")
def test_processes_that_share_a_file_claim_and_settle_every_job_exactly_once(prove):
    ledger = prove(proofs.processes_share_a_file)

    assert ledger.flawless, ledger


@pytest.mark.promise("F48")
def test_threads_that_share_a_backend_claim_and_settle_every_job_exactly_once(prove):
    ledger = prove(proofs.threads_share_a_file)

    assert ledger.flawless, ledger


def test_threads_that_share_memory_claim_and_settle_every_job_exactly_once(prove):
    ledger = prove(proofs.threads_share_memory)

    assert ledger.flawless, ledger


@pytest.mark.promise("F47")
def test_no_process_that_enqueues_hears_of_a_lock(prove):
    ledger = prove(proofs.processes_enqueue_one_by_one)

    assert ledger.flawless, ledger


@pytest.mark.promise("S34")
def test_a_unique_key_goes_to_one_of_many_processes(prove):
    ledger = prove(proofs.many_rivals_for_one_key)

    assert ledger.flawless, ledger


@pytest.mark.promise("F49")
def test_the_log_is_short_again_one_prune_after_a_long_reader_left(prove):
    ledger = prove(proofs.log_behind_a_reader)

    assert ledger.flawless, ledger
