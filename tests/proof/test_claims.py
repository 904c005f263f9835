"""Claims where much is dead or much waits; `make proof` runs the same at full scale."""

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow


@pytest.mark.promise("F44")
def test_a_snapshot_that_is_kept_open_does_not_slow_claims_down(tmp_path, scale, report):
    # The speeds are compared at full scale only: in seconds a busy machine tells nothing.
    ledger = proofs.claims_behind_a_snapshot(tmp_path, scale / 3, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger


@pytest.mark.promise("F45", "F46")
def test_a_claim_in_full_tables_costs_what_it_costs_in_empty_ones(tmp_path, scale, report):
    ledger = proofs.claims_in_full_tables(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger
