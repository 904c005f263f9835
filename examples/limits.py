"""Limits over all workers: how many at once, how many in a minute, whose turn, and when to start nothing.

    python examples/limits.py

The clock is a fake one, so no test waits for a delay.  Everything that is told is also asserted.
"""

import logging

from onward import Breaker, Limit, NoDelay, Onward, Throttle
from onward.testing import FakeClock

logging.getLogger("onward").setLevel(logging.CRITICAL)  # what fails here fails on purpose

clock = FakeClock()
jobs = Onward("memory://", clock=clock, fair_by="tenant", queue_limits={"mail": Limit(rate="50/min", burst=5)})

started: list[str] = []
TOO_MANY = iter([True])  # what the other side says to the first request
BANK = {"is away": True}


@jobs.job(limit=Limit(rate="10/min", by="customer"))
def call(customer: str) -> None:
    started.append(customer)


@jobs.job
def render(tenant: str) -> None:
    started.append(tenant)


@jobs.job(queue="mail")
def send() -> None:
    started.append("mail")


@jobs.job(limit=Limit(running=5, by="customer"))
def fetch(customer: str) -> None:
    started.append(customer)
    if customer == "busy" and next(TOO_MANY, None):
        raise Throttle(after=30)


@jobs.job(breaker=Breaker(failures=3, of=5, pause=30, longest=120, on=ConnectionError), max_retries=20, retry=NoDelay())
def charge(order: int) -> None:
    started.append("charge")
    if BANK["is away"]:
        raise ConnectionError(f"the bank does not answer for order {order}")


def main() -> None:
    with jobs:
        rates()
        turns()
        queue()
        throttle()
        breaker()


def rates() -> None:
    call.enqueue_many([("acme",)] * 25 + [("small",)] * 3)
    now, later = run(), run(after=60)
    tell(f"Ten calls a minute for each customer: {now['acme']} of acme's 25 at once, {later['acme']} a minute later.")
    assert (now, later, run(after=60)) == ({"acme": 10, "small": 3}, {"acme": 10}, {"acme": 5})


def turns() -> None:
    render.enqueue_many([("big",)] * 1000)
    render.enqueue_many([("tiny",)] * 10)
    started.clear()
    for _ in range(25):
        jobs.process_once()
    tell(f"Behind a thousand jobs of a big tenant, the tiny one's ten are among the first {len(started)}.")
    assert started.count("tiny") == 10
    run()


def queue() -> None:
    send.enqueue_many([()] * 12)
    now, later = run(), run(after=6)
    tell(f"A queue with a rate: {now['mail']} mails at once, {later['mail']} in the next six seconds.")
    assert (now, later) == ({"mail": 5}, {"mail": 5})
    jobs.limits.set(queue="mail", rate="600/min")
    assert run(after=60) == {"mail": 2}


def throttle() -> None:
    fetch.enqueue_many([("busy",)] * 3 + [("quiet",)] * 3)
    now, later = run(), run(after=31)
    tell(f"'Too many requests' shuts one customer's lane: {now['quiet']} of the quiet one's go on meanwhile.")
    assert (now, later) == ({"busy": 1, "quiet": 3}, {"busy": 3})


def breaker() -> None:
    handles = charge.enqueue_many([(number,) for number in range(8)])
    now, probe = run(), run(after=30)
    tell(
        f"The bank is away: {now['charge']} runs fail and the job is shut; half a minute later {probe['charge']} probes."
    )
    assert (now, probe) == ({"charge": 3}, {"charge": 1})
    BANK["is away"] = False
    run(after=60)
    states = {handle.state() for handle in handles}
    tell(f"The bank is back: the probe succeeds, and all {len(handles)} are {', '.join(states)}.")
    assert states == {"completed"}


def run(after: float = 0) -> dict[str, int]:
    """Run what may start, so many seconds later; returns how many did, by whose they are."""
    started.clear()
    clock.advance(after)
    jobs.drain()
    return {name: started.count(name) for name in dict.fromkeys(sorted(started))}


def tell(text: str) -> None:
    print(text)


if __name__ == "__main__":
    main()
