"""What looks at a store cost; `make proof` runs the same at full scale."""

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow


@pytest.mark.promise("S125")
@pytest.mark.parametrize(
    "proof", [proofs.looks_at_a_full_file, proofs.looks_at_full_tables, proofs.looks_at_full_tables_of_mariadb]
)
def test_a_look_costs_what_it_may_count_whatever_is_stored(proof, tmp_path, scale, report):
    ledger = proof(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger


@pytest.mark.promise("S146")
@pytest.mark.parametrize(
    "proof", [proofs.watchers_of_a_file, proofs.watchers_of_tables, proofs.watchers_of_the_dashboard]
)
def test_fifty_people_who_watch_cost_one_look_in_two_seconds_and_no_throughput(proof, tmp_path, scale, report):
    ledger = proof(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger
