"""Worker processes that serve queues by pattern, on every store."""

import time

import pytest

from onward import State
from tests.supervisor.fleets import eventually

pytestmark = [pytest.mark.every_store, pytest.mark.redis_too]


def test_a_queue_that_did_not_exist_is_served_within_about_a_second(shop, start):
    fleet = start(shop, "--queues", "other,tenant.*")
    eventually(lambda: len(shop.sessions()) == 1)
    took = []
    for number in range(3):
        began = time.monotonic()
        shop.plain.using(queue=f"tenant.{number}").enqueue().result(30)
        took.append(time.monotonic() - began)
    stranger = shop.plain.using(queue="stranger").enqueue()

    assert min(took) < 2  # of three, for the machine may be busy
    assert "queues: other, tenant.*;" in fleet.log
    assert stranger.state() is State.AVAILABLE
    assert fleet.stop() == 0


def test_it_ends_when_nothing_of_its_patterns_is_left(shop, start):
    handles = [shop.plain.using(queue=f"tenant.{number}").enqueue(number) for number in range(5)]
    stranger = shop.plain.using(queue="stranger").enqueue()
    fleet = start(shop, "--queues", "tenant.*", "--limit", "tenant.*=1", "--until-empty", ready=False)

    assert fleet.wait() == 0
    assert {handle.state() for handle in handles} == {State.COMPLETED}
    assert stranger.state() is State.AVAILABLE
    assert "this worker does not serve: stranger\n" in fleet.log
    assert "tenant.0" not in fleet.log
