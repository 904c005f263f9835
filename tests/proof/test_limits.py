"""Limits under kills, rates of many processes, turns between tenants; `make proof` runs the same at full scale."""

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow

on_every_store = pytest.mark.parametrize("place", ["a_file", "postgres", "mariadb", "redis"])


def prove(name, place, tmp_path, scale, report):
    ledger = getattr(proofs, f"{name}_on_{place}")(tmp_path, scale, lambda _: None)
    report(str(ledger))
    assert ledger.flawless, ledger


@pytest.mark.promise("L46")
@on_every_store
def test_never_more_leases_than_the_limit_under_kills_and_lost_answers(place, tmp_path, scale, report):
    prove("a_limit_under_fire", place, tmp_path, scale, report)


@pytest.mark.promise("L49")
@on_every_store
def test_many_processes_keep_to_one_rate_and_use_it(place, tmp_path, scale, report):
    prove("a_rate", place, tmp_path, scale, report)


@pytest.mark.promise("L50", "L51", "L52")
@on_every_store
def test_tenants_take_turns_and_a_claim_looks_at_little_however_much_waits(place, tmp_path, scale, report):
    prove("tenants_take_turns", place, tmp_path, scale, report)
