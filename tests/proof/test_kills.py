"""Processes that are killed all the time; `make proof` runs the same at full scale."""

import pytest

from tests.proof import proofs

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kills")]


@pytest.mark.promise("F01", "F02", "F04", "F24")
def test_nothing_is_lost_and_every_second_run_is_explained(tmp_path, scale, report):
    ledger = proofs.worker_processes_are_killed(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger
