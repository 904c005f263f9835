"""A schedule whose job works in steps: it fails, sleeps and waits for a person, and does nothing twice.

    python examples/schedules_and_steps.py

The clock is a fake one, so no test waits for a delay.  Everything that is told is also asserted.
"""

import logging
from datetime import UTC, datetime

from onward import Fixed, JobContext, Onward
from onward.testing import FakeClock

logging.getLogger("onward").setLevel(logging.CRITICAL)  # what fails here fails on purpose

clock = FakeClock(datetime(2026, 3, 27, 7, 59, 30, tzinfo=UTC))
jobs = Onward("memory://", clock=clock)

effects = []


@jobs.schedule("0 9 * * mon-fri", tz="Europe/Berlin")
@jobs.job(max_retries=2, retry=Fixed(60))
def pay_suppliers(ctx: JobContext) -> str:
    amount = ctx.step("add-up", add_up)
    if not ctx.wait_for("approved", timeout="7d", returns=bool):
        return "called off"
    payment = ctx.step("pay", pay, amount, key=ctx.key("pay"))  # the bank knows the key of a payment that comes again
    if ctx.attempt == 1:
        raise ConnectionError("the mail server does not answer")
    ctx.sleep("until-booked", "1d")
    return f"{payment}, of {ctx.scheduled_for:%d %B}"


def add_up() -> int:
    effects.append("added up")
    return 1999


def pay(amount: int, *, key: str) -> str:
    effects.append(f"paid under {key[-3:]}")
    return f"{amount / 100:.2f} paid"


def main() -> None:
    with jobs:
        jobs.drain()
        (job,) = jobs.list()
        tell(f"Half a minute early, the tick of nine in Berlin is booked: {job.state}.")
        assert (job.state, effects) == ("scheduled", [])

        clock.advance(30)
        jobs.drain()
        tell(f"At nine it adds up, and waits for {jobs.get(job.id).waiting_for!r} without holding a worker.")
        assert effects == ["added up"]

        jobs.signal(job.id, "approved", value=True)
        jobs.drain()
        tell(f"A person approves. It pays, and fails after that: {jobs.get(job.id).state}.")
        assert jobs.get(job.id).state == "retryable"

        clock.advance(60)
        jobs.drain()
        tell(f"The second attempt skips what is noted, and sleeps for a day: {jobs.get(job.id).state}.")
        assert effects == ["added up", "paid under pay"]

        clock.advance(86_400)
        jobs.drain()
        tell(f"A day later: {jobs.get(job.id).result}.")
        assert jobs.get(job.id).result == "19.99 paid, of 27 March"
        tell(f"{len(effects)} effects, none of them twice.")


def tell(text: str) -> None:
    print(text)


if __name__ == "__main__":
    main()
