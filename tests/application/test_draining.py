"""`drain(raising=True)`: the first failed attempt's own exception, where the test is."""

import asyncio
import traceback

import pytest

from onward import Discard, Retry, Snooze


class OutOfStock(Exception):
    pass


def test_the_exception_itself_is_raised_after_its_attempt_was_stored(jobs):
    error = OutOfStock("no more of these")

    @jobs.job(max_retries=3)
    def ship() -> None:
        raise error

    handle = ship.enqueue()

    with pytest.raises(OutOfStock) as raised:
        jobs.drain(raising=True)

    assert raised.value is error
    assert "in ship" in "".join(traceback.format_exception(raised.value))
    assert (handle.state(), handle.record().errors[-1].kind) == ("retryable", f"{__name__}.OutOfStock")


def test_so_is_that_of_an_async_handler(jobs):
    @jobs.job
    async def ship() -> None:
        await asyncio.sleep(0)
        raise OutOfStock

    handle = ship.enqueue()

    with pytest.raises(OutOfStock):
        jobs.drain(raising=True)
    assert handle.state() == "discarded"


def test_what_comes_after_it_waits_for_the_next(jobs):
    @jobs.job
    def ship(n: int) -> int:
        if n == 1:
            raise OutOfStock
        return n

    handles = [ship.enqueue(n) for n in range(3)]

    with pytest.raises(OutOfStock):
        jobs.drain(raising=True)
    assert [handle.state() for handle in handles] == ["completed", "discarded", "available"]
    assert jobs.drain(raising=True) == 1


@pytest.mark.parametrize("wish", [Retry(60), Snooze(60), Discard("not needed")])
def test_what_a_handler_wishes_is_no_failure(jobs, wish):
    @jobs.job(max_retries=3)
    def ship() -> None:
        raise wish

    ship.enqueue()

    assert jobs.drain(raising=True) == 1


def test_a_time_out_is_a_time_out(jobs):
    @jobs.job(timeout=0.05)
    async def ship() -> None:
        await asyncio.sleep(60)

    ship.enqueue()

    with pytest.raises(TimeoutError, match="cancelled at its time-out"):
        jobs.drain(raising=True)


def test_arguments_that_do_not_fit_are_raised_too(jobs):
    @jobs.job
    def ship() -> None: ...

    jobs.backend.enqueue([jobs.client.letters.seal(ship.definition, ship._options, b'{"n":1}')])

    with pytest.raises(Exception, match="n"):
        jobs.drain("default", raising=True)


def test_without_it_nothing_is_raised(jobs):
    @jobs.job
    def ship() -> None:
        raise OutOfStock

    ship.enqueue()

    assert jobs.drain() == 1
