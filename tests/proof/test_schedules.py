"""Supervisors that are killed while they book; `make proof` runs the same for five minutes."""

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow


@pytest.mark.promise("S84")
@pytest.mark.parametrize(
    "proof",
    [
        proofs.schedules_on_a_file,
        proofs.schedules_on_postgres,
        proofs.schedules_on_mariadb,
        proofs.schedules_on_redis,
    ],
    ids=["sqlite", "postgres", "mariadb", "redis"],
)
def test_every_tick_is_a_job_once_and_runs(proof, tmp_path, scale, report):
    ledger = proof(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger
    assert ledger.figures["ticks"] > 100
