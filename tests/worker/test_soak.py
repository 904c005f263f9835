"""Mixed jobs through a worker that is stopped and started all the time; `make proof` runs the same at full scale."""

import os

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def scale():
    """The fraction of the full scale: 1 is a hundred thousand jobs and fifty restarts."""
    return float(os.environ.get("ONWARD_PROOF_SCALE", "0.03"))


@pytest.mark.promise("F82", "F85")
@pytest.mark.parametrize("proof", [proofs.worker_on_a_file, proofs.worker_on_postgres, proofs.worker_in_memory])
def test_nothing_is_lost_and_nothing_settled_twice(file, scale, report, proof):
    ledger = proof(file.parent, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger
