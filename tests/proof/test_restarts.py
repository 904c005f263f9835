"""A server that is killed all the time; `make proof` runs the same at full scale."""

import pytest

from tests.proof import proofs

pytestmark = pytest.mark.slow


@pytest.mark.promise("F25", "F26", "F27", "F28")
def test_nothing_is_lost_or_settled_twice_by_a_redis_server_that_is_killed(tmp_path, scale, report):
    ledger = proofs.redis_is_killed(tmp_path, scale, lambda _: None)

    report(str(ledger))
    assert ledger.flawless, ledger
