import pytest

from onward.base.backoff import doubling, jittered


@pytest.mark.parametrize(("failures", "pause"), [(1, 0.2), (2, 0.4), (4, 1.6), (5, 2.0), (100_000, 2.0)])
def test_the_pause_doubles_up_to_the_limit(failures, pause):
    assert doubling(0.2, failures, 2.0) == pytest.approx(pause)


def test_jitter_takes_away_at_most_half():
    pauses = [jittered(2.0) for _ in range(200)]

    assert min(pauses) >= 1.0
    assert max(pauses) <= 2.0
    assert len(set(pauses)) > 1
