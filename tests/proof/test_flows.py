"""Random flows while processes and servers are killed; `make proof` runs the same at full scale."""

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow


@pytest.mark.promise("W71", "W72", "W74", "W76", "W77", "W78")
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("place", ["a_file", "postgres", "mariadb", "redis"])
def test_every_flow_ends_by_the_rules_whatever_is_killed(place, tmp_path, scale, report):
    ledger = getattr(proofs, f"flows_under_fire_on_{place}")(tmp_path, scale, lambda _: None)

    report(str(ledger))
    if "waits for the capability flows" in ledger.figures:
        pytest.skip("this store keeps no flows")
    assert ledger.flawless, ledger
    assert ledger.figures["flows"] >= 40
